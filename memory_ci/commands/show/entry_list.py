"""The list of entries, with what people compare them by."""

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
    """Return the entries of a view by prominence, highest first.

    Args:
        workspace: the repository.
        view: None for the work tree, with the notes that wait for a commit; or a revision.
        today: the day for the prominence.
    """
    memory = load_memory(workspace, view)
    places = list(memory.located)
    if view is None:
        places += load_pending(workspace)

    listed = [ListedEntry(place, prominence(place.entry, today)) for place in places]
    listed.sort(key=lambda item: (-item.prominence, item.located.path, item.located.line))
    usage: Mapping[str, UseCount] = {}
    if _may_have_episodes(workspace, view):
        from memory_ci.memory.episodes import load_usage  # 10 ms that others are spared

        usage = load_usage(workspace, view, [place.entry for place in places])
    return EntryList(tuple(listed), usage, memory.findings)


def _may_have_episodes(workspace: Workspace, view: str | None) -> bool:
    root = workspace.repo.root
    return view is not None or root is None or (root / EPISODES).is_dir()
