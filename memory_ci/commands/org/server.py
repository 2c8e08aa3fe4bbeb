"""Connections to PostgreSQL for the organisation's search index, and the versions of its tables.

A connection is made before a deadline, and kept for the next query of the process. Errors do not
show passwords.
"""

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
CONNECT_SECONDS = 10.0  # The time limit of a connection without a deadline.
MAX_IDLE = 4  # Idle connections to one database.
_IDLE_CONNECTIONS: dict[tuple[str, bool], list[Connection]] = defaultdict(list)


OPERATOR = ""
"""In place of an audience: the operator's own database, who alone may list the others."""


class NoSuchDatabaseError(Exception):
    """The database does not exist, or this role may not connect to it.

    The error does not distinguish the two: nobody learns of audiences that they may not read.
    """


class OrgServer:
    """The server that an address and the variables of libpq name.

    The variables are PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE and others.

    Attributes:
        database: the name of the operator's database.
        deadline: the value of time.monotonic() until which the server may answer; None for ever.
    """

    def __init__(self, address: str, *, is_writer: bool, deadline: float | None) -> None:
        """Parse the address of the server; no connection is made yet.

        Args:
            address: postgresql://…
            is_writer: connect to a server that accepts writes.
            deadline: the value of time.monotonic(), in seconds, until which it may answer; None
                for no limit.

        Raises:
            UsageError: bad-org-index if the address cannot be parsed.
        """
        try:
            settings = conninfo.conninfo_to_dict(address)
        except psycopg.Error:
            message = "the organisation's index has no such address"
            hint = (
                "Write postgresql://HOST/DATABASE,"
                " and the password into PGPASSWORD or the file of PGPASSFILE."
            )
            raise UsageError(message, slug="bad-org-index", hint=hint) from None
        self._settings = {name: str(value) for name, value in settings.items()}
        self.database = self._settings.setdefault("dbname", "memory")
        self._settings.setdefault("application_name", "memory-ci")
        if is_writer:
            self._settings["target_session_attrs"] = "read-write"
        self.deadline = deadline
        self._is_writer = is_writer
        self._timers: dict[int, Timer] = {}

    def database_of(self, audience: str) -> str:
        """Return the name of the database of an audience, or of the operator (OPERATOR).

        The role of the same name has the members who may read it.
        """
        if audience == OPERATOR:
            return self.database
        name = f"{self.database}_{audience}"
        if len(name.encode()) <= LONGEST_NAME:
            return name
        start = name.encode()[:40].decode(errors="ignore")
        return f"{start}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def seconds_left(self) -> float:
        """Return the seconds until the deadline.

        Raises:
            TimeoutError: it is over.
        """
        if self.deadline is None:
            return CONNECT_SECONDS
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def take_connection(self, database: str) -> Connection:
        """Return an idle connection of the process, or a new one, that nobody else uses.

        Idle connections that the server has ended meanwhile are closed.

        Raises:
            NoSuchDatabaseError: there is no such database for this role.
            TimeoutError: the deadline is over.
            EngineError: org-server.
        """
        key = self._make_key(database)
        while (connection := _pop_idle_connection(key)) is not None:
            self._end_at_deadline(connection)
            with suppress(psycopg.Error):  # The server may have ended the connection.
                connection.execute("")
                return connection
            connection.close()

        connection_string, _ = key
        with self.translate_errors():
            connection = self._connect(connection_string, database)
        self._end_at_deadline(connection)
        return connection

    def keep_connection(self, database: str, connection: Connection) -> None:
        """Put a connection that is no longer used among the idle ones, or close it."""
        timer = self._timers.pop(id(connection), None)
        if timer:
            timer.cancel()
        idle = _IDLE_CONNECTIONS[self._make_key(database)]
        is_usable = (
            not connection.closed
            and connection.info.transaction_status == pq.TransactionStatus.IDLE
        )
        if is_usable and len(idle) < MAX_IDLE:
            idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn errors of psycopg in the block into errors of memory-ci, without passwords.

        Raises:
            TimeoutError: the deadline is over.
            EngineError: org-server.
        """
        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise TimeoutError from error
        except psycopg.Error as error:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise TimeoutError from error
            message = f"the server of the organisation's index: {self._mask_secrets(str(error))}"
            hint = (
                "Check MEMORY_CI_ORG_INDEX, the variables of libpq (PGUSER, PGPASSWORD …)"
                " and the role's rights."
            )
            raise EngineError(message, slug="org-server", hint=hint) from None

    def _mask_secrets(self, text: str) -> str:
        """Return a text as one line in which passwords of the settings are `…`."""
        text = " ".join(text.split())
        for name in ("password", "sslpassword"):
            secret = self._settings.get(name)
            if secret:
                text = text.replace(secret, "…")
        return text

    def _end_at_deadline(self, connection: Connection) -> None:
        """Start a timer that shuts the connection down at the deadline.

        A server ends a statement itself at its timeout; the timer is for a server that does not
        answer any more.
        """
        if self.deadline is not None:
            timer = Timer(self.seconds_left(), _shut_down, (connection,))
            self._timers[id(connection)] = timer
            timer.daemon = True
            timer.start()

    def _make_key(self, database: str) -> tuple[str, bool]:
        """Return the key of idle connections: the connection string, and whether they write."""
        settings = {**self._settings, "dbname": database}
        return conninfo.make_conninfo("", **settings), self._is_writer

    def _connect(self, connection_string: str, database: str) -> Connection:
        """Connect to a database before the deadline.

        psycopg.connect is not used: its timeout cannot be less than two seconds.

        Raises:
            NoSuchDatabaseError: there is no such database for this role.
            TimeoutError: the deadline is over.
            psycopg.OperationalError: it failed for another reason.
        """
        raw = self._connect_raw(connection_string, database)
        connection: Connection = psycopg.Connection(raw)
        # A pooler between us and the server would lose prepared statements.
        connection.prepare_threshold = None
        connection.autocommit = True
        if not self._is_writer:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    def _connect_raw(self, connection_string: str, database: str) -> pq.abc.PGconn:
        """Connect by libpq, which tries the hosts of the string one after another.

        See "PQconnectPoll" in the documentation of libpq. The errors are those of `_connect`.
        """
        end = time.monotonic() + self.seconds_left()
        raw = pq.PGconn.connect_start(connection_string.encode())
        state = raw.connect_poll()
        while state not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            is_reading = state == pq.PollingStatus.READING
            if not _wait_for(raw.socket, end - time.monotonic(), is_reading=is_reading):
                raw.finish()
                if self.deadline is not None:
                    raise TimeoutError
                raise psycopg.OperationalError(f"no answer within {CONNECT_SECONDS:.0f} seconds")
            state = raw.connect_poll()

        if state == pq.PollingStatus.FAILED:
            message = raw.get_error_message()
            raw.finish()
            # `FATAL:  database "memory_internal" does not exist`
            _, _, last_error = message.rpartition("FATAL:")
            if f'"{database}"' in last_error:
                raise NoSuchDatabaseError(database)
            raise psycopg.OperationalError(message)
        raw.nonblocking = 1
        return raw


def _wait_for(descriptor: int, seconds: float, *, is_reading: bool) -> bool:
    """Wait until a socket can be read or written, and return whether it can."""
    if seconds <= 0:
        return False
    readers = [descriptor] if is_reading else []
    writers = [] if is_reading else [descriptor]
    return any(select.select(readers, writers, (), seconds))


def _shut_down(connection: Connection) -> None:
    """Shut the socket of a connection down, from another thread than its user's."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _pop_idle_connection(key: tuple[str, bool]) -> Connection | None:
    """Return a connection that no thread uses any more, None if there is none."""
    try:
        return _IDLE_CONNECTIONS[key].pop()
    except IndexError:  # Another thread may have popped the last one just now.
        return None


