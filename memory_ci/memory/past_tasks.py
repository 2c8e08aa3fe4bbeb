"""The tasks of the past that are kept beside the index, and what their changes have in common (docs/similar.md)."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.repo import find_commit, is_ancestor, read_tips
from memory_ci.memory.workspace import Workspace
from memory_ci.records.retrieval import Habits, Task
from memory_ci.search.similar_tasks import Prompts

MAX_CHANGES = 2_000  # So many of the newest merged changes are gathered, unless all are asked for.

FORMAT = b"memory-ci tasks 3\n"
"""How a kept file begins; then its SHA-256, and what it holds. Raise the number when a record in it changes."""

SEAL = len(FORMAT) + hashlib.sha256().digest_size
MAX_KEPT = (
    200_000_000  # Bytes of the kept tasks that are read: a hundred times what a long history takes.
)


class KeptTasks(msgspec.Struct, frozen=True):
    """The tasks as of `tip`, their prompts, and habits. `ledger` is decoded only when there are new changes to add.
    `is_whole`: all of history is in it, not only the newest changes."""

    tip: str
    is_whole: bool
    tasks: tuple[Task, ...]
    prompts: Prompts
    habits: Habits
    ledger: msgspec.Raw


def tasks_path(workspace: Workspace) -> Path:
    """The tasks of a repository, shared by its work trees and never in one."""
    return workspace.repo.common_dir / "memory-ci" / "tasks.mpk"


def load_tasks(workspace: Workspace, tip: str, *, all_history: bool = False) -> KeptTasks:
    """The tasks of the commit `tip`: those that are kept, and what was merged since. Raises RepositoryError:
    shallow-clone, git-failed."""
    repo, kept = workspace.repo, _load(workspace)
    is_enough = kept is not None and (kept.is_whole or not all_history)
    if kept is not None and is_enough and kept.tip == tip:
        return kept
    from memory_ci.gitrepo.history import plan_range
    from memory_ci.memory.task_ledger import (
        Ledger,
        count_habits,
        extend,
        list_tasks,
    )  # patterns, for new changes only
    from memory_ci.store.files import write_file

    start = None if all_history else find_commit(repo, f"{tip}~{MAX_CHANGES}")
    known = msgspec.msgpack.decode(kept.ledger, type=Ledger) if kept else Ledger()
    ledger, is_whole = Ledger(heard=known.heard), start is None
    # New changes are added to what is kept where that is between the start and the tip, and in this clone.
    if (
        kept is not None
        and is_enough
        and all(find_commit(repo, one) == one for one in (kept.tip, tip))
        and is_ancestor(repo, kept.tip, tip)
        and (start is None or is_ancestor(repo, start, kept.tip))
    ):
        start, is_whole, ledger = kept.tip, kept.is_whole, known
    ledger = extend(workspace, ledger, plan_range(repo, start, tip))
    tasks, prompts = list_tasks(workspace, ledger, tip)
    habits = count_habits(workspace, ledger, tip)
    fresh = KeptTasks(
        tip, is_whole, tasks, prompts, habits, msgspec.Raw(msgspec.msgpack.encode(ledger))
    )
    with suppress(RepositoryError):  # what cannot be kept is answered all the same
        payload = msgspec.msgpack.encode(fresh)
        write_file(tasks_path(workspace), _seal(payload) + payload)
    return fresh


def gather_tasks(workspace: Workspace) -> None:
    """Bring what is kept up to the default branch, so that no question waits for it; not where git cannot tell."""
    if not workspace.config.retrieve.hints:
        return
    with suppress(RepositoryError):
        if (tip := read_tips(workspace.repo).commit) is not None:
            load_tasks(workspace, tip)


def _load(workspace: Workspace) -> KeptTasks | None:
    """What is kept; None if there is nothing, or if it is damaged, foreign or of another version."""
    try:
        data = read_regular(tasks_path(workspace), MAX_KEPT)
        seal, payload = data[:SEAL], data[SEAL:]
        return msgspec.msgpack.decode(payload, type=KeptTasks) if seal == _seal(payload) else None
    except (OSError, ValueError):
        return None


def _seal(payload: bytes) -> bytes:
    return FORMAT + hashlib.sha256(payload).digest()
