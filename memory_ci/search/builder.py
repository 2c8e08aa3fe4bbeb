"""Open the index and make it equal to a tree."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from memory_ci.records.entry import Located
from memory_ci.records.report import LoadedFile
from memory_ci.search import rows
from memory_ci.search.database import Index
from memory_ci.search.rows import ENTRY_COLUMNS, FEEDBACK_COLUMNS, FILE_COLUMNS, EntryDigest, Row
from memory_ci.text import cited_words

KnownDigests = Mapping[bytes, bytes]
"""Digests of the rows that the index has of a file, by the hash of the text of each entry."""

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


class RowLine(msgspec.Struct, frozen=True):
    """The line of an entry in its file, and the number of its row in the index."""

    line: int
    row_number: int


class RowChanges(msgspec.Struct, frozen=True):
    """How the rows that the index has of a file differ from those that are wanted.

    Attributes:
        missing_indices: the indices of those wanted rows that the index lacks.
        moved_rows: the new lines of rows whose entry moved within the file.
        unwanted_numbers: the numbers of the rows that are not wanted.
    """

    missing_indices: list[int]
    moved_rows: list[RowLine]
    unwanted_numbers: list[int]


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
    """Open the search index in a file, locked until the end of the block.

    A file that is missing, damaged, foreign or of another version is replaced. Where nothing can be
    written, or another process holds the lock too long, the index is in memory: slower, but with
    the same answers (`Index.reason`). An exception in the block leaves the file unchanged.

    Args:
        path: the file; None is an index in memory.
        lock_timeout: how many seconds to wait for another process.
    """
    index = Index(path, lock_timeout)
    was_successful = False
    try:
        yield index
        was_successful = True
    finally:
        index.close(save_changes=was_successful)


def sync(index: Index, files: Mapping[str, str], load: Load) -> SyncReport:
    """Update the index so that it has the entries of the files of a tree, and no others.

    A damaged index is replaced by an empty one, and filled. If the damage shows later, when a query
    reads a row, `Index.read` replaces the index and fills it in the same way.

    Args:
        index: the index to change.
        files: git object id by path. An id of "" means that the file is read at every sync.
        load: reads files, called once for those that are new to the index. Its argument has for
            each path the rows that the index knows, and it may return those entries as
            `LoadedFile.known_entries`. A path that it does not return is read again at the next
            sync.
    """
    fill = partial(_fill, index, files, load)
    index.refill = fill
    try:
        return fill()
    except sqlite3.DatabaseError as damage:
        index.replace_by_empty(damage)
        return fill()


def _fill(index: Index, files: Mapping[str, str], load: Load) -> SyncReport:
    """Read the files that changed since the last sync into the index.

    The rows of a changed file stay until it was read: rows of entries that it still has are kept.

    Args:
        index: the index.
        files: git object id by path, as for `sync`.
        load: reads files, as for `sync`.
    """
    connection = index.connection
    indexed_oids = dict(connection.execute("SELECT path, oid FROM files"))
    old_rows: dict[str, list[Row]] = {}  # Of files that changed or are gone, by path.
    for path, oid in indexed_oids.items():
        if not oid or files.get(path) != oid:
            connection.execute("DELETE FROM files WHERE path = ?", (path,))
            connection.execute(FORGET_FEEDBACK, (path,))
            old_rows[path] = connection.execute(KNOWN_ROWS, (path,)).fetchall()
    digests_by_path: dict[str, KnownDigests] = {}  # Has each file that is to be read.
    for path, oid in sorted(files.items()):
        if not oid or indexed_oids.get(path) != oid:
            digests_by_path[path] = {
                text_hash: digest for *_, text_hash, digest in old_rows.get(path, ()) if text_hash
            }

    read_paths: set[str] = set()
    for file in load(digests_by_path) if digests_by_path else ():
        file_row = rows.file_row(file, files[file.path])
        file_rows = old_rows.get(file.path, [])
        _put_file(connection, file, file_row, digests_by_path[file.path], file_rows)
        read_paths.add(file.path)
    for path in old_rows.keys() - read_paths:  # They are gone, or could not be read.
        update_rows(connection, old_rows[path], [])

    was_rebuilt = index.is_new
    index.is_new = False
    (entry_count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    return SyncReport(len(read_paths), entry_count, was_rebuilt)


def _put_file(
    connection: sqlite3.Connection,
    file: LoadedFile,
    file_row: Row,
    known_digests: KnownDigests,
    old_rows: Sequence[Row],
) -> None:
    """Update the rows of one file in the index to its content.

    A file grows by an entry far more often than it is rewritten: an entry that it still holds keeps
    its row, and its words are not indexed again.

    Args:
        connection: the database.
        file: the content of the file: the entries that the index has not, and the known ones.
        file_row: the row of the file in the table `files`.
        known_digests: digests of its entries' rows in the index, by the hash of the entry's text.
        old_rows: its entries' rows in the index.
    """
    feedback = list(rows.feedback_rows(file))
    known_rows: list[EntryDigest] = []
    for known_entry in file.known_entries:
        digest = known_digests[known_entry.text_hash]
        known_rows.append(EntryDigest(known_entry.line, digest))
    entry_rows: list[Row] = []
    for located in file.entries:
        entry_rows.append(rows.entry_row(located, file.text_hashes.get(located.line)))
    wanted_rows = [*known_rows, *(rows.entry_digest(row) for row in entry_rows)]
    file_digest = rows.file_digest(file_row, wanted_rows, feedback)
    connection.execute(ADD_FILE, (*file_row, file_digest))
    connection.executemany(ADD_FEEDBACK, feedback)

    missing_indices = update_rows(connection, old_rows, wanted_rows)
    # SQLite numbers a new row by the largest number plus one.
    (last_row,) = connection.execute("SELECT coalesce(max(row), 0) FROM entries").fetchone()
    new_rows: list[Row] = []
    text_rows: list[Row] = []
    for row_number, index in enumerate(missing_indices, start=last_row + 1):
        # The index has all known rows, so a missing one is of an entry that was read.
        entry_index = index - len(known_rows)
        new_rows.append((*entry_rows[entry_index], wanted_rows[index].digest))
        text_rows.append(text_row(row_number, file.entries[entry_index]))
    connection.executemany(ADD_ENTRY, new_rows)
    connection.executemany(ADD_TEXT, text_rows)


def update_rows(
    connection: sqlite3.Connection,
    old_rows: Sequence[Row],
    wanted_rows: Sequence[EntryDigest],
) -> list[int]:
    """Delete the rows of a file that are not wanted, and correct the lines of the others.

    Args:
        connection: the database.
        old_rows: the rows of the file, as KNOWN_ROWS lists them.
        wanted_rows: the line and the digest of each row that is wanted.

    Returns:
        The indices of the wanted rows that the database lacks.
    """
    changes = compare_rows(old_rows, wanted_rows)
    if changes.unwanted_numbers:
        row_numbers = rows.as_json_list(changes.unwanted_numbers)
        connection.execute(FORGET_TEXT, (row_numbers,))
        connection.execute(FORGET_ENTRIES, (row_numbers,))
    connection.executemany(MOVE_ENTRY, [(row.line, row.row_number) for row in changes.moved_rows])
    return changes.missing_indices


def compare_rows(old_rows: Sequence[Row], wanted_rows: Sequence[EntryDigest]) -> RowChanges:
    """Compare the rows of a file with those that are wanted, by their digests.

    Args:
        old_rows: the rows of the file, as KNOWN_ROWS lists them.
        wanted_rows: the line and the digest of each row that is wanted.
    """
    # Equal entries have one digest, and a row each.
    old_rows_by_digest: dict[bytes, list[RowLine]] = {}
    for row_number, line, _source, digest in old_rows:
        old_rows_by_digest.setdefault(digest, []).append(RowLine(line, row_number))

    missing_indices: list[int] = []
    moved_rows: list[RowLine] = []
    for index, wanted_row in enumerate(wanted_rows):
        equal_rows = old_rows_by_digest.get(wanted_row.digest)
        if not equal_rows:
            missing_indices.append(index)
            continue
        old_row = equal_rows.pop(0)
        if old_row.line != wanted_row.line:
            moved_rows.append(RowLine(wanted_row.line, old_row.row_number))

    unwanted_numbers: list[int] = []
    for surplus_rows in old_rows_by_digest.values():
        unwanted_numbers += [row.row_number for row in surplus_rows]
    return RowChanges(missing_indices, moved_rows, unwanted_numbers)


def text_row(row_number: int, located: Located) -> Row:
    """Return the values of ADD_TEXT, the searched texts of an entry, for a row with this number."""
    entry = located.entry
    return (
        row_number,
        entry.title,
        entry.body,
        rows.hidden_parts(entry.title, entry.body),
        cited_words(entry.cites, entry.aka),
    )
