"""IndexStats: what an index holds, counted."""

from __future__ import annotations

import msgspec


class IndexStats(msgspec.Struct, frozen=True):
    """Counts of entries, of different words and of their occurrences; vectors by model; `size` in bytes."""

    schema: int
    sqlite: str
    size: int
    files: int
    entries: int
    scopes: dict[str, int]
    types: dict[str, int]
    statuses: dict[str, int]
    terms: int
    occurrences: int
    vectors: dict[str, int]
