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
    connect,
    create,
    entries_by_path,
    feedback_by_path,
    require_index_schema,
    require_intact,
    require_this_version,
)
from memory_ci.search.rows import ENTRY_COLUMNS, Row

# A constant of ours.
LIST_ENTRIES = f"SELECT {ENTRY_COLUMNS}, digest FROM entries ORDER BY path, line, id"  # noqa: S608
HINT = "Delete the file, or run `memory-ci index`."


def write_artifact(index: Index, path: Path) -> None:
    """Write a search index to a file, with the same bytes for the same memory files.

    The rows are inserted in order, and the full-text index is rebuilt and compacted. So the bytes
    depend on the version of SQLite, whose number is in the header, but not on time, place or the
    order of earlier updates. Cached vectors are left out: they are not derived from the tree alone.
    The file is replaced at once: a reader sees the old one or the new one.

    Args:
        index: the index.
        path: the file.

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
    """Copy the tables of an index into an empty database, in a fixed order of rows and pages."""
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
    """Return the differences between an index file and an index that was built just now.

    Every column of every row is compared, and every word of the full-text index with its text. The
    file is only read.

    Args:
        path: the index file.
        fresh: the index that was built from the same tree.

    Returns:
        The differences, in order of paths.
    """
    try:
        with closing(_read_into_memory(path)) as connection:
            require_this_version(connection)
            require_index_schema(connection)
            differences = list(_list_differences(connection, fresh.connection))
            if not differences:
                require_intact(connection)
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
    """Yield a finding for each memory file whose rows differ between two databases.

    Args:
        checked: the database to check.
        fresh: the database that was built just now, which is right.
    """
    files = _files_by_path(checked)
    fresh_files = _files_by_path(fresh)
    entries = entries_by_path(checked)
    fresh_entries = entries_by_path(fresh)
    feedback = feedback_by_path(checked)
    fresh_feedback = feedback_by_path(fresh)
    paths = fresh_files.keys() | files.keys() | entries.keys() | feedback.keys()
    for path in sorted(paths):
        if path not in fresh_files:
            yield _make_finding(path, 1, "the index has a file that the tree does not have")
            continue
        if path not in files:
            yield _make_finding(path, 1, "the index does not have this file")
            continue
        oid_column = 1
        if files[path][oid_column] != fresh_files[path][oid_column]:
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
    """Return the line in its file of the first row that differs; None if all rows are equal.

    A difference without a line, such as a surplus row, is on line 1.

    Args:
        rows: rows of entries or of feedback, whose third column is the line.
        fresh_rows: the rows as they should be.
    """
    if rows == fresh_rows:
        return None
    line_column = 2
    row_pairs = zip(rows, fresh_rows, strict=False)
    lines = [fresh_row[line_column] for row, fresh_row in row_pairs if row != fresh_row]
    lines += [missing_row[line_column] for missing_row in fresh_rows[len(rows) :]]
    return next((line for line in lines if isinstance(line, int)), 1)


def _make_finding(path: str, line: int, message: str) -> Finding:
    return Finding(path, line, "index-differs", message, HINT)
