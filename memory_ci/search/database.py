"""The database file: opened under a lock, trusted only if it is as we left it, replaced when it is not.

A file that nobody touched since it was last closed is known by its seal, a line beside it. Any other, restored from a
cache say, is proved once: its schema, SQLite's own check, the digest of every file's rows, and every word against its
text. That finds damage and edits; a forger who computes the digests anew is found by `verify`, which reads the tree.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from memory_ci.files import is_regular_or_absent, read_regular
from memory_ci.search.rows import (
    ENTRY_COLUMNS,
    FEEDBACK_COLUMNS,
    FILE_COLUMNS,
    FUNCTIONS,
    Row,
    digest,
    entry_digest,
)

SCHEMA_VERSION = 8  # Version of schema.sql, whose head says when to raise it.
TOKENIZER = "porter unicode61 remove_diacritics 2"
"""English stems, any script, accents folded: the tokenizer that schema.sql names."""

LIST_FILES = f"SELECT {FILE_COLUMNS}, digest FROM files ORDER BY path"  # noqa: S608 - a constant of ours
LIST_ROWS = f"SELECT path, {ENTRY_COLUMNS} FROM entries ORDER BY path, line, id"  # noqa: S608 - a constant of ours
LIST_FEEDBACK = f"SELECT {FEEDBACK_COLUMNS} FROM feedback ORDER BY path, place"  # noqa: S608 - a constant of ours
LIST_SCHEMA = (
    "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'entries_fts_%' ORDER BY name"
)
CHECK_WORDS = "INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)"
MAX_SEAL = 1_000  # Bytes: a seal is one line of numbers.


def is_sealed(path: Path) -> bool:
    """Whether the file is as it was when `seal` was last called."""
    with suppress(OSError, UnicodeDecodeError):
        return read_regular(seal_path(path), MAX_SEAL).decode() == _fingerprint(path)
    return False


def seal(path: Path) -> None:
    """Remember the state of a file. Where that cannot be written, the file is proved at each opening."""
    with suppress(OSError):
        if not is_sealed(path) and (seal_path(path).is_file() or not seal_path(path).exists()):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(
                seal_path(path), flags, 0o666
            )  # a link would lead to a file of the person
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(_fingerprint(path))


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
        if (
            digest(tuple(values), map(entry_digest, rows.pop(path, [])), feedback.pop(path, []))
            != written
        ):
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


def seal_path(path: Path) -> Path:
    """Where the state of a file is remembered."""
    return path.with_name(f"{path.name}.seal")


def _fingerprint(path: Path) -> str:
    """Size, times in nanoseconds and inode. A copy may keep the time of modification, never that of change."""
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}\n"


T = TypeVar("T")
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
"""Result codes that speak of the disk, of rights or of other users; any other error speaks of the content."""


APPLICATION_ID = b"mciX"  # What schema.sql puts into the header of every index (SQLite file format, section 1.3.14).


def is_ours(path: Path) -> bool:
    """Whether an index may be put at `path`: nothing is there, or a file that is an index, in whatever state it is.
    Raises OSError when that cannot be told."""
    if not path.exists():
        return True
    if not path.is_file():
        return False  # /dev/null holds nothing as well, and must not be replaced
    with path.open("rb") as file:
        header = file.read(72)
    return not header or header[68:72] == APPLICATION_ID


class Index:
    """An open index, inside one transaction that holds the write lock from opening to closing.

    So sync and search see one state, and a second process waits for the first instead of building beside it.
    `is_temporary`: it lives in memory, because that was asked or for `reason`; its answers are the same.
    `is_new`: nothing of an earlier index is in it.
    """

    def __init__(self, path: Path | None, lock_timeout: float) -> None:
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
            self._begin(path or ":memory:")
        except (
            sqlite3.DatabaseError,
            OSError,
            UnicodeDecodeError,
        ) as error:  # a schema whose text is none
            self.replace(error)

    def read(self, sql: str, values: Values, make: Callable[[Row], T]) -> list[T]:
        """`make` of every row. What cannot be read back is damage: then the index is built again, once."""
        try:
            return self._read(sql, values, make)
        except (sqlite3.DatabaseError, ValueError, TypeError) as damage:
            self.replace(damage)
            self.refill()
            return self._read(sql, values, make)

    def replace(self, error: Exception) -> None:
        """Go on with an empty index after `error`: in the same place, or in memory when the place is at fault. Raises
        `error` when the index is in memory already: no other place is left."""
        if self._path is None or self.is_temporary:
            raise error
        try:
            if is_fault_of_the_place(error):
                raise error
            self._discard(self._path)
            self._begin(self._path)
        except (sqlite3.DatabaseError, OSError, UnicodeDecodeError) as reason:
            self.is_temporary, self.reason = True, str(reason)
            self._begin(":memory:")

    def close(self, *, keep: bool) -> None:
        """End the transaction. What cannot be kept is built again next time: the answers have been given."""
        with suppress(sqlite3.DatabaseError):
            self.connection.execute("COMMIT" if keep else "ROLLBACK")
            if self._path is not None and not self.is_temporary:
                seal(self._path)
        self.connection.close()

    def _read(self, sql: str, values: Values, make: Callable[[Row], T]) -> list[T]:
        return [make(row) for row in self.connection.execute(sql, values)]

    def _begin(self, place: Path | str) -> None:
        """Open `place`, take the write lock and make sure of the schema."""
        self.connection = connect(place, self._lock_timeout)
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self._inode = _inode(self._path)
            self.is_new = not self.connection.execute(
                "SELECT count(*) FROM sqlite_master"
            ).fetchone()[0]
            if self.is_new:
                create(self.connection)
            else:
                self._check(isinstance(place, Path) and is_sealed(place))
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            self.connection.close()
            raise

    def _check(self, is_known: bool) -> None:
        check_identity(self.connection)
        if not is_known:
            check_schema(self.connection)
            prove(self.connection)
            self.connection.execute(
                "DELETE FROM verdicts"
            )  # nothing here tells a forged one from ours

    def _discard(self, path: Path) -> None:
        """Remove the database, unless another process has put a new one there since this one was opened. A journal that
        stays behind does no harm: SQLite throws it away when it finds an empty database."""
        self.connection.close()
        if _inode(path) == self._inode:
            path.unlink(missing_ok=True)


def connect(place: Path | str, timeout: float = 0) -> sqlite3.Connection:
    """Return a connection without implicit transactions, with the functions that schema.sql calls.

    Raises:
        OSError: `place` is something else than a regular file, as a pipe, for which SQLite would wait.
    """
    if not is_regular_or_absent(place):
        raise OSError(errno.EINVAL, "is not a regular file", str(place))
    connection = sqlite3.connect(place, timeout=timeout, isolation_level=None)
    for name, arguments, function in FUNCTIONS:
        connection.create_function(name, arguments, function, deterministic=True)
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Make an empty index. The caller's transaction stays open: nobody sees half a schema (executescript commits)."""
    for statement in SCHEMA.read_text(encoding="utf-8").split(";\n"):
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", IDENTITY.items())


