"""Similar tasks: what was merged or declined and is like the task at hand, from a file kept beside the index."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.repo import Tips, find_commit, is_ancestor, read_tips
from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.retrieval.similar_tasks import TOP, Prompts, TaskQuery, find_similar

MAX_CHANGES = 2_000
"""So many of the newest merged changes are gathered, unless all are asked for."""

CHEAP = 200
"""So many new merged changes, and new episode files, `retrieve` reads on the way; more are left to `similar`."""

FORMAT = b"memory-ci tasks 2\n"
"""How a kept file begins; then its SHA-256, and what it holds. Raise the number when a record in it changes."""

SEAL = len(FORMAT) + hashlib.sha256().digest_size
NUMBER = re.compile(r"\s*[#!](\d{1,9})\s*")
LINES = 2

MAX_KEPT = 200_000_000
"""Bytes of the kept tasks that are read: a hundred times what a long history takes."""


class KeptTasks(msgspec.Struct, frozen=True):
    """The tasks as of `tip`, and their prompts. `ledger` is decoded only when there are new changes to add.

    `is_whole`: all of history is in it, not only the newest changes.
    """

    tip: str
    is_whole: bool
    tasks: tuple[Task, ...]
    prompts: Prompts
    ledger: msgspec.Raw


def tasks_path(workspace: Workspace) -> Path:
    """The tasks of a repository, shared by its work trees and never in one."""
    return workspace.repo.common_dir / "memory-ci" / "tasks.mpk"


def similar_tasks(
    workspace: Workspace, task: str, *, top: int = TOP, all_history: bool = False
) -> tuple[SimilarTask, ...]:
    """The merged changes that are like `task`; a task that is `#128` stands for the title of that change.

    Raises RepositoryError: shallow-clone, git-failed.
    """
    tips = read_tips(workspace.repo)
    tip = tips.commit or find_commit(workspace.repo, "HEAD")  # with no default branch HEAD stands for it
    if tip is None:
        return ()
    kept = _load(workspace)
    if kept is None or kept.tip != tip or (all_history and not kept.is_whole):
        start = None if all_history else find_commit(workspace.repo, f"{tip}~{MAX_CHANGES}")
        kept = _bring_up(workspace, kept, tip, start, all_history=all_history)
    return _find(kept, task, tips, top)


def recall_tasks(workspace: Workspace, task: str) -> tuple[SimilarTask, ...]:
    """The same on the way of `retrieve`: one git process while nothing was merged.

    Nothing where finding out would be dear (more than CHEAP changes to read) or impossible: an agent's job goes on.
    """
    with suppress(RepositoryError):
        tips = read_tips(workspace.repo)
        if tips.commit is not None and (kept := _load_cheaply(workspace, tips.commit)):
            return _find(kept, task, tips, LINES)
    return ()


def _find(kept: KeptTasks, task: str, tips: Tips, top: int) -> tuple[SimilarTask, ...]:
    asked = TaskQuery(task, branch=tips.work)
    if match := NUMBER.fullmatch(task):
        number = int(match[1])
        title = next((one.title for one in reversed(kept.tasks) if one.number == number), task)
        asked = TaskQuery(title, number=number)
    return find_similar(asked, kept.tasks, kept.prompts, top)


def _load_cheaply(workspace: Workspace, tip: str) -> KeptTasks | None:
    """The tasks of `tip`, if they are kept or at most CHEAP changes away."""
    kept = _load(workspace)
    if kept is not None and kept.tip == tip:
        return kept
    start = find_commit(workspace.repo, f"{tip}~{CHEAP}")
    is_cheap = start is None or (kept is not None and _holds(workspace, start, kept.tip))
    if not is_cheap or _has_much_to_hear(workspace, kept, tip):
        return None
    return _bring_up(workspace, kept, tip, start)


def _has_much_to_hear(workspace: Workspace, kept: KeptTasks | None, tip: str) -> bool:
    """Whether more than CHEAP episode files are new."""
    from memory_ci.flows.serve.past_tasks import Ledger, list_unread

    ledger = msgspec.msgpack.decode(kept.ledger, type=Ledger) if kept else Ledger()
    return len(list_unread(workspace, ledger.heard, tip)) > CHEAP


def _bring_up(
    workspace: Workspace, kept: KeptTasks | None, tip: str, start: str | None, *, all_history: bool = False
) -> KeptTasks:
    """The tasks of `tip`: those that are kept and the new changes, unless they end before `start`; then those after it.

    What cannot be kept is answered all the same. Raises RepositoryError: shallow-clone, git-failed.
    """
    from memory_ci.flows.serve.past_tasks import Ledger, extend, list_tasks  # patterns and codecs, for new changes only
    from memory_ci.gitrepo.history import plan_range
    from memory_ci.store.files import write_file

    repo = workspace.repo
    known = msgspec.msgpack.decode(kept.ledger, type=Ledger) if kept else Ledger()
    ledger, is_whole = Ledger(heard=known.heard), start is None
    if kept is not None and (kept.is_whole or not all_history) and _extends(workspace, kept.tip, start, tip):
        start, is_whole, ledger = kept.tip, kept.is_whole, known
    ledger = extend(workspace, ledger, plan_range(repo, start, tip))
    tasks, prompts = list_tasks(workspace, ledger, tip)
    fresh = KeptTasks(tip, is_whole, tasks, prompts, msgspec.Raw(msgspec.msgpack.encode(ledger)))
    with suppress(RepositoryError):
        payload = msgspec.msgpack.encode(fresh)
        write_file(tasks_path(workspace), _seal(payload) + payload)
    return fresh


def _extends(workspace: Workspace, kept: str, start: str | None, tip: str) -> bool:
    """Whether new changes up to `tip` can be added to what is kept: it is between `start` and `tip`."""
    return _holds(workspace, kept, tip) and (start is None or is_ancestor(workspace.repo, start, kept))


def _holds(workspace: Workspace, old: str, new: str) -> bool:
    """Whether `new` has the commit `old` in its history; a commit that is not in this clone is in none."""
    known = all(find_commit(workspace.repo, commit) == commit for commit in (old, new))
    return known and is_ancestor(workspace.repo, old, new)


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
