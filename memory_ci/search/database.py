"""The database file of the index: opened under a lock, proved, and replaced where it is damaged.

A file that nobody changed since it was last closed is recognised by its seal, a line in a file next
to it. Any other file, for example one restored from a cache, is proved once: its schema, SQLite's
own check, the digest of every file's rows, and every word against its text. That finds damage and
edits. A forgery with new digests is found by `artifact.verify`, which reads the tree.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from memory_ci.digests import blake2b
from memory_ci.files import is_regular_or_absent, read_regular
from memory_ci.search.rows import (
    ENTRY_COLUMNS,
    FEEDBACK_COLUMNS,
    FILE_COLUMNS,
    SQL_FUNCTIONS,
    Row,
    entry_digest,
    file_digest,
)

SCHEMA_VERSION = 9  # Version of schema.sql, whose head says when to raise it.
TOKENIZER = "porter unicode61 remove_diacritics 2"
"""English stems, any script, accents folded: the tokenizer that schema.sql names."""

# Statements are put together of constants of ours.
LIST_FILES = f"SELECT {FILE_COLUMNS}, digest FROM files ORDER BY path"  # noqa: S608
LIST_ROWS = f"SELECT path, {ENTRY_COLUMNS} FROM entries ORDER BY path, line, id"  # noqa: S608
LIST_FEEDBACK = f"SELECT {FEEDBACK_COLUMNS} FROM feedback ORDER BY path, place"  # noqa: S608
LIST_SCHEMA = (
    "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'entries_fts_%' ORDER BY name"
)
COUNT_TABLES = "SELECT count(*) FROM sqlite_master"
CHECK_WORDS = "INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)"
KEY_BYTES = 16  # Of the digest in a cache key.
MAX_SEAL = 1_000  # Bytes: a seal is one line of numbers.


def is_sealed(path: Path) -> bool:
    """Return whether a file is unchanged since `seal` was last called."""
    with suppress(OSError, UnicodeDecodeError):
        return read_regular(seal_path(path), MAX_SEAL).decode() == _read_fingerprint(path)
    return False


def seal(path: Path) -> None:
    """Write the size and times of an index file into a file next to it, its seal.

    While the seal agrees with the index, no other program changed it, and the slow check of its
    content is left out. Without a seal the index is checked each time it is opened.
    """
    target = seal_path(path)
    with suppress(OSError):
        is_other_kind = target.exists() and not target.is_file()  # A directory or a pipe.
        if is_sealed(path) or is_other_kind:
            return
        # A symbolic link is not followed: it could lead to a file of the user.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(target, flags, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(_read_fingerprint(path))


def require_intact(connection: sqlite3.Connection) -> None:
    """Raise unless everything in the database of an index is as it was written.

    SQLite checks its own pages (`quick_check`) and that the full-text index has the words of the
    entries (CHECK_WORDS). Digests show rows that were changed.

    Raises:
        sqlite3.DatabaseError: something was damaged or altered.
    """
    if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("pages of the index are damaged")
    connection.execute(CHECK_WORDS)
    altered_path = next(list_altered_files(connection), None)
    if altered_path is not None:
        raise sqlite3.DatabaseError(f"rows of {altered_path} were altered")


def list_altered_files(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the paths of memory files whose rows were changed after they were written.

    Their rows do not match the digest of the file, or there is no row of the file.
    """
    entries = entries_by_path(connection)
    feedback = feedback_by_path(connection)
    for *file_values, written_digest in connection.execute(LIST_FILES).fetchall():
        path = file_values[0]
        entry_digests = [entry_digest(row) for row in entries.pop(path, [])]
        feedback_rows = feedback.pop(path, [])
        if file_digest(tuple(file_values), entry_digests, feedback_rows) != written_digest:
            yield path
    yield from entries.keys() | feedback.keys()


def entries_by_path(connection: sqlite3.Connection) -> dict[str, list[Row]]:
    """Return the rows of entries (`rows.entry_row`) by path, each list in order of lines."""
    groups = groupby(connection.execute(LIST_ROWS), key=lambda row: row[0])
    return {path: [row[1:] for row in rows] for path, rows in groups}


def feedback_by_path(connection: sqlite3.Connection) -> dict[str, list[Row]]:
    """Return the rows of feedback (`rows.feedback_rows`) by path."""
    groups = groupby(connection.execute(LIST_FEEDBACK), key=lambda row: row[0])
    return {path: list(rows) for path, rows in groups}


def seal_path(path: Path) -> Path:
    """Return the path of the seal of a file."""
    return path.with_name(f"{path.name}.seal")


