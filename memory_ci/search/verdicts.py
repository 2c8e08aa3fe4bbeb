"""What was seen of cited code, kept beside the entries so that it is not compared again.

A key stands for all that an outcome follows from; whoever makes the keys answers for that. Only rows of a sealed file
are believed: a file that came from elsewhere loses them when it is opened (`database.Index`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path

from memory_ci.search.builder import open_index
from memory_ci.search.database import check_identity, is_sealed, refuse_pipes

MAX_ROWS = 20_000  # The oldest beyond these are forgotten: a retrieval asks for some hundreds.
LOCK_TIMEOUT = 0.5  # Seconds to wait for another process: what is not kept is compared once more.
READ = "SELECT key, outcome FROM verdicts WHERE key IN (SELECT value FROM json_each(?))"
ADD = "INSERT OR REPLACE INTO verdicts (key, outcome) VALUES (?, ?)"
FORGET = "DELETE FROM verdicts WHERE row <= (SELECT max(row) FROM verdicts) - ?"


def read_verdicts(path: Path, keys: Collection[str]) -> dict[str, str]:
    """The outcomes that the index at `path` holds, by key; of a file that is not as we left it none."""
    with suppress(sqlite3.Error, OSError):
        if keys and is_sealed(path):
            refuse_pipes(path)
            with closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
            ) as found:
                check_identity(found)
                return dict(found.execute(READ, (json.dumps(list(keys)),)))
    return {}


def keep_verdicts(path: Path, outcomes: Mapping[str, str]) -> None:
    """Add outcomes to the index at `path`. Where there is none, or it cannot be written, nothing is kept."""
    if outcomes and path.is_file():
        with suppress(sqlite3.DatabaseError), open_index(path, lock_timeout=LOCK_TIMEOUT) as index:
            index.connection.executemany(ADD, outcomes.items())
            index.connection.execute(FORGET, (MAX_ROWS,))
