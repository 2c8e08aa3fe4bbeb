"""Whether what stands in an index file is what was written there.

A file that nobody touched since it was last closed is known by its seal, a line beside it. Any other, restored from a
cache say, is proved once: its schema, SQLite's own check, the digest of every file's rows, and every word against its
text. That finds damage and edits; a forger who computes the digests anew is found by `verify`, which reads the tree.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from memory_ci.files import read_regular
from memory_ci.index.rows import ENTRY_COLUMNS, FEEDBACK_COLUMNS, FILE_COLUMNS, Row, digest

LIST_FILES = f"SELECT {FILE_COLUMNS}, digest FROM files ORDER BY path"  # noqa: S608 - a constant of ours
LIST_ROWS = f"SELECT path, {ENTRY_COLUMNS} FROM entries ORDER BY path, line, id"  # noqa: S608 - a constant of ours
LIST_FEEDBACK = f"SELECT {FEEDBACK_COLUMNS} FROM feedback ORDER BY path, place"  # noqa: S608 - a constant of ours
LIST_SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'entries_fts_%' ORDER BY name"
CHECK_WORDS = "INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)"


MAX_SEAL = 1_000  # Bytes: a seal is one line of numbers.


def is_sealed(path: Path) -> bool:
    """Whether the file is as it was when `seal` was last called."""
    with suppress(OSError, UnicodeDecodeError):
        return read_regular(_seal_path(path), MAX_SEAL).decode() == _fingerprint(path)
    return False


def seal(path: Path) -> None:
    """Remember the state of a file. Where that cannot be written, the file is proved at each opening."""
    with suppress(OSError):
        if not is_sealed(path) and (_seal_path(path).is_file() or not _seal_path(path).exists()):
            _seal_path(path).write_text(_fingerprint(path), "utf-8")


def prove(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError when something in the database is not as it was written."""
    if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("pages of the index are damaged")
    connection.execute(CHECK_WORDS)
    for path in wrong_files(connection):
        raise sqlite3.DatabaseError(f"rows of {path} were altered")


def wrong_files(connection: sqlite3.Connection) -> Iterator[str]:
    """Paths whose rows are not those of their digest, or that have rows but no digest."""
    rows, feedback = entries_by_path(connection), feedback_by_path(connection)
    for *values, written in connection.execute(LIST_FILES).fetchall():
        path = values[0]
        if digest(tuple(values), rows.pop(path, []), feedback.pop(path, [])) != written:
            yield path
    yield from rows.keys() | feedback.keys()


def entries_by_path(connection: sqlite3.Connection) -> dict[str, list[Row]]:
    """The rows of entries as `rows.entry_row` gave them, by path, each list in order of lines."""
    listed = groupby(connection.execute(LIST_ROWS), key=lambda row: row[0])
    return {path: [row[1:] for row in rows] for path, rows in listed}


def feedback_by_path(connection: sqlite3.Connection) -> dict[str, list[Row]]:
    """The rows of feedback as `rows.feedback_rows` gave them, by path."""
    listed = groupby(connection.execute(LIST_FEEDBACK), key=lambda row: row[0])
    return {path: list(rows) for path, rows in listed}


def _seal_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.seal")


def _fingerprint(path: Path) -> str:
    """Size, times in nanoseconds and inode. A copy may keep the time of modification, never that of change."""
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}\n"
