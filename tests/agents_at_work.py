"""Transcripts of agents' sessions, their capture, and branches that are merged as on GitHub."""

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
    *messages: str | Record,
    at: datetime,
    session: str = SESSION,
    branch: str = "elsewhere",
    first: int = 1,
) -> bytes:
    """Return a transcript of Claude Code with a record every ten seconds.

    Args:
        messages: the text of a person's turn, or a complete record.
        at: the time of the first record.
        session: the id of the session.
        branch: the branch that the records name.
        first: the number of the first record.
    """
    lines = []
    for number, message in enumerate(messages, start=first):
        record = make_user(message, number) if isinstance(message, str) else message
        when = (at + STEP * (number - first)).isoformat()
        record = {
            key: value for key, value in record.items() if key != "cwd"
        }  # no record names another directory
        lines.append(record | {"sessionId": session, "gitBranch": branch, "timestamp": when})
    return make_lines(*lines)


def make_refusal(reason: str, number: int = 50) -> tuple[Record, Record]:
    """Return the records of a tool call and of a person's refusal with a reason."""
    call = make_agent(
        make_call("Bash", call=f"toolu_{number}", command="npm install"), number=number
    )
    return call, make_user(
        [make_result(SAID + reason, call=f"toolu_{number}", is_error=True)],
        number + 1,
        toolDenialKind="user-rejected",
    )


def keep_session(project: Project, folder: Path, data: bytes) -> str:
    """Capture a transcript as an agent's hook does, and return the key of its session."""
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
    """Merge a branch with a commit for each message, with the merge message of GitHub; return the merge's sha."""
    project.branch(branch)
    for index, message in enumerate(messages):
        project.commit(message, {path: f"{branch} {index}\n"}, author)
    title = f"Merge pull request #{number} from ada/{branch}"
    return project.merge_back(branch, f"{title}\n\n{messages[0]}")


def put_tree(project: Project, ref: str, files: dict[str, bytes]) -> None:
    """Make a ref point to a commit without parents that holds `files`, as tools store their data in git."""
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
