"""The choice of the engine (SQLite or PostgreSQL) for the address of an organisation's index."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from memory_ci.commands.org.engine import OPERATOR_DIRECTORY, OrgEngine
from memory_ci.errors import EngineError, UsageError
from memory_ci.extras import how_to_install


def open_engine(
    address: str, *, is_writer: bool = False, deadline: float | None = None
) -> OrgEngine:
    """Open the engine of an index.

    Args:
        address: a directory of files, or postgresql://… for a server.
        is_writer: open it for a sync.
        deadline: the value of time.monotonic() until which a reader may answer.

    Raises:
        EngineError: org-missing where there is nothing to read.
        UsageError: missing-extra, bad-org-index.
    """
    if is_server(address):
        try:
            from memory_ci.commands.org.postgres import PostgresEngine
        except ModuleNotFoundError as error:
            if error.name not in ("psycopg", "psycopg_binary"):
                raise
            hint = f"Install it: {how_to_install('org-postgres')}"
            message = "an index on PostgreSQL needs the package psycopg"
            raise UsageError(message, slug="missing-extra", hint=hint) from error
        return PostgresEngine(address, is_writer=is_writer, deadline=deadline)

    from memory_ci.commands.org.sqlite import SqliteEngine

    engine = SqliteEngine(Path(address), is_writer=is_writer, deadline=deadline)
    if not is_writer and not engine.list_audiences():
        message = f"{address} holds no index of an organisation"
        hint = (
            "Build it with `memory-ci org sync LIST --out DIR`,"
            " or name the directory that it was built in."
        )
        raise EngineError(message, slug="org-missing", hint=hint)
    return engine


def is_server(address: str) -> bool:
    """Return whether an address names a PostgreSQL server, as libpq reads it."""
    return address.startswith(("postgresql://", "postgres://"))


def state_directory(address: str) -> Path:
    """Return the directory for the files of whoever runs syncs, the operator.

    Readers do not see them. The directory is in that of the index. For a server it is in the user's
    cache: a file that is lost there is made again by the next sync.
    """
    if not is_server(address):
        return Path(address) / OPERATOR_DIRECTORY
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"server-{hashlib.sha256(address.encode()).hexdigest()[:16]}"
    return cache / "memory-ci" / "org" / name
