"""IndexStats: what an index holds, counted."""

from __future__ import annotations

import msgspec


class IndexStats(msgspec.Struct, frozen=True):
    """Counts of entries, of feedback, of different words and of their occurrences; vectors by model; `size` in bytes.

    `files` are memory and episode files.
    """

    schema: int
    sqlite: str
    size: int
    files: int
    entries: int
    feedback: int
    scopes: dict[str, int]
    types: dict[str, int]
    statuses: dict[str, int]
    terms: int
    occurrences: int
    vectors: dict[str, int]


class IndexUse(msgspec.Struct, frozen=True):
    """The index after a run: its cache key, its `size` in bytes, and whether it had to be built from nothing."""

    key: str
    size: int
    was_rebuilt: bool
