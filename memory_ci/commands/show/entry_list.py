"""The list of entries with their prominence and their use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import msgspec

from memory_ci.lifecycle.prominence import prominence
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.entry import Located
from memory_ci.records.episode import UseCount
from memory_ci.records.report import Finding
from memory_ci.sessions.marked_notes import load_pending
from memory_ci.store.layout import EPISODES


class ListedEntry(msgspec.Struct, frozen=True):
    """An entry with its place and its prominence."""

    located: Located
    prominence: float


class EntryList(msgspec.Struct, frozen=True):
    """The entries of a view, the most prominent first.

    Attributes:
        entries: the entries.
        usage: how much work was served each entry and used it, by id; without entries that were
            never served.
        findings: findings on files that cannot be read.
    """

    entries: tuple[ListedEntry, ...]
    usage: Mapping[str, UseCount]
    findings: tuple[Finding, ...]


def list_by_prominence(workspace: Workspace, view: str | None, today: date) -> EntryList:
    """Return the entries of a view by prominence (their rank without a task), highest first.

    Args:
        workspace: the repository.
        view: None for the work tree, with the notes that wait for a commit; or a revision.
        today: the day for the prominence, which falls with the age of an entry.
    """
    memory = load_memory(workspace, view)
    located_entries = list(memory.located)
    if view is None:
        located_entries += load_pending(workspace)

    listed = [ListedEntry(located, prominence(located.entry, today)) for located in located_entries]
    listed.sort(key=lambda item: (-item.prominence, item.located.path, item.located.line))
    usage: Mapping[str, UseCount] = {}
    if _may_have_episodes(workspace, view):
        # Imported here, for it takes 10 ms.
        from memory_ci.memory.episodes import load_usage

        usage = load_usage(workspace, view, [located.entry for located in located_entries])
    return EntryList(tuple(listed), usage, memory.findings)


def _may_have_episodes(workspace: Workspace, view: str | None) -> bool:
    root = workspace.repo.root
    return view is not None or root is None or (root / EPISODES).is_dir()
