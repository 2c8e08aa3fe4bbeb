"""The nudge: a reminder, once a session, that many commits were made since memory last changed.

It takes one git process, which is ended as soon as the answer is clear, and a second one where
merges are among the work. There is no nudge where git cannot answer (no commit yet, a shallow
clone) and where nobody keeps memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, suppress
from datetime import date
from pathlib import Path

import msgspec

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.log import FILE_OPTIONS, read_log
from memory_ci.memory.workspace import Workspace, build_memory_test, holds_entries
from memory_ci.records.config import NudgeConfig
from memory_ci.records.history import Commit
from memory_ci.records.names import HEADS
from memory_ci.store.files import write_file

MEMORY_SIGNS = (CONFIG_FILE, ".memory", "MEMORY.md", "institutional.md")
"""Files at the top of a work tree, any of which shows that memory is kept."""

REACH = 10
"""Commits that are read for each piece of work: commits that only write episodes do not count."""

MAX_MARKS = 100
MAX_MARK_BYTES = 10_000


def find_nudge(workspace: Workspace, rev: str = "HEAD") -> str:
    """Return the reminder if many commits were made since memory changed, else "".

    Errors of git are not raised.
    """
    return render_nudge(workspace.config.nudge) if _is_reminder_due(workspace, rev) else ""


def nudge_once(workspace: Workspace, session: str | None, today: date) -> str:
    """Return the reminder if it is due, once for each session; without a session, once a day.

    A mark in the git directory says that a session got it. If that cannot be written, return "",
    because the reminder would be repeated each time. Errors are not raised.
    """
    with suppress(MemoryCIError, OSError):
        marks = _read_marks(workspace)
        mark = _hash_mark(session or today.isoformat())
        if mark not in marks and _is_reminder_due(workspace, "HEAD"):
            _write_marks(workspace, [*marks, mark])
            return render_nudge(workspace.config.nudge)
    return ""


def nudge_agent(workspace: Workspace, session: str | None, today: date) -> str:
    """Return the reminder for an agent's hook, which runs at every prompt, if it is due.

    To find out whether it is due starts git, so that is done only at the first prompt of a session.
    A mark in the git directory says that a session had its first prompt. Errors are not raised.

    Args:
        workspace: the workspace.
        session: the id of the session, None if unknown.
        today: the current day.
    """
    if session is None:
        return nudge_once(workspace, None, today)
    with suppress(MemoryCIError, OSError):
        marks = _read_marks(workspace)
        first_prompt_mark = _hash_mark(f"asked {session}")
        if first_prompt_mark not in marks:
            _write_marks(workspace, [*marks, first_prompt_mark])
            return nudge_once(workspace, session, today)
    return ""


def find_session_id(environment: Mapping[str, str]) -> str | None:
    """Return the id of the session that runs in this environment, as in its agent's hooks."""
    from memory_ci.sessions.active_session import find_sessions  # 5 ms that an agent's hook spares

    for key in find_sessions(environment):
        return key.partition(":")[2]
    return None


def is_branch_pushed(updates: Iterable[bytes], environment: Mapping[str, str]) -> bool:
    """Return whether a push creates or updates a branch; deleted branches and tags do not count.

    Args:
        updates: the lines of the standard input of git's hook.
        environment: the environment; pre-commit and prek do not pass the input on, but name the
            pushed ref by a variable.
    """
    name = environment.get("PRE_COMMIT_REMOTE_BRANCH")
    if name:
        return name.startswith(HEADS)
    for line in updates:
        fields = line.decode("utf-8", "replace").split()
        if len(fields) != 4:
            continue
        _, local_oid, remote_ref, _ = fields
        is_deletion = not local_oid.strip("0")
        if not is_deletion and remote_ref.startswith(HEADS):
            return True
    return False


