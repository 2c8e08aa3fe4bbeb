"""The cache of past tasks (merged and declined changes), next to the index.

docs/serving.md#hints describes their use.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.digests import blake2b
from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.repo import Repository, find_commit, is_ancestor, read_tips
from memory_ci.memory.workspace import Workspace
from memory_ci.records.retrieval import Habits, Task
from memory_ci.search.similar_tasks import PromptIndex

MAX_CHANGES = 2_000
"""Merged changes, the newest ones, among which similar tasks are searched."""

FORMAT = b"memory-ci tasks 7\n"
"""The first bytes of the file; a BLAKE2b digest and the payload follow.

Raise the number when a record in the payload changes.
"""

DIGEST_SIZE = 32
SEAL = len(FORMAT) + DIGEST_SIZE
MAX_KEPT = 200_000_000
"""Size above which the file is not read, in bytes: a hundred times that of a long history."""


class CachedTasks(msgspec.Struct, frozen=True):
    """The tasks as of a commit.

    Attributes:
        tip: the commit.
        tasks: the tasks.
        prompts: their prompts, in the same order.
        habits: the habits of the newest changes.
        ledger: the encoded ledger, which is decoded only to add new changes.
    """

    tip: str
    tasks: tuple[Task, ...]
    prompts: PromptIndex
    habits: Habits
    ledger: msgspec.Raw


def tasks_path(workspace: Workspace) -> Path:
    """Return the path of the cache, which all work trees share and none contains."""
    return workspace.repo.common_dir / "memory-ci" / "tasks.mpk"


def load_tasks(workspace: Workspace, tip: str) -> CachedTasks:
    """Return the tasks as of a commit: cached ones, and those that were merged since.

    Raises:
        RepositoryError: shallow-clone, git-failed.
    """
    cached = _load_cached(workspace)
    if cached is not None and cached.tip == tip:
        return cached

    # Imported here because most queries find no new changes, and these modules are slow to import.
    from memory_ci.gitrepo.history import plan_range
    from memory_ci.memory import task_ledger
    from memory_ci.memory.habits import count_habits

    repo = workspace.repo
    start = find_commit(repo, f"{tip}~{MAX_CHANGES}")
    ledger = task_ledger.Ledger()
    if cached is not None:
        ledger = msgspec.msgpack.decode(cached.ledger, type=task_ledger.Ledger)
        if _can_extend(repo, cached.tip, start, tip):
            start = cached.tip
        else:
            # Changes are read again, but not episode files, which never change under an object id.
            ledger = task_ledger.Ledger(episode_files=ledger.episode_files)

    ledger = task_ledger.extend_ledger(workspace, ledger, plan_range(repo, start, tip))
    tasks, prompts = task_ledger.list_tasks(workspace, ledger, tip)
    habits = count_habits(workspace, ledger, tip)
    encoded_ledger = msgspec.Raw(msgspec.msgpack.encode(ledger))
    updated = CachedTasks(tip, tasks, prompts, habits, encoded_ledger)
    _save_cached(workspace, updated)
    return updated


def _can_extend(repo: Repository, cached_tip: str, start: str | None, tip: str) -> bool:
    """Return whether the cached tasks can be extended by new changes, instead of read again.

    Args:
        repo: the repository.
        cached_tip: the commit of the cache, which must be between the others, in this clone.
        start: the commit before the oldest task; None for all history.
        tip: the newest commit.
    """
    if find_commit(repo, cached_tip) != cached_tip or find_commit(repo, tip) != tip:
        return False
    if not is_ancestor(repo, cached_tip, tip):
        return False
    return start is None or is_ancestor(repo, start, cached_tip)


def gather_tasks(workspace: Workspace) -> None:
    """Update the cache of past tasks to the default branch, so that no query has to wait for it.

    Errors of git are ignored.
    """
    if not workspace.config.retrieve.hints:
        return
    with suppress(RepositoryError):
        tip = read_tips(workspace.repo).commit
        if tip is not None:
            load_tasks(workspace, tip)


def _load_cached(workspace: Workspace) -> CachedTasks | None:
    """Return the cache; None if it is missing, damaged, foreign or of another version."""
    try:
        data = read_regular(tasks_path(workspace), MAX_KEPT)
        seal = data[:SEAL]
        payload = data[SEAL:]
        if seal != _seal(payload):
            return None
        return msgspec.msgpack.decode(payload, type=CachedTasks)
    except (OSError, ValueError):
        return None


def _save_cached(workspace: Workspace, tasks: CachedTasks) -> None:
    """Write the cache; failure to write it is ignored, because the tasks can be read again."""
    from memory_ci.store.files import write_file

    payload = msgspec.msgpack.encode(tasks)
    with suppress(RepositoryError):
        write_file(tasks_path(workspace), _seal(payload) + payload)


def _seal(payload: bytes) -> bytes:
    return FORMAT + blake2b(payload, digest_size=DIGEST_SIZE).digest()