@atexit.register
def close_idle() -> None:
    """Close the idle connections."""
    for connections in _IDLE_CONNECTIONS.values():
        while connections:
            connections.pop().close()


# Each script makes a version of an audience's tables out of the one before. Another tokenizer, or
# other fields of Entry, need a script that empties all tables: the next sync reads all
# repositories again.
MIGRATIONS = (
    """
    CREATE TABLE memory_org.repositories (
        id text PRIMARY KEY, name text NOT NULL, link text NOT NULL, head text NOT NULL,
        entries integer NOT NULL
    );
    CREATE TABLE memory_org.entries (
        row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        repository text NOT NULL,  -- repositories.id
        id text NOT NULL, path text NOT NULL, line integer NOT NULL,
        type text NOT NULL, domain text NOT NULL, status text NOT NULL,
        phase text, valid_until text,
        digest bytea NOT NULL,     -- rows.entry_digest
        record bytea NOT NULL,     -- rows.entry_row as MessagePack
        size integer NOT NULL,     -- words
        stems text NOT NULL,       -- stems.Stemmed.text
        words tsvector NOT NULL    -- stems.Stemmed.lexemes, without places
    );
    CREATE INDEX entries_repository ON memory_org.entries (repository);
    CREATE INDEX entries_words ON memory_org.entries USING gin (words);
    CREATE TABLE memory_org.words (
        word text COLLATE "C" PRIMARY KEY, entries integer NOT NULL
    ) WITH (fillfactor = 60);
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

TRANSACTION_LOCK = 0x6D636958  # "mciX": the advisory lock of a transaction that writes.
WRITER_LOCK = TRANSACTION_LOCK + 1  # The lock of one writer, for as long as its engine is open.
GRANTS = (
    sql.SQL("GRANT CONNECT ON DATABASE {0} TO {0}"),
    sql.SQL("GRANT USAGE ON SCHEMA memory_org TO {0}"),
    sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA memory_org TO {0}"),
)
FOR_READERS = (
    # Both features take longer to start than a query takes.
    sql.SQL("ALTER DATABASE {} SET jit = off"),
    sql.SQL("ALTER DATABASE {} SET max_parallel_workers_per_gather = 0"),
    sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC"),
)


def migrate(connection: Connection, database: str, scripts: Sequence[LiteralString]) -> None:
    """Create the tables of a database, or update them to the version of this memory-ci.

    The right to read is given to the role with the name of the database, if there is one, and
    taken from all others.

    Args:
        connection: a connection to the database, in a transaction.
        database: its name.
        scripts: the scripts of all versions, oldest first.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (TRANSACTION_LOCK,))
    connection.execute("CREATE SCHEMA IF NOT EXISTS memory_org")
    connection.execute("CREATE TABLE IF NOT EXISTS memory_org.version (number integer NOT NULL)")
    version = check_version(connection, scripts, may_be_older=True)
    for number, script in enumerate(scripts[version:], version + 1):
        connection.execute(script)
        connection.execute("INSERT INTO memory_org.version VALUES (%s)", (number,))

    name = sql.Identifier(database)
    for statement in FOR_READERS:
        connection.execute(statement.format(name))
    role = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (database,)).fetchone()
    if role is not None:
        for grant in GRANTS:
            connection.execute(grant.format(name))


def check_version(
    connection: Connection, scripts: Sequence[str], *, may_be_older: bool = False
) -> int:
    """Return the version of the tables, 0 without tables.

    Args:
        connection: the database.
        scripts: the scripts that make our version.
        may_be_older: accept an older version.

    Raises:
        EngineError: org-version.
    """
    row = connection.execute("SELECT max(number) FROM memory_org.version").fetchone()
    version = int(row[0] or 0) if row else 0
    own_version = len(scripts)
    if version == own_version or (version < own_version and may_be_older):
        return version
    message = (
        f"the organisation's index is of version {version}, this memory-ci is for {own_version}"
    )
    hint = "Run `memory-ci org sync` with this memory-ci."
    if version > own_version:
        hint = "Upgrade memory-ci here."
    raise EngineError(message, slug="org-version", hint=hint)
