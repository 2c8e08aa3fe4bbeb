"""Open the index and make it equal to a tree."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import msgspec

from memory_ci.records.entry import Located
from memory_ci.records.report import LoadedFile
from memory_ci.search import rows
from memory_ci.search.database import Index
from memory_ci.search.rows import ENTRY_COLUMNS, FEEDBACK_COLUMNS, FILE_COLUMNS, Row
from memory_ci.text import cited_words

KnownDigests = Mapping[bytes, bytes]
"""Digests of the rows that the index has of a file, by the source from which each was read."""

Load = Callable[[Mapping[str, KnownDigests]], Iterable[LoadedFile]]

LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process.

Tens of thousands of entries take less; a process that waits longer builds in memory.
"""

# Statements are put together of strings of this module; values are always bound.
KNOWN_ROWS = "SELECT row, line, source, digest FROM entries WHERE path = ? ORDER BY row"
FORGET_TEXT = """
INSERT INTO entries_fts (entries_fts, rowid, title, body, parts, cited)
SELECT 'delete', row, title, body, parts, cited FROM entries_text
WHERE row IN (SELECT value FROM json_each(?))
"""
FORGET_ENTRIES = "DELETE FROM entries WHERE row IN (SELECT value FROM json_each(?))"
MOVE_ENTRY = "UPDATE entries SET line = ? WHERE row = ?"
ADD_TEXT = "INSERT INTO entries_fts (rowid, title, body, parts, cited) VALUES (?, ?, ?, ?, ?)"
ADD_ENTRY = (
    f"INSERT INTO entries ({ENTRY_COLUMNS}, digest) "  # noqa: S608
    f"VALUES ({rows.placeholders(ENTRY_COLUMNS)}, ?)"
)
ADD_FEEDBACK = (
    f"INSERT INTO feedback ({FEEDBACK_COLUMNS}) "  # noqa: S608
    f"VALUES ({rows.placeholders(FEEDBACK_COLUMNS)})"
)
FORGET_FEEDBACK = "DELETE FROM feedback WHERE path = ?"
ADD_FILE = (
    f"INSERT INTO files ({FILE_COLUMNS}, digest) "  # noqa: S608
    f"VALUES ({rows.placeholders(FILE_COLUMNS)}, ?)"
)


class SyncReport(msgspec.Struct, frozen=True):
    """The result of a sync.

    Attributes:
        files_read: number of files that were read.
        entries: number of entries in the index.
        was_rebuilt: whether no earlier index could be used, so that every file was read.
    """

    files_read: int
    entries: int
    was_rebuilt: bool


@contextmanager
def open_index(path: Path | None, *, lock_timeout: float = LOCK_TIMEOUT) -> Iterator[Index]:
    """Open the index at `path`, locked until the end of the block; None is an index in memory.

    A file that is missing, damaged, foreign or of another version is replaced. Where nothing can be
    written, or another process holds the lock for `lock_timeout` seconds, the index is in memory:
    slower, but with the same answers (`Index.reason`). An exception in the block leaves the file
    unchanged.
    """
    index = Index(path, lock_timeout)
    keep = False
    try:
        yield index
        keep = True
    finally:
        index.close(keep=keep)


def sync(index: Index, files: Mapping[str, str], load: Load) -> SyncReport:
    """Make the index equal to `files`.

    Args:
        index: the index to change.
        files: object id by path. An id of "" means that the file is read at every sync.
        load: reads files, called once for those that are new to the index. Its argument has for
            each path the rows that the index knows, and it may return those entries as
            `LoadedFile.kept`. A path that it does not return is read again at the next sync.
    """
    fill = partial(_fill, index, files, load)
    index.refill = fill
    try:
        return fill()
    except sqlite3.DatabaseError as damage:
        index.replace(damage)
        return fill()


