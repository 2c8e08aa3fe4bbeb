"""A cache, in the index, of verdicts on cites: whether the code that an entry cites is unchanged.

A key identifies everything that an outcome follows from; the caller answers for that. Only rows of
a sealed file are trusted: a file from elsewhere loses them when it is opened (`database.Index`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path

from memory_ci.search.builder import open_index
from memory_ci.search.database import is_sealed, refuse_pipes, require_this_version

MAX_ROWS = 20_000  # The oldest beyond these are deleted: a retrieval needs some hundreds.
LOCK_TIMEOUT = 0.5  # Seconds to wait for another process: a verdict that is lost is made again.
READ = "SELECT key, outcome FROM verdicts WHERE key IN (SELECT value FROM json_each(?))"
ADD = "INSERT OR REPLACE INTO verdicts (key, outcome) VALUES (?, ?)"
FORGET = "DELETE FROM verdicts WHERE row <= (SELECT max(row) FROM verdicts) - ?"


def read_verdicts(path: Path, keys: Collection[str]) -> dict[str, str]:
    """Return the cached verdicts by key; an index that was changed by others has none.

    Args:
        path: the index file.
        keys: the keys, which identify all that a verdict follows from.
    """
    if not keys:
        return {}
    with suppress(sqlite3.Error, OSError):
        if not is_sealed(path):
            return {}
        refuse_pipes(path)
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            require_this_version(connection)
            return dict(connection.execute(READ, (json.dumps(list(keys)),)))
    return {}


def keep_verdicts(path: Path, outcomes: Mapping[str, str]) -> None:
    """Add outcomes to the index at `path`, if there is one and it can be written."""
    if not outcomes or not path.is_file():
        return
    with suppress(sqlite3.DatabaseError), open_index(path, lock_timeout=LOCK_TIMEOUT) as index:
        index.connection.executemany(ADD, outcomes.items())
        index.connection.execute(FORGET, (MAX_ROWS,))
