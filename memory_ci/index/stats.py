"""What an index holds, counted."""

from __future__ import annotations

import sqlite3

from memory_ci.index.database import Index
from memory_ci.index.key import SCHEMA_VERSION
from memory_ci.index.rows import HASH_BYTES
from memory_ci.records.retrieval import IndexStats


def count_index(index: Index) -> IndexStats:
    """The statistics of an open index."""
    connection = index.connection
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, entries_fts, row)")
    terms, occurrences = connection.execute("SELECT count(*), coalesce(sum(cnt), 0) FROM vocabulary").fetchone()
    return IndexStats(
        schema=SCHEMA_VERSION,
        sqlite=sqlite3.sqlite_version,
        size=_one(index, "PRAGMA page_count") * _one(index, "PRAGMA page_size"),
        files=_one(index, "SELECT count(*) FROM files"),
        entries=_one(index, "SELECT count(*) FROM entries"),
        feedback=_one(index, "SELECT count(*) FROM feedback"),
        scopes=_by(index, "scope"),
        types=_by(index, "type"),
        statuses=_by(index, "status"),
        terms=terms,
        occurrences=occurrences,
        vectors=dict(connection.execute("SELECT model_id, length(hashes) / ? FROM vectors ORDER BY 1", (HASH_BYTES,))),
    )


def _one(index: Index, sql: str) -> int:
    return int(index.connection.execute(sql).fetchone()[0])


def _by(index: Index, column: str) -> dict[str, int]:
    return dict(index.connection.execute(f"SELECT {column}, count(*) FROM entries GROUP BY 1 ORDER BY 1"))  # noqa: S608