def _fill(index: Index, files: Mapping[str, str], load: Load) -> SyncReport:
    """Read changes since the last sync into the index."""
    connection = index.connection
    indexed = dict(connection.execute("SELECT path, oid FROM files"))
    stale = {path for path, oid in indexed.items() if not oid or files.get(path) != oid}
    connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in stale])
    connection.executemany(FORGET_FEEDBACK, [(path,) for path in stale])

    stale_rows = {path: connection.execute(KNOWN_ROWS, (path,)).fetchall() for path in stale}
    known_by_path: dict[str, KnownDigests] = {}
    for path, oid in sorted(files.items()):
        if not oid or indexed.get(path) != oid:
            known_by_path[path] = {
                source: digest for *_, source, digest in stale_rows.get(path, ()) if source
            }

    read_paths: list[str] = []
    for file in load(known_by_path) if known_by_path else ():
        values = rows.file_row(file, files[file.path])
        old_rows = stale_rows.get(file.path, [])
        _put_file(connection, file, values, known_by_path[file.path], old_rows)
        read_paths.append(file.path)
    for path in stale.difference(read_paths):
        update_rows(connection, stale_rows[path], [])

    was_rebuilt = index.is_new
    index.is_new = False
    (entries,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    return SyncReport(len(read_paths), entries, was_rebuilt)


def _put_file(
    connection: sqlite3.Connection,
    file: LoadedFile,
    values: Row,
    known_digests: KnownDigests,
    old_rows: Sequence[Row],
) -> None:
    """Make the rows of one file equal to its content.

    A file grows by an entry far more often than it is rewritten: an entry that it still holds keeps
    its row, and its words are not indexed again.

    Args:
        connection: the database.
        file: the content of the file.
        values: its row of FILE_COLUMNS.
        known_digests: digests of its rows in the index, by source.
        old_rows: its rows in the index.
    """
    feedback = list(rows.feedback_rows(file))
    entry_rows = [
        rows.entry_row(located, file.sources.get(located.line)) for located in file.entries
    ]
    digests = [(line, known_digests[source]) for source, line in file.kept]
    kept_count = len(digests)
    digests += [rows.entry_digest(row) for row in entry_rows]
    connection.execute(ADD_FILE, (*values, rows.file_digest(values, digests, feedback)))
    connection.executemany(ADD_FEEDBACK, feedback)

    new = update_rows(connection, old_rows, digests)
    # SQLite numbers a new row by the largest number plus one.
    (last_row,) = connection.execute("SELECT coalesce(max(row), 0) FROM entries").fetchone()
    new_rows = [(*entry_rows[index - kept_count], digests[index][1]) for index in new]
    connection.executemany(ADD_ENTRY, new_rows)
    new_entries = [file.entries[index - kept_count] for index in new]
    text_rows = (
        text_row(row, located)
        for row, located in zip(count(last_row + 1), new_entries, strict=False)
    )
    connection.executemany(ADD_TEXT, text_rows)


def update_rows(
    connection: sqlite3.Connection,
    old_rows: Sequence[Row],
    wanted_rows: Sequence[tuple[int, bytes]],
) -> list[int]:
    """Delete the rows of a file that are not wanted, and correct the lines of the others.

    Args:
        connection: the database.
        old_rows: the rows of the file, as KNOWN_ROWS lists them.
        wanted_rows: the line and the digest of each row that is wanted.

    Returns:
        The indices of those of `wanted_rows` that the database lacks.
    """
    new, moved, unwanted = compare_rows(old_rows, wanted_rows)
    if unwanted:
        row_numbers = json.dumps(unwanted)
        connection.execute(FORGET_TEXT, (row_numbers,))
        connection.execute(FORGET_ENTRIES, (row_numbers,))
    connection.executemany(MOVE_ENTRY, moved)
    return new


def compare_rows(
    old_rows: Sequence[Row], wanted_rows: Sequence[tuple[int, bytes]]
) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """Compare the rows of a file with those that are wanted.

    Returns:
        The indices of those of `wanted_rows` that are new, the new line and the number of each row
        that only moved, and the numbers of the rows that are not wanted.
    """
    places_by_digest: dict[bytes, list[tuple[int, int]]] = {}
    for row, line, _, digest in old_rows:
        places_by_digest.setdefault(digest, []).append((row, line))

    new: list[int] = []
    moved: list[tuple[int, int]] = []
    for index, (line, digest) in enumerate(wanted_rows):
        places = places_by_digest.get(digest)
        if not places:
            new.append(index)
            continue
        row, old_line = places.pop(0)
        if old_line != line:
            moved.append((line, row))

    unwanted: list[int] = []
    for places in places_by_digest.values():
        unwanted += [row for row, _ in places]
    return new, moved, unwanted


def text_row(row: int, located: Located) -> Row:
    """Return the values of ADD_TEXT for an entry in a row with this number."""
    entry = located.entry
    return (
        row,
        entry.title,
        entry.body,
        rows.hidden_parts(entry.title, entry.body),
        cited_words(entry.cites, entry.aka),
    )
