"""The name under which a CI cache keeps an index. Pure: nothing is opened, no database is imported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SCHEMA_VERSION = 8  # Version of schema.sql, whose head says when to raise it.
TOKENIZER = "porter unicode61 remove_diacritics 2"
"""English stems, any script, accents folded: the tokenizer that schema.sql names."""


def cache_key(files: Mapping[str, str]) -> str:
    """`memory-ci-index-v6-…`: the same for two trees exactly when one index serves both.

    `files` maps path to object id, as for `build.sync`.
    """
    digest = hashlib.sha256(TOKENIZER.encode())
    for path, oid in sorted(files.items()):
        digest.update(f"\0{path}\0{oid}".encode("utf-8", "surrogateescape"))
    return f"memory-ci-index-v{SCHEMA_VERSION}-{digest.hexdigest()[:32]}"