def check_identity(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError for an index of another version."""
    if dict(connection.execute("SELECT key, value FROM meta")) != IDENTITY:
        raise sqlite3.DatabaseError("an index of another version")


def check_schema(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError where a table is changed, or something added: a trigger, say."""
    if connection.execute(LIST_SCHEMA).fetchall() != _schema():
        raise sqlite3.DatabaseError("tables that are not those of an index")


def _schema() -> list[Row]:
    """What sqlite_master lists for a new index."""
    connection = connect(":memory:")
    create(connection)
    schema = connection.execute(LIST_SCHEMA).fetchall()
    connection.close()
    return schema


def is_fault_of_the_place(error: Exception) -> bool:
    """Whether an error speaks of the disk, of rights or of other users."""
    primary_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, OSError) or primary_code in FAULTS_OF_THE_PLACE


def refuse_pipes(path: Path) -> None:
    """Whoever opens a pipe waits for who writes into it. Raises OSError."""
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal"):
        place = path.with_name(name)
        if place.exists() and not place.is_file():
            raise OSError(errno.EINVAL, "is not a regular file", str(place))


def _inode(path: Path | None) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino if path else None
    return None


def cache_key(files: Mapping[str, str]) -> str:
    """The name under which a CI cache keeps an index: the same for two trees exactly when one index serves both.
    `files` maps path to object id, as for `builder.sync`."""
    digest = hashlib.sha256(TOKENIZER.encode())
    for path, oid in sorted(files.items()):
        digest.update(f"\0{path}\0{oid}".encode("utf-8", "surrogateescape"))
    return f"memory-ci-index-v{SCHEMA_VERSION}-{digest.hexdigest()[:32]}"
