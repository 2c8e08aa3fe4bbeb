"""The engine for a server: a PostgreSQL database for each audience, and one of the operator, who alone may list them.

A database and not a schema: within one database every role sees names, row estimates and sizes of all tables (pg_class,
pg_stat_user_tables). Each has a role of its name, if there is one, whose members may read it.

Candidates come from a GIN index of the stems that FTS5 would index; what could not be among the best by the highest
score that its words allow is not asked for (MaxScore: Turtle and Flood 1995), and the score is BM25 as in SQLite, with
the statistics of the audience.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TypeVar

import msgspec
import psycopg
from psycopg import sql

from memory_ci.commands.org import server
from memory_ci.commands.org.engine import NeverSyncedError, OrgEngine
from memory_ci.commands.org.records import (
    OrgFilters,
    OrgHead,
    OrgMatch,
    OrgPublished,
    OrgRepository,
)
from memory_ci.commands.org.server import Connection, NoSuchDatabaseError, OrgServer
from memory_ci.commands.org.stems import (
    K1,
    Stemmer,
    StemPattern,
    build_tsquery,
    idf,
    quote_lexeme,
    score,
)
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.records.entry import Located
from memory_ci.records.names import AUDIENCE
from memory_ci.search.builder import compare_rows, text_row
from memory_ci.search.rows import Row, entry_digest, entry_row, located_of, pack
from memory_ci.search.search import MAX_DEPTH, SHOWN_STATUSES

TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
ADD_REPOSITORY = """
INSERT INTO memory_org.repositories VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id)
DO UPDATE SET name = excluded.name, link = excluded.link, head = excluded.head, entries = excluded.entries
"""
ADD_ENTRIES = """
COPY memory_org.entries
(repository, id, path, line, type, domain, status, phase, valid_until, digest, record, size, stems, words) FROM STDIN
"""
ADD_WORDS = """
INSERT INTO memory_org.words SELECT * FROM unnest(%s::text[], %s::integer[])
ON CONFLICT (word) DO UPDATE SET entries = memory_org.words.entries + excluded.entries
"""
FORGET = """
WITH gone AS (DELETE FROM memory_org.entries WHERE row = ANY(%s) RETURNING words, size),
less AS (UPDATE memory_org.totals SET entries = entries - (SELECT count(*) FROM gone),
         words = words - (SELECT coalesce(sum(size), 0) FROM gone)),
held AS (SELECT lexeme, count(*) AS entries FROM gone, unnest(gone.words) GROUP BY lexeme)
UPDATE memory_org.words SET entries = memory_org.words.entries - held.entries FROM held WHERE word = held.lexeme
"""
ADD_AUDIENCE = "INSERT INTO memory_org.audiences VALUES (%s) ON CONFLICT DO NOTHING"
HEADS = "SELECT id, name, link, head, entries FROM memory_org.repositories"
COUNT = """
SELECT entries, words,
    (SELECT json_object_agg(word, entries)::text FROM memory_org.words WHERE word = ANY(%s)) FROM memory_org.totals
"""
HOLDING = "SELECT count(*) FROM memory_org.entries WHERE words @@ %s::tsquery AND position(%s in stems) > 0"
CANDIDATES = """
SELECT e.row, e.id, e.path, e.line, e.size, e.stems FROM memory_org.entries AS e
WHERE e.words @@ %(words)s::tsquery AND e.status = ANY(%(statuses)s)
AND (%(types)s::text[] IS NULL OR e.type = ANY(%(types)s))
AND (%(domains)s::text[] IS NULL OR e.domain = ANY(%(domains)s))
AND (%(phases)s::text[] IS NULL OR e.phase = ANY(%(phases)s))
AND (%(today)s::text IS NULL OR e.valid_until IS NULL OR e.valid_until > %(today)s)
AND NOT e.repository = ANY(ARRAY(SELECT id FROM memory_org.repositories
                                 WHERE id = ANY(%(without)s) OR lower(link) = ANY(%(links)s)))
