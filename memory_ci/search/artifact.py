"""The index as a file with reproducible bytes, its verification, and its statistics."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from memory_ci.errors import RepositoryError
from memory_ci.files import replacing
from memory_ci.records.report import Finding
from memory_ci.search.builder import ADD_ENTRY, ADD_FEEDBACK, ADD_FILE
from memory_ci.search.database import (
    LIST_FEEDBACK,
    LIST_FILES,
    Index,
    check_identity,
    check_schema,
    connect,
    create,
    entries_by_path,
    feedback_by_path,
    prove,
)
from memory_ci.search.rows import ENTRY_COLUMNS, Row

# A constant of ours.
LIST_ENTRIES = f"SELECT {ENTRY_COLUMNS}, digest FROM entries ORDER BY path, line, id"  # noqa: S608
HINT = "Delete the file, or run `memory-ci index`."


def write_artifact(index: Index, path: Path) -> None:
    """Write an index to a file, with the same bytes for the same memory.

    Rows are in order of content, words in one segment, pages in order. The bytes depend on the
    version of SQLite, whose number is in the header, but not on time, place or the order of earlier
    updates. Cached vectors are left out: they are not derived from the tree alone. A reader sees
    the old file or the new one.

    Raises:
        RepositoryError: the file cannot be written (write-failed).
    """
    try:
        with replacing(path) as temporary:
            with closing(connect(temporary)) as target:
                _copy_tables(index.connection, target)
            temporary.chmod(0o644)
    except (OSError, sqlite3.OperationalError) as error:
        raise RepositoryError(
            f"cannot write {path}: {error}", slug="write-failed", hint="Nothing was changed."
        ) from error


def _copy_tables(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    # Nobody reads the file yet; after a crash it is ignored.
    target.execute("PRAGMA journal_mode = OFF")
    target.execute("BEGIN")
    create(target)
    target.executemany(ADD_FILE, source.execute(LIST_FILES))
    target.executemany(ADD_ENTRY, source.execute(LIST_ENTRIES))
    target.executemany(ADD_FEEDBACK, source.execute(LIST_FEEDBACK))
    target.execute("INSERT INTO entries_fts (entries_fts) VALUES ('rebuild')")
    target.execute("INSERT INTO entries_fts (entries_fts) VALUES ('optimize')")
    target.execute("COMMIT")
    target.execute("VACUUM")


def verify(path: Path, fresh: Index) -> list[Finding]:
    """Compare an index file with a fresh index; the file itself is only read.

    Every column of every row is compared, and every word of the lexical lane with its text.

    Returns:
        The differences, in order of paths.
    """
    try:
        with closing(_read_into_memory(path)) as connection:
            check_identity(connection)
            check_schema(connection)
            differences = list(_list_differences(connection, fresh.connection))
            if not differences:
                prove(connection)
            return differences
    except sqlite3.DatabaseError as damage:
        return [_make_finding(str(path), 1, f"the index cannot be used: {damage}")]


def _read_into_memory(path: Path) -> sqlite3.Connection:
    """Return a copy of a database in memory, where checks may write.

    Raises:
        sqlite3.DatabaseError: there is no database.
    """
    copy = connect(":memory:")
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
        source.backup(copy)
    return copy


def _list_differences(checked: sqlite3.Connection, fresh: sqlite3.Connection) -> Iterator[Finding]:
    """Return a finding for each file whose rows differ."""
    files, fresh_files = _files_by_path(checked), _files_by_path(fresh)
    entries, fresh_entries = entries_by_path(checked), entries_by_path(fresh)
    feedback, fresh_feedback = feedback_by_path(checked), feedback_by_path(fresh)
    paths = fresh_files.keys() | files.keys() | entries.keys() | feedback.keys()
    for path in sorted(paths):
        if path not in fresh_files:
            yield _make_finding(path, 1, "the index has a file that the tree does not have")
            continue
        if path not in files:
            yield _make_finding(path, 1, "the index does not have this file")
            continue
        if files[path][1] != fresh_files[path][1]:
            yield _make_finding(path, 1, "the index has another version of this file")
            continue

        line = _find_difference(entries.get(path, []), fresh_entries.get(path, []))
        if line is not None:
            yield _make_finding(path, line, "entries differ from the file")
            continue
        line = _find_difference(feedback.get(path, []), fresh_feedback.get(path, []))
        if line is not None:
            yield _make_finding(path, line, "feedback differs from the file")
        elif files[path] != fresh_files[path]:
            yield _make_finding(path, 1, "what the index knows of the file differs from it")


def _files_by_path(connection: sqlite3.Connection) -> Mapping[str, Row]:
    return {row[0]: row for row in connection.execute(LIST_FILES)}


def _find_difference(rows: list[Row], fresh_rows: list[Row]) -> int | None:
    """Return the line of the first row that differs, 1 if it has none; None if all are equal.

    The line is the third column of entries and of feedback.
    """
    if rows == fresh_rows:
        return None
    pairs = zip(rows, fresh_rows, strict=False)
    lines = [fresh_row[2] for row, fresh_row in pairs if row != fresh_row]
    lines += [row[2] for row in fresh_rows[len(rows) :]]
    return next((line for line in lines if isinstance(line, int)), 1)


def _make_finding(path: str, line: int, message: str) -> Finding:
    return Finding(path, line, "index-differs", message, HINT)
