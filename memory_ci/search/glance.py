"""A glance at an index file: what it holds, without a lock that others wait for and without writing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from memory_ci.search.database import check_identity, check_schema
from memory_ci.search.rows import HASH_BYTES
from memory_ci.search.search import RANKED_SCOPES, SHOWN_STATUSES

TIMEOUT = 1.0
FILES = "SELECT path, oid FROM files"
TEXTS = """
SELECT count(DISTINCT text_hash) FROM entries
WHERE scope IN (SELECT value FROM json_each(?)) AND status IN (SELECT value FROM json_each(?))
"""
VECTORS = f"SELECT model_id, length(hashes) / {HASH_BYTES} FROM vectors"  # noqa: S608 - a constant of ours


class Glance(NamedTuple):
    """The object id of each file, how many texts can be ranked, the vectors by model; or why it cannot be used."""

    oids: Mapping[str, str]
    texts: int = 0
    vectors: Mapping[str, int] = {}
    fault: str = ""


def glance(path: Path) -> Glance | None:
    """What the index at `path` holds; None where there is none."""
    if not path.exists():
        return None
    if not path.is_file():
        return Glance({}, fault="is not a regular file")
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=TIMEOUT)
        ) as found:
            check_identity(found)
            check_schema(found)
            (texts,) = found.execute(
                TEXTS, (json.dumps(list(RANKED_SCOPES)), json.dumps(list(SHOWN_STATUSES)))
            ).fetchone()
            return Glance(dict(found.execute(FILES)), int(texts), dict(found.execute(VECTORS)))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return Glance({}, fault=str(error))
