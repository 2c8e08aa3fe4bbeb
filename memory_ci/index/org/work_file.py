"""The file of one audience that a sync works on: opened, proved, restored from what was published."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_ci.index.database import (
    IDENTITY,
    connect,
    create,
    is_fault_of_the_place,
    is_sealed,
    refuse_pipes,
    seal_path,
)

ORG_IDENTITY = {**IDENTITY, "org": "1"}
BUSY_SECONDS = 5.0

REPOSITORIES = """
CREATE TABLE repositories (
    id      TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    link    TEXT NOT NULL,
    head    TEXT NOT NULL,
    entries INTEGER NOT NULL
) WITHOUT ROWID
"""


def open_work(path: Path, published: Path) -> sqlite3.Connection:
    """The file that a sync works on, proved unless it is as we left it.

    Where there is none, or a damaged one, it goes on from what was published, and begins anew where that is no better.
    """
    refuse_pipes(path)
    for is_restored in (False, True):
        with _pass_over_damage():
            if is_restored:
                shutil.copyfile(published, path)
                path.chmod(0o644)
            if not published.exists() or (path.exists() and path.stat().st_size):
                return _open(path)
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    return _open(path)


@contextmanager
def _pass_over_damage() -> Iterator[None]:
    """Pass over what is wrong with a file; what is wrong with its place is raised."""
    try:
        yield
    except FileNotFoundError:
        pass
    except sqlite3.DatabaseError as error:
        if is_fault_of_the_place(error):
            raise


def _open(path: Path) -> sqlite3.Connection:
    is_known = is_sealed(path)
    seal_path(path).unlink(missing_ok=True)
    connection = connect(path, BUSY_SECONDS)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with transaction(connection):
                create(connection)
                connection.execute(REPOSITORIES)
                connection.execute("INSERT INTO meta VALUES ('org', ?)", (ORG_IDENTITY["org"],))
        check(connection)
        if not is_known:
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("pages are damaged")
            connection.execute("INSERT INTO entries_fts (entries_fts) VALUES ('integrity-check')")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def check(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError for a file of another version."""
    if dict(connection.execute("SELECT key, value FROM meta")) != ORG_IDENTITY:
        raise sqlite3.DatabaseError("it is of another version")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that the block does, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
