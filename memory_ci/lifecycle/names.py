"""Names of entries: which one is meant by an id, or by the beginning of one."""

from __future__ import annotations

from collections.abc import Iterable

from memory_ci.records.entry import Entry

SHORTEST = 8
"""Characters of an id: fewer fit too many."""


def find_id(entries: Iterable[Entry], prefix: str) -> str | None:
    """The one entry whose id begins like this, or that has taken in one which does; None if not one does."""
    wanted = prefix.lower()
    if len(wanted) < SHORTEST:
        return None
    known = list(entries)
    fits = {entry.id for entry in known if entry.id.startswith(wanted)}
    fits = fits or {entry.id for entry in known if any(old.startswith(wanted) for old in entry.supersedes)}
    return fits.pop() if len(fits) == 1 else None
