"""How common words are in the index: what the query builder and the verdict weigh terms by."""

from __future__ import annotations

from memory_ci.index.database import Index


def count_entries(index: Index) -> int:
    """All entries, whatever their scope and status."""
    (count,) = index.read("SELECT count(*) FROM entries", (), lambda row: int(row[0]))
    return count


def count_holding(index: Index, term: str) -> int:
    """How many of them hold a term of `query.build_terms`, stemmed and folded as in a search."""
    sql = "SELECT count(*) FROM entries_fts WHERE entries_fts MATCH ?"
    (count,) = index.read(sql, (f'"{term}"',), lambda row: int(row[0]))
    return count