"""
MATCHES = """
SELECT e.row, e.record, r.id, r.name, r.link, r.head FROM memory_org.entries AS e
JOIN memory_org.repositories AS r ON r.id = e.repository WHERE e.row = ANY(%s)
"""
CREATE = sql.SQL(
    "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
)
FIRST = 4  # Times the depth: so many candidates are scored first, to see what score the others must reach.
DEADLINE = "SELECT set_config('statement_timeout', %s, true)"
T = TypeVar("T")
unpack = msgspec.msgpack.Decoder().decode


class PostgresEngine(OrgEngine):
    """The databases of an address. What is committed is read at once: there is nothing to publish. Raises EngineError:
    org-server, org-version, org-missing where a reader may read none of what it asks for; RepositoryError (org-locked)
    where another writer is at work, on whatever machine."""

    def __init__(
        self, address: str, *, is_writer: bool = False, deadline: float | None = None
    ) -> None:
        self._server, self._is_writer = (
            OrgServer(address, is_writer=is_writer, deadline=deadline),
            is_writer,
        )
        self._open: dict[str, Connection | None] = {}
        self._changed: dict[str, None] = {}
        self._counted: dict[str, dict[StemPattern, int]] = {}
        self._stemmer = Stemmer()

    def _write(self, held: OrgHead, entries: Sequence[Located] | None) -> None:
        repository = held.repository
        row = (repository.id, repository.name, repository.link, held.head, held.entries)
        with self._writing(repository.audience) as connection:
            if entries is not None:
                self._put(connection, repository.id, entries)
            connection.execute(ADD_REPOSITORY, row)

    def _remove(self, repository: OrgRepository) -> None:
        with self._writing(repository.audience) as connection:
            self._put(connection, repository.id, ())
            connection.execute(
                "DELETE FROM memory_org.repositories WHERE id = %s", (repository.id,)
            )

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """As in OrgEngine: by the statistics of each database, then all together by their scores."""
        if not terms:
            return []
        depth = max(1, min(depth, MAX_DEPTH))
        values: dict[str, object] = {
            "statuses": list(SHOWN_STATUSES),
            "types": list(filters.types) or None,
            "domains": list(filters.domains) or None,
            "phases": list(filters.phases) or None,
            "today": filters.today and filters.today.isoformat(),
            "without": list(filters.without),
            "links": [link.lower() for link in filters.without],
        }
        patterns = self._stemmer.patterns(terms)
        asked = Counter(patterns[term] for term in terms if term in patterns)
        found = [
            match
            for audience in self._readable(audiences)
            for match in self._read(
                audience,
                lambda c, name=audience: self._search(c, name, asked, values, depth),  # type: ignore[misc]
            )
        ]
        order = sorted(
            found,
            key=lambda one: (
                -one.lexical,
                one.located.entry.id,
                one.repository.id,
                one.located.line,
            ),
        )
        return order[:depth]

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        patterns, total, holding = self._stemmer.patterns(terms), 0, dict.fromkeys(terms, 0)
        for audience in self._readable(audiences):
            entries, _, held = self._read(
                audience,
                lambda c, name=audience: self._count(c, name, patterns.values()),  # type: ignore[misc]
            )
            total += entries
            for term, pattern in patterns.items():
                holding[term] += held[pattern]
        return total, holding

    def _read_heads(self) -> list[OrgHead]:
        """For the operator, who alone may list the audiences."""
        with self._server.telling():
            listed = (
                self._held("")
                .execute("SELECT audience FROM memory_org.audiences ORDER BY audience")
                .fetchall()
            )
        heads = [
            OrgHead(OrgRepository(id_, name, link, audience), head, entries)
            for (audience,) in listed
            if self._connection(audience) is not None
            for id_, name, link, head, entries in self._read(
                audience, lambda c: c.execute(HEADS).fetchall()
            )
        ]
        return sorted(heads, key=lambda head: head.repository.id)

    def _read_entries(self, repository: OrgRepository) -> list[Located]:
        query = "SELECT record FROM memory_org.entries WHERE repository = %s"
        rows = self._read(
            repository.audience, lambda c: c.execute(query, (repository.id,)).fetchall()
        )
        return sorted(
            (located_of(tuple(unpack(record))) for (record,) in rows),
            key=lambda at: (at.path, at.line, at.entry.id),
        )

    def publish(self) -> list[OrgPublished]:
        """Every transaction was seen when it ended; what they left to do for later readers is done: none has a file."""
        for audience in tuple(self._changed):
            with self._writing(audience) as connection:
                connection.execute("DELETE FROM memory_org.words WHERE entries <= 0")
                connection.execute("SELECT gin_clean_pending_list('memory_org.entries_words')")
                connection.execute("ANALYZE memory_org.entries")
        self._changed.clear()
        return []

    def size(self, audience: str) -> int:
        """As in OrgEngine: of the whole database."""
        query = "SELECT pg_database_size(current_database())"
        return int(self._read(audience, lambda c: c.execute(query).fetchall())[0][0])

    def state(self) -> bytes:
        """As in OrgEngine: in the operator's database."""
        rows = self._read("", lambda c: c.execute("SELECT data FROM memory_org.state").fetchall())
        return bytes(rows[0][0]) if rows else b""

    def keep_state(self, data: bytes) -> None:
        with self._server.telling(), self._held("").transaction():
            self._held("").execute("DELETE FROM memory_org.state")
            self._held("").execute("INSERT INTO memory_org.state VALUES (%s)", (data,))

    def close(self) -> None:
        """As in OrgEngine; connections of readers are kept for the next engine of this process."""
        for audience, connection in self._open.items():
            if connection is not None and self._is_writer:
                with suppress(
                    psycopg.Error
                ):  # or the server holds the lock until it hears of the end
                    connection.execute("SELECT pg_advisory_unlock_all()")
                connection.close()
            elif connection is not None:
                self._server.keep(self._server.database_of(audience), connection)
        self._open.clear()

    def _put(self, connection: Connection, repository_id: str, entries: Sequence[Located]) -> None:
        """Make the rows of a repository these; what it had already stays."""
        query = "SELECT row, line, NULL, digest FROM memory_org.entries WHERE repository = %s ORDER BY row"
        before = connection.execute(query, (repository_id,)).fetchall()
        rows = [entry_row(place, None) for place in entries]
        digests = list(map(entry_digest, rows))
        new, moved, gone = compare_rows(before, digests)
        if gone:
            connection.execute(FORGET, (gone,))
        for line, row in moved:
            connection.execute(
                "UPDATE memory_org.entries SET line = %s WHERE row = %s", (line, row)
            )
        if not new:
            return
        stems = self._stemmer.stem(text_row(number, entries[at]) for number, at in enumerate(new))
        with connection.cursor() as cursor, cursor.copy(ADD_ENTRIES) as copy:
            for at, stemmed in zip(new, stems, strict=True):
                entry = entries[at].entry
                until = entry.valid_until and entry.valid_until.isoformat()
                lexemes = " ".join(map(quote_lexeme, stemmed.lexemes))
                copy.write_row(
                    (
                        *(repository_id, entry.id, entries[at].path, entries[at].line),
                        *(entry.type, entry.domain, entry.status, entry.phase, until),
                        *(digests[at][1], pack(rows[at]), stemmed.size, stemmed.text, lexemes),
                    )
                )
        held = Counter(word for stemmed in stems for word in stemmed.lexemes)
        words = sorted(held)
        connection.execute(ADD_WORDS, (words, [held[word] for word in words]))
        added = (len(new), sum(stemmed.size for stemmed in stems))
        connection.execute(
            "UPDATE memory_org.totals SET entries = entries + %s, words = words + %s", added
        )

    def _search(
        self,
        connection: Connection,
        audience: str,
        asked: Counter[StemPattern],
        values: dict[str, object],
        depth: int,
    ) -> list[OrgMatch]:
        total, words, holding = self._count(connection, audience, asked)
        weighed = [(p, times * idf(holding[p], total)) for p, times in asked.items() if holding[p]]
        weighed.sort(key=lambda one: (-one[1], one[0]))
        texts = [(pattern.text, weight) for pattern, weight in weighed]
        average = words / total if total else 1.0
        sums = list(accumulate(holding[pattern] for pattern, _ in weighed))
        best: list[tuple[float, Row]] = []
        first, end = (
            0,
            next((at for at, held in enumerate(sums, 1) if held >= FIRST * depth), len(sums)),
        )
        while first < end:
            values["words"] = build_tsquery(
                [pattern for pattern, _ in weighed[first:end]], [p for p, _ in weighed[:first]]
            )
            rows = connection.execute(CANDIDATES, values).fetchall()
            scored = [(score(row[5], row[4], average, texts), row) for row in rows]
            best += [one for one in scored if one[0] > 0]
            best.sort(key=lambda one: (-one[0], one[1][1:4]))
            del best[depth:]
            least = best[-1][0] if len(best) == depth else 0.0
            bounds = list(accumulate((K1 + 1) * weight for _, weight in reversed(weighed)))[::-1]
            first, end = (
                end,
                max(
                    end,
                    next((at for at, bound in enumerate(bounds) if bound <= least), len(bounds)),
                ),
            )
        held_rows = {
            row[0]: row for row in connection.execute(MATCHES, ([row[0] for _, row in best],))
        }
        return [_match(audience, lexical, held_rows[row[0]]) for lexical, row in best]

    def _count(
        self, connection: Connection, audience: str, patterns: Iterable[StemPattern]
    ) -> tuple[int, int, dict[StemPattern, int]]:
        """Entries, words, and how many entries hold each pattern; counted once for each engine."""
        counted = self._counted.setdefault(audience, {})
        new = [pattern for pattern in dict.fromkeys(patterns) if pattern not in counted]
        plain = [
            pattern.lexemes[0] for pattern in new if pattern.is_plain and not pattern.is_prefix
        ]
        row = connection.execute(COUNT, (plain,)).fetchone()
        entries, words, told = row or (0, 0, None)
        known = json.loads(told or "{}")
        for pattern in new:
            if pattern.is_plain and not pattern.is_prefix:
                counted[pattern] = known.get(pattern.lexemes[0], 0)
            else:
                held = connection.execute(
                    HOLDING, (build_tsquery([pattern], []), pattern.text)
                ).fetchone()
                (counted[pattern],) = held or (0,)
        return entries, words, counted

    def _readable(self, audiences: Sequence[str]) -> list[str]:
        legal = [one for one in dict.fromkeys(audiences) if re.fullmatch(AUDIENCE, one)]
        found = [audience for audience in legal if self._connection(audience) is not None]
        if legal and not found and not self._is_writer:
            hint = "Ask the operator for the role of an audience, and which one MEMORY_CI_ORG_AUDIENCES is to name."
            raise EngineError(
                "this role may read none of what is asked for", slug="org-missing", hint=hint
            )
        return found

    def _read(self, audience: str, work: Callable[[Connection], T]) -> T:
        """One snapshot, until the deadline."""
        connection = self._held(audience)
        with self._server.telling(), connection.transaction():
            if self._server.deadline is not None:
                connection.execute(DEADLINE, (str(max(1, int(self._server.left() * 1000))),))
            return work(connection)

    @contextmanager
    def _writing(self, audience: str) -> Iterator[Connection]:
        if (connection := self._connection(audience)) is None:
            with self._server.telling():
                self._held("").execute(
                    CREATE.format(sql.Identifier(self._server.database_of(audience)))
                )
            del self._open[audience]
            connection = self._held(audience)
        self._counted.pop(audience, None)
        self._changed[audience] = None
        with self._server.telling(), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (server.LOCK,))
            yield connection

    def _held(self, audience: str) -> Connection:
        """Raises EngineError (org-missing) where there is none."""
        if (connection := self._connection(audience)) is not None:
            return connection
        message = f"the database {self._server.database_of(audience)} cannot be opened by this role"
        hint = f"{self._server.database} and the databases of all audiences are the operator's: use that role."
        raise EngineError(message, slug="org-missing", hint=hint)

    def _connection(self, audience: str) -> Connection | None:
        """That of an audience, or of the operator (""); None where there is none or this role may not read it."""
        if audience not in self._open:
            with suppress(NoSuchDatabaseError), self._server.telling():
                connection = self._server.take(self._server.database_of(audience))
                try:
                    self._open[audience] = (
                        connection if self._is_current(connection, audience) else None
                    )
                finally:
                    if self._open.get(audience) is None:
                        connection.close()
        return self._open.setdefault(audience, None)

    def _is_current(self, connection: Connection, audience: str) -> bool:
        """Whether the tables are of our version: a writer makes them so. Raises EngineError (org-version)."""
        scripts = server.MIGRATIONS if audience else server.OPERATOR_MIGRATIONS
        if self._is_writer:
            if not audience and connection.execute(TRY_LOCK, (server.LOCK + 1,)).fetchone() != (
                True,
            ):
                hint = "Wait for it to end: what it does is not lost."
                raise RepositoryError(
                    f"another sync works on {self._server.database}", slug="org-locked", hint=hint
                )
            with connection.transaction():
                server.migrate(connection, self._server.database_of(audience), scripts)
            if audience:
                self._held("").execute(ADD_AUDIENCE, (audience,))
            return True
        try:
            server.check_version(connection, scripts)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as error:
            if not audience and isinstance(error, psycopg.errors.UndefinedTable):
                message = f"the database {self._server.database} holds no index yet"
                hint = "Build it: `memory-ci org sync LIST`, with the same address."
                raise NeverSyncedError(message, slug="org-missing", hint=hint) from error
            return False
        return True


def _match(audience: str, lexical: float, row: Row) -> OrgMatch:
    _, record, repository_id, name, link, head = row
    return OrgMatch(
        located_of(tuple(unpack(record))),
        lexical,
        OrgRepository(repository_id, name, link, audience),
        head,
    )
