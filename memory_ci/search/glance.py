"""A read-only summary of an index file, taken without a lock that others wait for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from memory_ci.search.database import require_index_schema, require_this_version
from memory_ci.search.rows import HASH_BYTES
from memory_ci.search.search import RANKED_SCOPES, SEARCHED_STATUSES

LOCK_SECONDS = 1.0  # For which a lock of another process is waited for.
LIST_OIDS = "SELECT path, oid FROM files"
COUNT_TEXTS = """
SELECT count(DISTINCT text_hash) FROM entries
WHERE scope IN (SELECT value FROM json_each(?)) AND status IN (SELECT value FROM json_each(?))
"""
# A constant of ours.
COUNT_VECTORS = f"SELECT model_id, length(hashes) / {HASH_BYTES} FROM vectors"  # noqa: S608


class Glance(NamedTuple):
    """A summary of an index.

    Attributes:
        oids: object id of each file, by path.
        texts: number of texts that can be ranked.
        vectors: number of vectors, by model.
        fault: why the index cannot be used; "" if it can.
    """

    oids: Mapping[str, str]
    texts: int = 0
    vectors: Mapping[str, int] = {}
    fault: str = ""


def glance(path: Path) -> Glance | None:
    """Return a summary of the index at `path` without changing or locking it; None without one."""
    if not path.exists():
        return None
    if not path.is_file():
        return Glance({}, fault="is not a regular file")
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)) as connection:
            require_this_version(connection)
            require_index_schema(connection)
            values = (json.dumps(RANKED_SCOPES), json.dumps(SEARCHED_STATUSES))
            (text_count,) = connection.execute(COUNT_TEXTS, values).fetchone()
            oids = dict(connection.execute(LIST_OIDS))
            vector_counts = dict(connection.execute(COUNT_VECTORS))
            return Glance(oids, int(text_count), vector_counts)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return Glance({}, fault=str(error))