def _is_reminder_due(workspace: Workspace, rev: str) -> bool:
    """Return whether `nudge.after` or more commits changed other files since memory changed.

    First a merge counts as one commit. If that is not enough, the commits of merged branches are
    counted one by one.
    """
    settings = workspace.config.nudge
    if not settings.after or not _keeps_memory(workspace):
        return False
    with suppress(RepositoryError):
        work = _count_work_on_first_parents(workspace, rev)
        if work.is_enough or not work.has_merges:
            return work.is_enough

        revs = [rev, f"^{work.memory_commit}"] if work.memory_commit else [rev]
        work_count = 0
        with closing(_read_commits(workspace, "--no-merges", *revs)) as commits:
            for commit in commits:
                if _is_work(workspace, commit):
                    work_count += 1
                if work_count == settings.after:
                    return True
    return False


def _keeps_memory(workspace: Workspace) -> bool:
    """Return whether a work tree has memory, in a clone with its whole history."""
    root = workspace.repo.root
    if root is None or (workspace.repo.common_dir / "shallow").exists():
        return False
    return any((root / sign).exists() for sign in MEMORY_SIGNS)


class _WorkSinceMemory(msgspec.Struct, frozen=True):
    """The work on a branch since memory changed there.

    Attributes:
        is_enough: whether it is enough for a nudge.
        has_merges: whether merges are among it.
        memory_commit: the commit that changed memory, None if none of those that were read did.
    """

    is_enough: bool
    has_merges: bool
    memory_commit: str | None


def _count_work_on_first_parents(workspace: Workspace, rev: str) -> _WorkSinceMemory:
    """Count the commits of work since memory changed, along first parents.

    A merge counts as one commit, and a branch that changed memory counts when it is merged.
    """
    settings = workspace.config.nudge
    count = 0
    has_merges = False
    with closing(_read_commits(workspace, "--first-parent", rev)) as commits:
        for commit in commits:
            if any(holds_entries(workspace, file.path) for file in commit.files):
                return _WorkSinceMemory(
                    is_enough=False, has_merges=has_merges, memory_commit=commit.sha
                )
            has_merges = has_merges or len(commit.parents) > 1
            if _is_work(workspace, commit):
                count += 1
            if count == settings.after:
                return _WorkSinceMemory(is_enough=True, has_merges=has_merges, memory_commit=None)
    return _WorkSinceMemory(is_enough=False, has_merges=has_merges, memory_commit=None)


def _is_work(workspace: Workspace, commit: Commit) -> bool:
    """Return whether a commit changes more than memory."""
    is_memory = build_memory_test(workspace)
    return not all(is_memory(file.path) for file in commit.files)


def _read_commits(workspace: Workspace, option: str, *revs: str) -> Generator[Commit]:
    """Yield the commits that may be counted, newest first; closing it ends git."""
    limit = f"-n{REACH * workspace.config.nudge.after}"
    options = (option, limit, *FILE_OPTIONS, "--no-renames", "--end-of-options")
    with closing(read_log(workspace.repo, *options, *revs, "--")) as log:
        for commit, _ in log:
            yield commit


def _marks_path(workspace: Workspace) -> Path:
    return workspace.repo.common_dir / "memory-ci" / "nudged"


def _hash_mark(name: str) -> str:
    from memory_ci.digests import blake2b  # a hook with nothing to say is spared it

    return blake2b(name.encode("utf-8", "replace")).hexdigest()[:16]


def _read_marks(workspace: Workspace) -> list[str]:
    try:
        data = read_regular(_marks_path(workspace), MAX_MARK_BYTES)
    except OSError:
        return []
    return data.decode("ascii", "replace").split()


def _write_marks(workspace: Workspace, marks: list[str]) -> None:
    write_file(_marks_path(workspace), "".join(f"{mark}\n" for mark in marks[-MAX_MARKS:]).encode())


def render_nudge(settings: NudgeConfig) -> str:
    """Return the nudge in one line, without any text of the repository."""
    since = f"memory-ci: {settings.after} or more commits since memory changed."
    return f"{since} What would the next job like to know? `memory-ci add` notes it."
