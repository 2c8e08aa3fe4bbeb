"""Open the index and make it equal to the tree at hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec

from memory_ci.records.entry import Located
from memory_ci.records.report import LoadedFile
from memory_ci.search.database import Index
from memory_ci.search.rows import (
    ENTRY_COLUMNS,
    FEEDBACK_COLUMNS,
    FILE_COLUMNS,
    Row,
    digest,
    entry_digest,
    entry_row,
    feedback_rows,
    file_row,
    hidden_parts,
    marks,
)
from memory_ci.text import cited_words

Known = Mapping[
    bytes, bytes
]  # Digests of rows that the index has of a file, by the source that each was read from.
Load = Callable[[Mapping[str, Known]], Iterable[LoadedFile]]

LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process. Tens of thousands of entries take less; who waits longer builds in memory."""

# Strings of this module put together, values always bound.
KNOWN_ROWS = "SELECT row, line, source, digest FROM entries WHERE path = ? ORDER BY row"
FORGET_TEXT = """
INSERT INTO entries_fts (entries_fts, rowid, title, body, parts, cited)
SELECT 'delete', row, title, body, parts, cited FROM entries_text
WHERE row IN (SELECT value FROM json_each(?))
"""
FORGET_ENTRIES = "DELETE FROM entries WHERE row IN (SELECT value FROM json_each(?))"
MOVE_ENTRY = "UPDATE entries SET line = ? WHERE row = ?"
ADD_TEXT = "INSERT INTO entries_fts (rowid, title, body, parts, cited) VALUES (?, ?, ?, ?, ?)"
ADD_ENTRY = f"INSERT INTO entries ({ENTRY_COLUMNS}, digest) VALUES ({marks(ENTRY_COLUMNS)}, ?)"  # noqa: S608
ADD_FEEDBACK = f"INSERT INTO feedback ({FEEDBACK_COLUMNS}) VALUES ({marks(FEEDBACK_COLUMNS)})"  # noqa: S608
FORGET_FEEDBACK = "DELETE FROM feedback WHERE path = ?"
ADD_FILE = f"INSERT INTO files ({FILE_COLUMNS}, digest) VALUES ({marks(FILE_COLUMNS)}, ?)"  # noqa: S608


class SyncReport(msgspec.Struct, frozen=True):
    """What a sync found and did. `was_rebuilt`: nothing of an earlier index could be used, every file was read."""

    files_read: int
    entries: int
    was_rebuilt: bool


@contextmanager
def open_index(path: Path | None, *, lock_timeout: float = LOCK_TIMEOUT) -> Iterator[Index]:
    """The index at `path`, locked until the end of the block; None: in memory.

    A file that is missing, damaged, foreign or of another version is replaced. Where nothing can be written, or another
    process holds the lock for `lock_timeout` seconds, the index is in memory: slower, never wrong (`Index.reason`).
    An exception in the block leaves the file as it was.
    """
    index = Index(path, lock_timeout)
    keep = False
    try:
        yield index
        keep = True
    finally:
        index.close(keep=keep)


def sync(index: Index, files: Mapping[str, str], load: Load) -> SyncReport:
    """Make the index equal to `files`, path -> object id; `load` is asked once, for what is new to the index.

    It is told what is known of each path, and may give those entries as `LoadedFile.kept`.

    An id of "" means: read it every time. A path that `load` does not give back is asked for again at the next sync.
    """

    def fill() -> SyncReport:
        return _fill(index, files, load)

    index.refill = fill
    try:
        return fill()
    except sqlite3.DatabaseError as damage:
        index.replace(damage)
        return fill()


def _fill(index: Index, files: Mapping[str, str], load: Load) -> SyncReport:
    connection = index.connection
    known = dict(connection.execute("SELECT path, oid FROM files"))
    stale = {path for path, oid in known.items() if not oid or files.get(path) != oid}
    connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in stale])
    connection.executemany(FORGET_FEEDBACK, [(path,) for path in stale])
    paths = sorted(path for path, oid in files.items() if not oid or known.get(path) != oid)
    rows = {path: connection.execute(KNOWN_ROWS, (path,)).fetchall() for path in stale}
    wanted = {
        path: {source: hashed for *_, source, hashed in rows.get(path, ()) if source}
        for path in paths
    }
    loaded = load(wanted) if wanted else ()
    read = [
        _put(connection, file, files[file.path], wanted[file.path], rows.get(file.path, []))
        for file in loaded
    ]
    for path in stale.difference(read):
        keep_rows(connection, rows[path], [])
    was_rebuilt, index.is_new = index.is_new, False
    (entries,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    return SyncReport(len(read), entries, was_rebuilt)


def _put(
    connection: sqlite3.Connection, file: LoadedFile, oid: str, known: Known, before: Sequence[Row]
) -> str:
    """Make the rows of one file what it holds now, and give back its path. A file grows by an entry far more often than
    it is rewritten: what it still holds keeps its row, and its words are not indexed anew."""
    values, feedback = file_row(file, oid), list(feedback_rows(file))
    rows = [entry_row(place, file.sources.get(place.line)) for place in file.entries]
    kept = [(line, known[source]) for source, line in file.kept]
    digests = [*kept, *map(entry_digest, rows)]
    connection.execute(ADD_FILE, (*values, digest(values, digests, feedback)))
    connection.executemany(ADD_FEEDBACK, feedback)
    new = keep_rows(connection, before, digests)
    (last,) = connection.execute("SELECT coalesce(max(row), 0) FROM entries").fetchone()
    # SQLite takes the largest number and adds one.
    connection.executemany(ADD_ENTRY, ((*rows[at - len(kept)], digests[at][1]) for at in new))
    connection.executemany(
        ADD_TEXT, map(text_row, count(last + 1), (file.entries[at - len(kept)] for at in new))
    )
    return file.path


def keep_rows(
    connection: sqlite3.Connection, before: Sequence[Row], wanted: Sequence[tuple[int, bytes]]
) -> list[int]:
    """Keep of the rows of a file only those of these lines and digests; gives back which of those the index lacks."""
    new, moved, gone = compare_rows(before, wanted)
    if gone:
        rows = json.dumps(gone)
        connection.execute(FORGET_TEXT, (rows,))
        connection.execute(FORGET_ENTRIES, (rows,))
    connection.executemany(MOVE_ENTRY, moved)
    return new


def compare_rows(
    before: Sequence[Row], wanted: Sequence[tuple[int, bytes]]
) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """Which of `wanted` are new; the line and row of those that only moved; which rows are wanted no more."""
    kept: dict[bytes, list[tuple[int, int]]] = {}
    for row, line, _, hashed in before:
        kept.setdefault(hashed, []).append((row, line))
    new, moved = [], []
    for at, (line, hashed) in enumerate(wanted):
        if places := kept.get(hashed):
            row, stood = places.pop(0)
            moved += [(line, row)] if stood != line else []
        else:
            new.append(at)
    return new, moved, [row for places in kept.values() for row, _ in places]


def text_row(row: int, located: Located) -> Row:
    title, body = located.entry.title, located.entry.body
    return (
        row,
        title,
        body,
        hidden_parts(title, body),
        cited_words(located.entry.cites, located.entry.aka),
    )