def _read_fingerprint(path: Path) -> str:
    """Return size, times in nanoseconds and inode.

    A copy of a file may keep its time of modification (mtime), but not its time of change (ctime).
    """
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}\n"


T = TypeVar("T")
IN_MEMORY = ":memory:"  # SQLite's name of a database without a file.
OPEN_ERRORS = (sqlite3.DatabaseError, OSError, UnicodeDecodeError)
"""Errors of a file that is no usable index. UnicodeDecodeError: its schema is not text."""
Values = Sequence[str] | Mapping[str, object]
SCHEMA = Path(__file__).with_name("schema.sql")
IDENTITY = {"schema": str(SCHEMA_VERSION), "tokenizer": TOKENIZER}

FAULTS_OF_THE_PLACE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""Result codes about the disk, permissions or other processes; any other is about the content."""

APPLICATION_ID = b"mciX"
"""In the header of every index, by schema.sql (SQLite file format, section 1.3.14)."""


def may_replace(path: Path) -> bool:
    """Return whether an index may be written to `path`, so that no other file is lost.

    It may where there is no file, an empty file, or an index, damaged or not.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.exists():
        return True
    if not path.is_file():
        return False  # /dev/null is empty as well, and must not be replaced.
    with path.open("rb") as file:
        header = file.read(72)
    # An SQLite file has the id of its application at byte 68.
    return not header or header[68:72] == APPLICATION_ID


class Index:
    """An open index, in one transaction that holds the write lock from opening to closing.

    So sync and search see one state, and a second process waits for the first instead of building
    as well.

    Attributes:
        is_temporary: whether it is in memory, by request or for `reason`; its answers are the same.
        is_new: whether it has nothing of an earlier index.
        reason: why it is in memory; "" if that was requested.
        refill: fills the index again after it was replaced; does nothing before `builder.sync`.
        connection: the connection to the database.
    """

    def __init__(self, path: Path | None, lock_timeout: float) -> None:
        """Open an index.

        If the file at `path` is damaged or cannot be used, an empty index takes its place.

        Args:
            path: its file; None for an index in memory.
            lock_timeout: how many seconds to wait for the lock of another process.
        """
        self.is_temporary = path is None
        self.is_new = False
        self.reason = ""
        self.refill: Callable[[], object] = lambda: None
        self._path = path
        self._lock_timeout = lock_timeout
        self._inode = _inode(path)
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                refuse_pipes(path)
            self._begin(path or IN_MEMORY)
        except OPEN_ERRORS as error:
            self.replace_by_empty(error)

    def read(self, sql: str, values: Values, make: Callable[[Row], T]) -> list[T]:
        """Return the rows of a query, each converted by `make`.

        If a row cannot be read or converted, the index is damaged. It is then built again, once.

        Args:
            sql: the query.
            values: the values to bind.
            make: converts a row; its ValueError or TypeError means damage.
        """
        try:
            return self._read(sql, values, make)
        except (sqlite3.DatabaseError, ValueError, TypeError) as damage:
            self.replace_by_empty(damage)
            self.refill()
            return self._read(sql, values, make)

    def replace_by_empty(self, error: Exception) -> None:
        """Continue with an empty index after an error.

        A damaged file is deleted and created again. If the file cannot be used, for example on a
        full disk, the index is in memory from now on.

        Args:
            error: the error of the index so far.

        Raises:
            Exception: `error`, if the index is in memory already.
        """
        if self._path is None or self.is_temporary:
            raise error
        file_error = error if is_place_error(error) else self._recreate_file(self._path)
        if file_error is not None:
            self.is_temporary = True
            self.reason = str(file_error)
            self._begin(IN_MEMORY)

    def _recreate_file(self, path: Path) -> Exception | None:
        """Replace the file by one of an empty index; return the error if that fails."""
        try:
            self._discard(path)
            self._begin(path)
        except OPEN_ERRORS as error:
            return error
        return None

    def close(self, *, save_changes: bool) -> None:
        """End the transaction and close the database.

        Changes that cannot be saved are made again next time.

        Args:
            save_changes: whether the changes are saved; otherwise they are undone.
        """
        with suppress(sqlite3.DatabaseError):
            self.connection.execute("COMMIT" if save_changes else "ROLLBACK")
            if self._path is not None and not self.is_temporary:
                seal(self._path)
        self.connection.close()

    def _read(self, sql: str, values: Values, make: Callable[[Row], T]) -> list[T]:
        return [make(row) for row in self.connection.execute(sql, values)]

    def _begin(self, database: Path | str) -> None:
        """Open a database, take the write lock, and create or check its tables.

        Args:
            database: the file, or IN_MEMORY.

        Raises:
            sqlite3.DatabaseError: it is damaged, no index, or locked too long.
            UnicodeDecodeError: it is damaged: its schema is not text.
        """
        self.connection = connect(database, self._lock_timeout)
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            # The file that was opened: another process may replace it later (`_discard`).
            self._inode = _inode(self._path)
            (table_count,) = self.connection.execute(COUNT_TABLES).fetchone()
            self.is_new = table_count == 0
            if self.is_new:
                create(self.connection)
            else:
                is_unchanged = isinstance(database, Path) and is_sealed(database)
                self._check(is_unchanged=is_unchanged)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            self.connection.close()
            raise

    def _check(self, *, is_unchanged: bool) -> None:
        """Check that the database is an index of this version.

        A database that may have been changed (restored from a cache, for example) is checked
        completely. Its table of anchor verdicts, which only saves work, is emptied: a verdict has
        no digest by which a forged one would be found.

        Args:
            is_unchanged: whether no other program changed the file.
        """
        require_this_version(self.connection)
        if not is_unchanged:
            require_index_schema(self.connection)
            require_intact(self.connection)
            self.connection.execute("DELETE FROM verdicts")

    def _discard(self, path: Path) -> None:
        """Remove the database, unless another process has replaced it since it was opened.

        A journal that remains does no harm: SQLite deletes it when it finds an empty database.
        """
        self.connection.close()
        if _inode(path) == self._inode:
            path.unlink(missing_ok=True)


