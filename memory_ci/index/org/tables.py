"""The tables of the organisation's databases on a server: made, brought up to our version, opened to their readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

from memory_ci.errors import EngineError
from memory_ci.index.org.server import Connection

MIGRATIONS = (
    """
    CREATE TABLE memory_org.repositories (
        id text PRIMARY KEY, name text NOT NULL, link text NOT NULL, head text NOT NULL, entries integer NOT NULL
    );
    CREATE TABLE memory_org.entries (
        row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        repository text NOT NULL,  -- repositories.id
        id text NOT NULL, path text NOT NULL, line integer NOT NULL,
        type text NOT NULL, domain text NOT NULL, status text NOT NULL, phase text, valid_until text,
        digest bytea NOT NULL,     -- rows.entry_digest
        record bytea NOT NULL,     -- rows.entry_row as MessagePack
        size integer NOT NULL,     -- words
        stems text NOT NULL,       -- stems.Stemmed.text
        words tsvector NOT NULL    -- stems.Stemmed.lexemes, without places
    );
    CREATE INDEX entries_repository ON memory_org.entries (repository);
    CREATE INDEX entries_words ON memory_org.entries USING gin (words);
    CREATE TABLE memory_org.words (word text COLLATE "C" PRIMARY KEY, entries integer NOT NULL) WITH (fillfactor = 60);
    CREATE TABLE memory_org.totals (entries bigint NOT NULL, words bigint NOT NULL);
    INSERT INTO memory_org.totals VALUES (0, 0);
    """,
)
"""What makes each version of an audience's database out of the one before. Another tokenizer, or other fields of Entry,
mean a step that empties all tables: then the next sync reads the repositories anew."""

OPERATOR_MIGRATIONS = (
    """
    CREATE TABLE memory_org.audiences (audience text PRIMARY KEY);
    CREATE TABLE memory_org.state (data bytea NOT NULL);
    """,
)

LOCK = 0x6D636958
"""Of one transaction that writes, "mciX"; the next number is of one writer, for as long as it is open."""

GRANTS = (
    sql.SQL("GRANT CONNECT ON DATABASE {0} TO {0}"),
    sql.SQL("GRANT USAGE ON SCHEMA memory_org TO {0}"),
    sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA memory_org TO {0}"),
)
FOR_READERS = (
    # Each takes longer to begin than a question to answer.
    sql.SQL("ALTER DATABASE {} SET jit = off"),
    sql.SQL("ALTER DATABASE {} SET max_parallel_workers_per_gather = 0"),
    sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC"),
)


def migrate(connection: Connection, database: str, scripts: Sequence[LiteralString]) -> None:
    """Bring the tables to our version; nobody reads the database but the role of its name, if there is one."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    connection.execute("CREATE SCHEMA IF NOT EXISTS memory_org")
    connection.execute("CREATE TABLE IF NOT EXISTS memory_org.version (number integer NOT NULL)")
    version = _version(connection)
    _refuse_other(max(version, len(scripts)), scripts)
    for number, script in enumerate(scripts[version:], version + 1):
        connection.execute(script)
        connection.execute("INSERT INTO memory_org.version VALUES (%s)", (number,))
    name = sql.Identifier(database)
    for statement in FOR_READERS:
        connection.execute(statement.format(name))
    if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (database,)).fetchone() is not None:
        for right in GRANTS:
            connection.execute(right.format(name))


def check_version(connection: Connection, scripts: Sequence[str]) -> None:
    """Raises EngineError (org-version) where the tables are not those that the scripts make."""
    _refuse_other(_version(connection), scripts)


def _version(connection: Connection) -> int:
    (number,) = connection.execute("SELECT max(number) FROM memory_org.version").fetchone() or (None,)
    return number or 0


def _refuse_other(version: int, scripts: Sequence[str]) -> None:
    if version != len(scripts):
        hint = "Upgrade memory-ci here." if version > len(scripts) else "Run `memory-ci org sync` with this memory-ci."
        message = f"the organisation's index is of version {version}, this memory-ci is for {len(scripts)}"
        raise EngineError(message, slug="org-version", hint=hint)
