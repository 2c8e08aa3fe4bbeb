"""Open the index and make it equal to the tree at hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec

from memory_ci.index.database import Index
from memory_ci.index.rows import ENTRY_COLUMNS, FILE_COLUMNS, Row, digest, entry_row, file_row, hidden_parts, marks
from memory_ci.records.entry import Located
from memory_ci.records.loaded import LoadedFile

Load = Callable[[Collection[str]], Iterable[LoadedFile]]

LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process. Tens of thousands of entries take less; who waits longer builds in memory."""

# Strings of this module put together, values always bound.
FORGET_TEXT = """
INSERT INTO entries_fts (entries_fts, rowid, title, body, parts)
SELECT 'delete', row, title, body, parts FROM entries_text
WHERE row IN (SELECT row FROM entries WHERE path = ?)
"""
ADD_TEXT = "INSERT INTO entries_fts (rowid, title, body, parts) VALUES (?, ?, ?, ?)"
ADD_ENTRY = f"INSERT INTO entries ({ENTRY_COLUMNS}) VALUES ({marks(ENTRY_COLUMNS)})"  # noqa: S608
ADD_FILE = f"INSERT INTO files ({FILE_COLUMNS}, digest) VALUES ({marks(FILE_COLUMNS)}, ?)"  # noqa: S608


class SyncReport(msgspec.Struct, frozen=True):
    """What a sync found and did. `was_rebuilt`: nothing of an earlier index could be used, every file was read."""

    files_total: int
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
    known = dict(index.connection.execute("SELECT path, oid FROM files"))
    _forget(index.connection, [path for path, oid in known.items() if not oid or files.get(path) != oid])
    wanted = [path for path, oid in sorted(files.items()) if not oid or known.get(path) != oid]
    read = _add(index.connection, files, load(wanted)) if wanted else 0
    was_rebuilt, index.is_new = index.is_new, False
    (entries,) = index.connection.execute("SELECT count(*) FROM entries").fetchone()
    return SyncReport(len(files), read, entries, was_rebuilt)


def _forget(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Remove all rows of files that were edited, emptied, renamed or deleted."""
    for path in paths:
        connection.execute(FORGET_TEXT, (path,))
        connection.execute("DELETE FROM entries WHERE path = ?", (path,))
        connection.execute("DELETE FROM files WHERE path = ?", (path,))


def _add(connection: sqlite3.Connection, files: Mapping[str, str], loaded: Iterable[LoadedFile]) -> int:
    """Add the rows of `loaded` and return how many files it held."""
    (last,) = connection.execute("SELECT coalesce(max(row), 0) FROM entries").fetchone()
    read = 0
    for file in loaded:
        values, rows = file_row(file, files[file.path]), list(map(entry_row, file.entries))
        connection.execute(ADD_FILE, (*values, digest(values, rows)))
        connection.executemany(ADD_ENTRY, rows)  # numbered from last + 1: SQLite takes the largest number and adds one
        connection.executemany(ADD_TEXT, map(_text_row, count(last + 1), file.entries))
        last += len(rows)
        read += 1
    return read


def _text_row(row: int, located: Located) -> Row:
    title, body = located.entry.title, located.entry.body
    return row, title, body, hidden_parts(title, body)
