"""The nudge: a line that says memory has not changed while much work went by. Once a session, and never in the way.

One git process, which is ended as soon as it is clear, and a second one where merges are among what went by. Where git
cannot say (no commit yet, a shallow clone) and where nobody keeps memory there is no nudge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, suppress
from datetime import date
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.memory.workspace import Workspace, holds_entries, memory_test
from memory_ci.records.config import NudgeConfig
from memory_ci.records.history import Commit
from memory_ci.records.names import HEADS
from memory_ci.store.files import write_file

# One of these stands at the top of a work tree whose memory is kept.
SIGNS = (CONFIG_FILE, ".memory", "MEMORY.md", "institutional.md")
# For each piece of work that is counted so many commits are looked at: those that only write episodes do not count.
REACH = 10
MAX_MARKS = 100
MAX_MARK_BYTES = 10_000


def find_nudge(workspace: Workspace, rev: str = "HEAD") -> str:
    """The line, if it is time for it on this branch; "" otherwise. Never raises for what git says."""
    return render_nudge(workspace.config.nudge) if _is_idle(workspace, rev) else ""


def nudge_once(workspace: Workspace, session: str | None, today: date) -> str:
    """The nudge once for each session; without a session, once a day in a clone. Never raises. The git directory keeps
    a note of it. If that cannot be written nothing is said, or it would be said each time."""
    with suppress(MemoryCIError, OSError):
        said, mark = _read_marks(workspace), _mark(session or today.isoformat())
        if mark not in said and _is_idle(workspace, "HEAD"):
            _write_marks(workspace, [*said, mark])
            return render_nudge(workspace.config.nudge)
    return ""


def nudge_agent(workspace: Workspace, session: str | None, today: date) -> str:
    """The same for an agent's hook, which runs at every prompt: of one session git is asked at the first only."""
    if session is None:
        return nudge_once(workspace, None, today)
    with suppress(MemoryCIError, OSError):
        said = _read_marks(workspace)
        if (mark := _mark(f"asked {session}")) not in said:
            _write_marks(workspace, [*said, mark])
            return nudge_once(workspace, session, today)
    return ""


def session_of(environment: Mapping[str, str]) -> str | None:
    """The id of the session that runs in this environment, as its agent tells its hooks."""
    from memory_ci.sessions.active_session import find_sessions  # 5 ms that an agent's hook spares

    return next((key.partition(":")[2] for key in find_sessions(environment)), None)


def is_branch_pushed(updates: Iterable[bytes], environment: Mapping[str, str]) -> bool:
    """Whether a push brings commits to a branch, by the standard input of its hook: no tag, no deletion. pre-commit and
    prek do not pass the input on; they name what is pushed by a variable."""
    if name := environment.get("PRE_COMMIT_REMOTE_BRANCH"):
        return name.startswith(HEADS)
    fields = (line.decode("utf-8", "replace").split() for line in updates)
    return any(
        len(update) == 4 and update[1].strip("0") and update[2].startswith(HEADS)
        for update in fields
    )


def _is_idle(workspace: Workspace, rev: str) -> bool:
    """Whether `nudge.after` pieces of work or more went by since memory changed."""
    root = workspace.repo.root
    is_shallow = (workspace.repo.common_dir / "shallow").exists()
    keeps_memory = (
        root is not None and not is_shallow and any((root / sign).exists() for sign in SIGNS)
    )
    settings = workspace.config.nudge
    if not settings.after or not keeps_memory:
        return False
    with suppress(RepositoryError):
        past = _look_back(workspace, rev)
        if past.is_enough or not past.has_merges or settings.unit == "changes":
            return past.is_enough
        # of what came since, the commits of merged branches one by one
        asked = ("--no-merges", rev, *([f"^{past.changed}"] if past.changed else []))
        with closing(_read_commits(workspace, *asked)) as commits:
            work = (commit for commit in commits if _is_work(workspace, commit))
            return len(list(islice(work, settings.after))) == settings.after
    return False


class _Past(NamedTuple):
    """What is on the branch since memory changed there, and whether it is enough. `changed` is the commit that changed
    it, None if none of those that were looked at did."""

    is_enough: bool
    has_merges: bool
    changed: str | None


def _look_back(workspace: Workspace, rev: str) -> _Past:
    """Along first parents, where a merge is what it brought: a branch that changed memory long ago does so today. A
    merge that brought work counts for one piece, as it holds one or more."""
    settings, count, has_merges, number = workspace.config.nudge, 0, False, None
    with closing(_read_commits(workspace, "--first-parent", rev)) as commits:
        for commit in commits:
            if any(holds_entries(workspace, file.path) for file in commit.files):
                return _Past(False, has_merges, commit.sha)
            has_merges = has_merges or len(commit.parents) > 1
            last, number = number, _find_number(commit) if settings.unit == "changes" else None
            count += _is_work(workspace, commit) and (number is None or number != last)
            if count == settings.after:
                return _Past(True, has_merges, None)
    return _Past(False, has_merges, None)


def _is_work(workspace: Workspace, commit: Commit) -> bool:
    """Whether a commit changes more than memory."""
    return not all(map(memory_test(workspace), (file.path for file in commit.files)))


def _find_number(commit: Commit) -> int | None:
    from memory_ci.gitrepo.forges import find_number  # patterns, for those who count changes

    return find_number(commit.message)


def _read_commits(workspace: Workspace, which: str, *revs: str) -> Generator[Commit]:
    """The commits that may be counted, newest first; git is ended when nobody asks for more."""
    most = f"-n{REACH * workspace.config.nudge.after}"
    with closing(
        read_log(
            workspace.repo, which, most, *FILES, "--no-renames", "--end-of-options", *revs, "--"
        )
    ) as log:
        yield from (commit for commit, _ in log)


def _marks_path(workspace: Workspace) -> Path:
    return workspace.repo.common_dir / "memory-ci" / "nudged"


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]


def _read_marks(workspace: Workspace) -> list[str]:
    try:
        return (
            read_regular(_marks_path(workspace), MAX_MARK_BYTES).decode("ascii", "replace").split()
        )
    except OSError:
        return []


def _write_marks(workspace: Workspace, marks: list[str]) -> None:
    write_file(_marks_path(workspace), "".join(f"{mark}\n" for mark in marks[-MAX_MARKS:]).encode())


def render_nudge(settings: NudgeConfig) -> str:
    """One line: how much went by, and what can be done. It holds no text of anyone else's."""
    what = "commits" if settings.unit == "commits" else "merged changes"
    since = f"memory-ci: {settings.after} or more {what} since memory changed."
    return f"{since} What would the next job like to know? `memory-ci add` notes it."
