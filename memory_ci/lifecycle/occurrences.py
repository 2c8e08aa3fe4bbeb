"""Occurrences: which merged changes or sessions said what an entry says."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.records.entry import Entry


def origin_of(entry: Entry) -> str:
    """The session that an entry came from, else its request or commit, "" where nothing is known."""
    return entry.session or (entry.source or "").partition(" ")[0]


def list_occurrences(entry: Entry) -> set[str]:
    """What said it; nothing where nothing is known.

    Before occurrences were kept, each entry that it has taken in counts as one, and so does the entry itself where
    nobody knows who said it.
    """
    others = entry.occurrences or entry.supersedes
    return {origin_of(entry) or (entry.id if others else ""), *others} - {""}


def unite_occurrences(kept: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The occurrences of an entry that stands for all of these; a copy of it under its own id is not another one."""
    copies = {name for entry in entries if entry.id == kept.id for name in (origin_of(entry), entry.id)}
    return tuple(sorted(set().union(*map(list_occurrences, entries)) - copies))