def connect(database: Path | str, timeout: float = 0) -> sqlite3.Connection:
    """Return a connection without implicit transactions, with the functions that schema.sql calls.

    Args:
        database: the file, or IN_MEMORY.
        timeout: how many seconds to wait for the lock of another process; by default a locked
            database is an error at once.

    Raises:
        OSError: `database` is no regular file. SQLite would wait for a pipe.
    """
    if not is_regular_or_absent(database):
        raise OSError(errno.EINVAL, "is not a regular file", str(database))
    connection = sqlite3.connect(database, timeout=timeout, isolation_level=None)
    for name, arguments, function in SQL_FUNCTIONS:
        connection.create_function(name, arguments, function, deterministic=True)
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty index.

    The statements of schema.sql are executed one by one, in the caller's transaction: executescript
    would commit, and another process could see half of the tables.
    """
    for statement in SCHEMA.read_text(encoding="utf-8").split(";\n"):
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", IDENTITY.items())


def require_this_version(connection: sqlite3.Connection) -> None:
    """Check that an index has the schema version and the tokenizer of this program.

    Raises:
        sqlite3.DatabaseError: it has others: it is an index of another version.
    """
    if dict(connection.execute("SELECT key, value FROM meta")) != IDENTITY:
        raise sqlite3.DatabaseError("an index of another version")


def require_index_schema(connection: sqlite3.Connection) -> None:
    """Check that an index has exactly the tables, indexes and triggers of a new one.

    Raises:
        sqlite3.DatabaseError: a table is changed or something is added, for example a trigger.
    """
    if connection.execute(LIST_SCHEMA).fetchall() != _read_new_schema():
        raise sqlite3.DatabaseError("tables that are not those of an index")


def _read_new_schema() -> list[Row]:
    """Return the rows of sqlite_master of a new index."""
    connection = connect(IN_MEMORY)
    create(connection)
    schema = connection.execute(LIST_SCHEMA).fetchall()
    connection.close()
    return schema


def is_place_error(error: Exception) -> bool:
    """Return whether an error is about the disk, permissions or other processes."""
    primary_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, OSError) or primary_code in FAULTS_OF_THE_PLACE


def refuse_pipes(path: Path) -> None:
    """Check that neither a database nor its journal is a pipe, which would block a reader.

    Raises:
        OSError: one of them is no regular file.
    """
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal"):
        file = path.with_name(name)
        if file.exists() and not file.is_file():
            raise OSError(errno.EINVAL, "is not a regular file", str(file))


def _inode(path: Path | None) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino if path else None
    return None


def cache_key(files: Mapping[str, str]) -> str:
    """Return the key under which the cache of a CI provider stores an index.

    Two trees have the same key exactly when they have the same memory files.

    Args:
        files: git object id by path, as for `builder.sync`.
    """
    fields = [TOKENIZER]
    for path, oid in sorted(files.items()):
        fields += [path, oid]
    data = "\0".join(fields).encode("utf-8", "surrogateescape")
    digest = blake2b(data, digest_size=KEY_BYTES).hexdigest()
    return f"memory-ci-index-v{SCHEMA_VERSION}-{digest}"
