"""The index as a file to hand on: the same bytes for the same memory, by whatever way it came about."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from memory_ci.errors import RepositoryError
from memory_ci.index.build import ADD_ENTRY, ADD_FEEDBACK, ADD_FILE
from memory_ci.index.database import Index, connect, create
from memory_ci.index.rows import ENTRY_COLUMNS
from memory_ci.index.trust import LIST_FEEDBACK, LIST_FILES


def write_artifact(index: Index, path: Path) -> None:
    """Write what `index` knows to `path`, rows in order of content, words in one segment, pages in order.

    The bytes are those of one version of SQLite (its number is in the header). They do not depend on time, place or
    the order of earlier updates. Cached vectors stay behind: they are not derived from the tree alone. A reader sees
    the old file or the new one. Raises RepositoryError (write-failed).
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
        os.close(handle)
        with closing(connect(temporary)) as target:
            _fill(target, index.connection)
        _flush(Path(temporary))
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except (OSError, sqlite3.OperationalError) as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        raise RepositoryError(
            f"cannot write {path}: {error}", slug="write-failed", hint="Nothing was changed."
        ) from error


def _fill(target: sqlite3.Connection, source: sqlite3.Connection) -> None:
    target.execute("PRAGMA journal_mode = OFF")  # a file that nobody reads yet: after a crash it is left behind
    target.execute("BEGIN")
    create(target)
    target.executemany(ADD_FILE, source.execute(LIST_FILES))
    target.executemany(ADD_ENTRY, source.execute(f"SELECT {ENTRY_COLUMNS} FROM entries ORDER BY path, line, id"))  # noqa: S608
    target.executemany(ADD_FEEDBACK, source.execute(LIST_FEEDBACK))
    target.execute("INSERT INTO entries_fts (entries_fts) VALUES ('rebuild')")
    target.execute("INSERT INTO entries_fts (entries_fts) VALUES ('optimize')")
    target.execute("COMMIT")
    target.execute("VACUUM")


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
