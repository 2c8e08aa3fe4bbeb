"""Connections to PostgreSQL: made until a deadline, kept for the next question of the process, telling no secret."""

from __future__ import annotations

import atexit
import hashlib
import os
import select
import socket
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any, LiteralString

import psycopg
from psycopg import conninfo, pq, sql

from memory_ci.errors import EngineError, UsageError

Connection = psycopg.Connection[tuple[Any, ...]]
LONGEST_NAME = 63  # Bytes of a name in PostgreSQL.
CONNECT_SECONDS = 10.0  # Where no deadline is nearer.
MOST_KEPT = 4  # Idle connections to one database.
_IDLE: dict[tuple[str, bool], list[Connection]] = defaultdict(list)


class NoSuchDatabaseError(Exception):
    """There is none, or this role may not connect to it: who may not read an audience is not told which."""


class OrgServer:
    """The server that an address names, and the variables of libpq (PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE …).
    Raises UsageError (bad-org-index) for what is no address."""

    def __init__(self, address: str, *, is_writer: bool, deadline: float | None) -> None:
        try:
            self._asked = {
                name: str(value) for name, value in conninfo.conninfo_to_dict(address).items()
            }
        except psycopg.Error:
            hint = "Write postgresql://HOST/DATABASE, and the password into PGPASSWORD or the file of PGPASSFILE."
            raise UsageError(
                "the organisation's index has no such address", slug="bad-org-index", hint=hint
            ) from None
        self.database = self._asked.setdefault("dbname", "memory")
        self._asked.setdefault("application_name", "memory-ci")
        if is_writer:
            self._asked["target_session_attrs"] = "read-write"
        self.deadline, self._is_writer = deadline, is_writer
        self._timers: dict[int, Timer] = {}

    def database_of(self, audience: str) -> str:
        """That of the operator (""), or of an audience: also the name of the role whose members may read it."""
        name = f"{self.database}_{audience}" if audience else self.database
        if not audience or len(name.encode()) <= LONGEST_NAME:
            return name
        return f"{name.encode()[:40].decode(errors='ignore')}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def left(self) -> float:
        """Seconds until the deadline. Raises TimeoutError when it is over."""
        if self.deadline is None:
            return CONNECT_SECONDS
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def take(self, database: str) -> Connection:
        """A connection that nobody else has. Raises NoSuchDatabaseError, TimeoutError, EngineError (org-server)."""
        key = self._key(database)
        with suppress(IndexError):  # of an empty list: other threads take from it as well
            while True:
                kept = _IDLE[key].pop()
                self._watch(kept)
                with suppress(psycopg.Error):
                    kept.execute("")
                    return kept
                kept.close()
        with self.telling():
            connection = self._connect(key[0], database)
        self._watch(connection)
        return connection

    def keep(self, database: str, connection: Connection) -> None:
        """Hand a connection back."""
        if timer := self._timers.pop(id(connection), None):
            timer.cancel()
        idle = _IDLE[self._key(database)]
        is_sound = (
            not connection.closed
            and connection.info.transaction_status == pq.TransactionStatus.IDLE
        )
        if is_sound and len(idle) < MOST_KEPT:
            idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Errors of the driver as ours, without passwords."""
        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise TimeoutError from error
        except psycopg.Error as error:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise TimeoutError from error
            told = " ".join(str(error).split())
            for secret in filter(
                None, (self._asked.get("password"), self._asked.get("sslpassword"))
            ):
                told = told.replace(secret, "…")
            hint = "Check MEMORY_CI_ORG_INDEX, the variables of libpq (PGUSER, PGPASSWORD …) and the role's rights."
            raise EngineError(
                f"the server of the organisation's index: {told}", slug="org-server", hint=hint
            ) from None

    def _watch(self, connection: Connection) -> None:
        """The server ends a statement at the deadline; where it says nothing any more, the connection is cut then."""
        if self.deadline is not None:
            timer = self._timers[id(connection)] = Timer(self.left(), _cut, (connection,))
            timer.daemon = True
            timer.start()

    def _key(self, database: str) -> tuple[str, bool]:
        return conninfo.make_conninfo("", **{**self._asked, "dbname": database}), self._is_writer

    def _connect(self, key: str, database: str) -> Connection:
        """As psycopg.connect, whose timeout is two seconds at least. libpq tries the hosts one after another."""
        end = time.monotonic() + self.left()
        raw = pq.PGconn.connect_start(key.encode())
        while (state := raw.connect_poll()) not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            wanted = [raw.socket]
            reading = state == pq.PollingStatus.READING
            left = end - time.monotonic()
            if left <= 0 or not any(
                select.select(wanted * reading, wanted * (not reading), (), left)
            ):
                raw.finish()
                if self.deadline is not None:
                    raise TimeoutError
                raise psycopg.OperationalError(f"no answer within {CONNECT_SECONDS:.0f} seconds")
        if state == pq.PollingStatus.FAILED:
            told = raw.get_error_message()
            raw.finish()
            if f'"{database}"' in told.rpartition("FATAL:")[2]:
                raise NoSuchDatabaseError(database)
            raise psycopg.OperationalError(told)
        raw.nonblocking = 1
        connection: Connection = psycopg.Connection(raw)
        connection.prepare_threshold = (
            None  # statements would be lost where a pooler stands between
        )
        connection.autocommit = True
        if not self._is_writer:
            connection.read_only, connection.isolation_level = (
                True,
                psycopg.IsolationLevel.REPEATABLE_READ,
            )
        return connection


def _cut(connection: Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@atexit.register
def close_idle() -> None:
    """Close what is kept."""
    for connections in _IDLE.values():
        while connections:
            connections.pop().close()


# What makes each version of an audience's database out of the one before. Another tokenizer, or other fields of Entry,
# mean a step that empties all tables: then the next sync reads the repositories anew.
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
OPERATOR_MIGRATIONS = (
    """
    CREATE TABLE memory_org.audiences (audience text PRIMARY KEY);
    CREATE TABLE memory_org.state (data bytea NOT NULL);
    """,
)

# Of one transaction that writes, "mciX"; the next number is of one writer, for as long as it is open.
LOCK = 0x6D636958
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
    version = check_version(connection, scripts, may_be_older=True)
    for number, script in enumerate(scripts[version:], version + 1):
        connection.execute(script)
        connection.execute("INSERT INTO memory_org.version VALUES (%s)", (number,))
    name = sql.Identifier(database)
    for statement in FOR_READERS:
        connection.execute(statement.format(name))
    if (
        connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (database,)).fetchone()
        is not None
    ):
        for right in GRANTS:
            connection.execute(right.format(name))


def check_version(
    connection: Connection, scripts: Sequence[str], *, may_be_older: bool = False
) -> int:
    """Of the tables. Raises EngineError (org-version) where they are not those that the scripts make."""
    (number,) = connection.execute("SELECT max(number) FROM memory_org.version").fetchone() or (
        None,
    )
    version = number or 0
    if version > len(scripts) or (version < len(scripts) and not may_be_older):
        hint = (
            "Upgrade memory-ci here."
            if version > len(scripts)
            else "Run `memory-ci org sync` with this memory-ci."
        )
        message = f"the organisation's index is of version {version}, this memory-ci is for {len(scripts)}"
        raise EngineError(message, slug="org-version", hint=hint)
    return version
