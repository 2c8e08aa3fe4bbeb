"""Heirs: what was said of an entry that was merged away counts for each entry that supersedes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from memory_ci.lifecycle.episodes import unique_events
from memory_ci.records.entry import Entry
from memory_ci.records.episode import Feedback

Heirs = Mapping[str, Sequence[str]]
"""By the id of an entry that is gone those that supersede it."""

NO_HEIRS: Heirs = {}


def find_heirs(entries: Iterable[Entry], held: Container[str]) -> Heirs:
    """Which of `entries` inherit from which ids; an older entry that some memory file has (`held`) keeps its own."""
    heirs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for entry in entries:
        for older in entry.supersedes:
            if older not in held and older != entry.id:
                heirs[older][entry.id] = None
    return {older: tuple(ids) for older, ids in heirs.items()}


def find_heirs_among(entries: Iterable[Entry]) -> Heirs:
    """The same, where `entries` are all that memory files hold."""
    every = tuple(entries)
    return find_heirs(every, {entry.id for entry in every})


def pass_on(feedback: Iterable[Feedback], heirs: Heirs) -> tuple[Feedback, ...]:
    """Each event once, in the order of replay; what was said of one that is gone is said of its heirs.

    What one job said of two that became one is one event.
    """
    return unique_events(
        said if heir == said.id else msgspec.structs.replace(said, id=heir)
        for said in feedback
        for heir in heirs.get(said.id, (said.id,))
    )
