"""The index of an organisation: entries of many repositories, kept apart by who may read them. Derived from git."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from memory_ci.commands.org.engine import WORK, OrgEngine
from memory_ci.errors import EngineError, UsageError


def open_engine(
    address: str, *, is_writer: bool = False, deadline: float | None = None
) -> OrgEngine:
    """The engine that an address names: a directory of files, or postgresql://… for a server. A reader answers until
    `deadline`, of time.monotonic(). Raises EngineError (org-missing) where there is nothing to read; UsageError:
    missing-extra, bad-org-index."""
    if is_server(address):
        try:
            from memory_ci.commands.org.postgres import PostgresEngine
        except ModuleNotFoundError as error:
            if error.name not in ("psycopg", "psycopg_binary"):
                raise
            hint = "Install it: pip install 'memory-ci[org-postgres]'"
            message = "an index on PostgreSQL needs the package psycopg"
            raise UsageError(message, slug="missing-extra", hint=hint) from error
        return PostgresEngine(address, is_writer=is_writer, deadline=deadline)
    from memory_ci.commands.org.sqlite import SqliteEngine

    engine = SqliteEngine(Path(address), is_writer=is_writer, deadline=deadline)
    if not (is_writer or engine.list_audiences()):
        hint = "Build it with `memory-ci org sync LIST --out DIR`, or name the directory that it was built in."
        raise EngineError(
            f"{address} holds no index of an organisation", slug="org-missing", hint=hint
        )
    return engine


def is_server(address: str) -> bool:
    """Whether an address names a PostgreSQL server, as libpq has it."""
    return address.startswith(("postgresql://", "postgres://"))


def state_directory(address: str) -> Path:
    """Where the operator of a sync keeps what readers are not told: beside the files; for a server in the user's cache,
    where losing it costs time only."""
    if not is_server(address):
        return Path(address) / WORK
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (
        cache / "memory-ci" / "org" / f"server-{hashlib.sha256(address.encode()).hexdigest()[:16]}"
    )
