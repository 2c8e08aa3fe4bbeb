"""What agents leave beside a repository: transcripts in the true format, at the times of the test's commits."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from memory_ci.sessions.capture import capture
from tests.project import Project
from tests.sources.transcripts.claude import (
    SAID,
    Record,
    make_agent,
    make_call,
    make_lines,
    make_result,
    make_user,
)

SESSION = "5f3b2a10-0000-4000-8000-000000000007"
WORDS = "Never retry a POST without an idempotency key, the gateway books each one."
STEP = timedelta(seconds=10)


def make_session(
    *said: str | Record,
    at: datetime,
    session: str = SESSION,
    branch: str = "elsewhere",
    first: int = 1,
) -> bytes:
    """A transcript of Claude Code, a record every ten seconds from `at` on: human turns, and records as they are."""
    lines = []
    for number, one in enumerate(said, start=first):
        record = make_user(one, number) if isinstance(one, str) else one
        when = (at + STEP * (number - first)).isoformat()
        record = {
            key: value for key, value in record.items() if key != "cwd"
        }  # nothing says that it was elsewhere
        lines.append(record | {"sessionId": session, "gitBranch": branch, "timestamp": when})
    return make_lines(*lines)


def refusing(reason: str, number: int = 50) -> tuple[Record, Record]:
    """The call of a tool, and a person's refusal of it with this reason."""
    call = make_agent(
        make_call("Bash", call=f"toolu_{number}", command="npm install"), number=number
    )
    return call, make_user(
        [make_result(SAID + reason, call=f"toolu_{number}", is_error=True)],
        number + 1,
        toolDenialKind="user-rejected",
    )


def keep_session(project: Project, folder: Path, data: bytes) -> str:
    """Capture a transcript as an agent's hook does; the key of its session."""
    path = folder / "transcript.jsonl"
    path.write_bytes(data)
    (captured,) = capture(project.workspace, path, project.clock.now)
    return captured.session


def merge_branch(
    project: Project,
    branch: str,
    number: int,
    *messages: str,
    path: str = "src/retry.py",
    author: str | None = None,
) -> str:
    """Merge a branch with a commit for each message, as GitHub's merge button words it; the sha of the merge."""
    project.branch(branch)
    for place, message in enumerate(messages):
        project.commit(message, {path: f"{branch} {place}\n"}, author)
    title = f"Merge pull request #{number} from ada/{branch}"
    return project.merge_back(branch, f"{title}\n\n{messages[0]}")


def put_tree(project: Project, ref: str, files: dict[str, bytes]) -> None:
    """A commit of `files` alone at `ref`: how tools keep their data beside the branches of people."""
    home = project.git("rev-parse", "--abbrev-ref", "HEAD")
    project.git("checkout", "-q", "--orphan", "of-a-tool")
    project.git("rm", "-rfq", ".")
    for path, data in files.items():
        project.write(path, data)
    project.git("add", "-f", ".")
    sha = project.commit("Keep")
    project.checkout(home)
    project.git("update-ref", ref, sha)
    project.git("branch", "-q", "-D", "of-a-tool")
