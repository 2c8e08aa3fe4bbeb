"""The nudge: a line that says memory has not changed while much work went by. Once a session, and never in the way.

One git process, which is ended as soon as it is clear. Where git cannot say (no commit yet, a shallow clone) and where
nobody keeps memory there is no nudge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.files import read_regular
from memory_ci.flows.workspace import Workspace, memory_test
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.records.history import Commit
from memory_ci.rendering.nudge import render_nudge
from memory_ci.store.files import write_file
from memory_ci.store.layout import classify_scope, is_fragment

SIGNS = (CONFIG_FILE, ".memory", "MEMORY.md", "institutional.md")
"""One of these stands at the top of a work tree whose memory is kept."""

REACH = 10
"""For each piece of work that is counted so many commits are looked at: those that only write episodes do not count."""

MAX_MARKS = 100
MAX_MARK_BYTES = 10_000


def find_nudge(workspace: Workspace, rev: str = "HEAD") -> str:
    """The line, if it is time for it on this branch; "" otherwise. Never raises for what git says."""
    return render_nudge(workspace.config.nudge) if _find_newest_idle(workspace, rev) else ""


def nudge_once(workspace: Workspace, session: str | None) -> str:
    """The same, once for each session; where none is known, once for each newest commit. Never raises.

    That it was said is noted in the git directory; where that cannot be, nothing is: it would be said for ever.
    """
    with suppress(MemoryCIError, OSError):
        said = _read_marks(workspace)
        if session and _mark(session) in said:
            return ""
        newest = _find_newest_idle(workspace, "HEAD")
        if newest and (mark := _mark(session or newest)) not in said:
            _write_marks(workspace, [*said, mark])
            return render_nudge(workspace.config.nudge)
    return ""


def nudge_agent(workspace: Workspace, session: str | None) -> str:
    """The same for an agent's hook, which runs at every prompt: of one session git is asked at the first only."""
    if session is None:
        return nudge_once(workspace, None)
    with suppress(MemoryCIError, OSError):
        said = _read_marks(workspace)
        if (mark := _mark(f"asked {session}")) not in said:
            _write_marks(workspace, [*said, mark])
            return nudge_once(workspace, session)
    return ""


def session_of(environment: Mapping[str, str]) -> str | None:
    """The id of the session that runs in this environment, as its agent's hooks are told it."""
    from memory_ci.flows.underway import find_sessions  # 5 ms that an agent's hook spares

    return next((key.partition(":")[2] for key in find_sessions(environment)), None)


def _find_newest_idle(workspace: Workspace, rev: str) -> str | None:
    """The newest piece of work, if `nudge.after` of them or more went by since memory changed."""
    wanted = workspace.config.nudge.after
    if not wanted or not _keeps_memory(workspace):
        return None
    with suppress(RepositoryError), closing(_list_work(workspace, rev)) as work:
        shas = list(islice(work, wanted))
        return shas[0] if len(shas) == wanted else None
    return None


def _keeps_memory(workspace: Workspace) -> bool:
    root = workspace.repo.root
    is_shallow = (workspace.repo.common_dir / "shallow").exists()
    return root is not None and not is_shallow and any((root / sign).exists() for sign in SIGNS)


def _list_work(workspace: Workspace, rev: str) -> Generator[str]:
    """Commits, newest first, that are work, up to the first that changed memory; of one merged change the newest."""
    has_number, number = workspace.config.nudge.unit == "changes", None
    for commit in _read_commits(workspace, rev):
        paths = [file.path for file in commit.files]
        if any(_holds_entries(workspace, path) for path in paths):
            return
        last, number = number, _find_number(commit) if has_number else None
        is_same = number is not None and number == last
        if not all(map(memory_test(workspace), paths)) and not is_same:
            yield commit.sha


def _find_number(commit: Commit) -> int | None:
    from memory_ci.gitrepo.forges import find_number  # patterns, for those who count changes

    return find_number(commit.message)


def _read_commits(workspace: Workspace, rev: str) -> Iterator[Commit]:
    """The commits that may be counted, newest first; git is ended when nobody asks for more."""
    settings = workspace.config.nudge
    which = "--no-merges" if settings.unit == "commits" else "--first-parent"
    asked = (which, f"-n{REACH * settings.after}", *FILES, "--no-renames", "--end-of-options", rev, "--")
    with closing(read_log(workspace.repo, *asked)) as log:
        yield from (commit for commit, _ in log)


def _holds_entries(workspace: Workspace, path: str) -> bool:
    """Whether a path is that of a memory file: episodes are written by themselves, and teach nobody."""
    return is_fragment(path) or classify_scope(path, workspace.config.scopes) is not None


def _marks_path(workspace: Workspace) -> Path:
    return workspace.repo.git_dir / "memory-ci" / "nudged"


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]


def _read_marks(workspace: Workspace) -> list[str]:
    try:
        return read_regular(_marks_path(workspace), MAX_MARK_BYTES).decode("ascii", "replace").split()
    except OSError:
        return []


def _write_marks(workspace: Workspace, marks: list[str]) -> None:
    write_file(_marks_path(workspace), "".join(f"{mark}\n" for mark in marks[-MAX_MARKS:]).encode())
