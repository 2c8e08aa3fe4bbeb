"""The engine on PostgreSQL: a database for each audience, and one for the operator.

Only the operator may list the databases. They are databases and not schemas: within one database
every role sees names, row estimates and sizes of all tables (pg_class, pg_stat_user_tables). A
role with the name of a database, if there is one, has the members who may read it.

Candidates come from a GIN index of the stems that FTS5 would index. Entries whose words cannot
reach the score of the best ones are not read (MaxScore: Turtle and Flood 1995). The score is BM25
as in SQLite, with the statistics of the audience.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import LiteralString, NamedTuple

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
    Stemmed,
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
from memory_ci.search.rows import Row, entry_digest, entry_row, pack, read_entry_row
from memory_ci.search.search import MAX_DEPTH, SEARCHED_STATUSES

TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
ADD_REPOSITORY = """
INSERT INTO memory_org.repositories VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, link = excluded.link, head = excluded.head, entries = excluded.entries
"""
REMOVE_REPOSITORY = "DELETE FROM memory_org.repositories WHERE id = %s"
ROWS = """
SELECT row, line, NULL, digest FROM memory_org.entries WHERE repository = %s ORDER BY row
"""
MOVE_ENTRY = "UPDATE memory_org.entries SET line = %s WHERE row = %s"
ADD_ENTRIES = """
COPY memory_org.entries (
    repository, id, path, line, type, domain, status, phase, valid_until,
    digest, record, size, stems, words
) FROM STDIN
"""
ADD_WORDS = """
INSERT INTO memory_org.words SELECT * FROM unnest(%s::text[], %s::integer[])
ON CONFLICT (word) DO UPDATE SET entries = memory_org.words.entries + excluded.entries
"""
ADD_TOTALS = "UPDATE memory_org.totals SET entries = entries + %s, words = words + %s"
REMOVE_ENTRIES = """
WITH gone AS (DELETE FROM memory_org.entries WHERE row = ANY(%s) RETURNING words, size),
less AS (UPDATE memory_org.totals SET entries = entries - (SELECT count(*) FROM gone),
         words = words - (SELECT coalesce(sum(size), 0) FROM gone)),
held AS (SELECT lexeme, count(*) AS entries FROM gone, unnest(gone.words) GROUP BY lexeme)
UPDATE memory_org.words SET entries = memory_org.words.entries - held.entries
FROM held WHERE word = held.lexeme
"""
ADD_AUDIENCE = "INSERT INTO memory_org.audiences VALUES (%s) ON CONFLICT DO NOTHING"
AUDIENCES = "SELECT audience FROM memory_org.audiences ORDER BY audience"
HEADS = "SELECT id, name, link, head, entries FROM memory_org.repositories"
RECORDS = "SELECT record FROM memory_org.entries WHERE repository = %s"
COUNT = """
SELECT entries, words,
    (SELECT json_object_agg(word, entries)::text FROM memory_org.words WHERE word = ANY(%s))
FROM memory_org.totals
"""
HOLDING = """
SELECT count(*) FROM memory_org.entries WHERE words @@ %s::tsquery AND position(%s in stems) > 0
"""
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
SIZE = "SELECT pg_database_size(current_database())"
STATE = "SELECT data FROM memory_org.state"
DEADLINE = "SELECT set_config('statement_timeout', %s, true)"

FIRST = 4
"""How many candidates are scored first, as a multiple of the depth.

The best of them set the score that the others must reach.
"""

unpack = msgspec.msgpack.Decoder().decode


class WeightedPattern(NamedTuple):
    """A pattern of a query.

    Attributes:
        weight: its IDF times its frequency in the query.
        holding: how many entries hold it.
    """

    pattern: StemPattern
    weight: float
    holding: int


class ScoredRow(NamedTuple):
    """An entry that a query finds, and its score."""

    score: float
    row: int
    id: str
    path: str
    line: int


class AudienceCounts(NamedTuple):
    """The numbers of entries and words of an audience, and of entries that hold each pattern."""

    entries: int
    words: int
    holding: dict[StemPattern, int]


class PostgresEngine(OrgEngine):
    """The databases of an address. Readers see each transaction: there is nothing to publish.

    Its methods raise EngineError: org-server, org-version, or org-missing if a reader may not read
    any audience; and RepositoryError (org-locked) if there is another writer, on any machine.
    """

    def __init__(
        self, address: str, *, is_writer: bool = False, deadline: float | None = None
    ) -> None:
        self._server = OrgServer(address, is_writer=is_writer, deadline=deadline)
        self._is_writer = is_writer
        self._connections: dict[str, Connection | None] = {}
        self._changed_audiences: dict[str, None] = {}
        self._counts: dict[str, dict[StemPattern, int]] = {}
        self._stemmer = Stemmer()

    def _write(self, head: OrgHead, entries: Sequence[Located] | None) -> None:
        repository = head.repository
        row = (repository.id, repository.name, repository.link, head.head, head.entries)
        with self._transact(repository.audience) as connection:
            if entries is not None:
                self._replace_rows(connection, repository.id, entries)
            connection.execute(ADD_REPOSITORY, row)

    def _remove(self, repository: OrgRepository) -> None:
        with self._transact(repository.audience) as connection:
            self._replace_rows(connection, repository.id, ())
            connection.execute(REMOVE_REPOSITORY, (repository.id,))

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """Return the best matches of all databases, each scored by the statistics of its own."""
        if not terms:
            return []
        depth = max(1, min(depth, MAX_DEPTH))
        patterns = self._stemmer.patterns(terms)
        query = Counter(patterns[term] for term in terms if term in patterns)
        values = _bind_filters(filters)
        matches: list[OrgMatch] = []
        for audience in self._list_readable(audiences):
            with self._snapshot(audience) as connection:
                matches += self._search(connection, audience, query, values, depth)
        matches.sort(key=_rank_key)
        return matches[:depth]

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many entries the audiences have together, and how many hold each term."""
        patterns = self._stemmer.patterns(terms)
        total = 0
        holding = dict.fromkeys(terms, 0)
        for audience in self._list_readable(audiences):
            with self._snapshot(audience) as connection:
                counts = self._count(connection, audience, patterns.values())
            total += counts.entries
            for term, pattern in patterns.items():
                holding[term] += counts.holding[pattern]
        return total, holding

    def _read_heads(self) -> list[OrgHead]:
        """Return the heads of all audiences, for the operator, who alone may list them."""
        with self._server.translate_errors():
            audiences = self._require("").execute(AUDIENCES).fetchall()
        heads = []
        for (audience,) in audiences:
            if self._find_connection(audience) is not None:
                for id_, name, link, head, entries in self._query(audience, HEADS):
                    repository = OrgRepository(id_, name, link, audience)
                    heads.append(OrgHead(repository, head, entries))
        return sorted(heads, key=lambda head: head.repository.id)

    def _read_entries(self, repository: OrgRepository) -> list[Located]:
        rows = self._query(repository.audience, RECORDS, (repository.id,))
        entries = [read_entry_row(tuple(unpack(record))) for (record,) in rows]
        return sorted(entries, key=lambda located: (located.path, located.line, located.entry.id))

    def publish(self) -> list[OrgPublished]:
        """Clean up after the transactions, so that later readers need not; there is no file."""
        for audience in tuple(self._changed_audiences):
            with self._transact(audience) as connection:
                connection.execute("DELETE FROM memory_org.words WHERE entries <= 0")
                connection.execute("SELECT gin_clean_pending_list('memory_org.entries_words')")
                connection.execute("ANALYZE memory_org.entries")
        self._changed_audiences.clear()
        return []

    def size(self, audience: str) -> int:
        """Return the size of the database of an audience in bytes."""
        ((size,),) = self._query(audience, SIZE)
        return int(size)

    def state(self) -> bytes:
        """Return the operator's state, or b""."""
        rows = self._query("", STATE)
        return bytes(rows[0][0]) if rows else b""

    def keep_state(self, data: bytes) -> None:
        """Save the operator's state."""
        with self._server.translate_errors(), self._require("").transaction():
            self._require("").execute("DELETE FROM memory_org.state")
            self._require("").execute("INSERT INTO memory_org.state VALUES (%s)", (data,))

    def close(self) -> None:
        """Close the connections; those of readers are kept for the next engine of the process."""
        for audience, connection in self._connections.items():
            if connection is None:
                continue
            if self._is_writer:
                # Otherwise the server keeps the lock until it notices the end.
                with suppress(psycopg.Error):
                    connection.execute("SELECT pg_advisory_unlock_all()")
                connection.close()
            else:
                self._server.keep(self._server.database_of(audience), connection)
        self._connections.clear()

    def _replace_rows(
        self, connection: Connection, repository_id: str, entries: Sequence[Located]
    ) -> None:
        """Replace the rows of a repository; an unchanged entry keeps its row."""
        old_rows = connection.execute(ROWS, (repository_id,)).fetchall()
        rows = [entry_row(located, None) for located in entries]
        digests = [entry_digest(row) for row in rows]
        new_places, moved, gone = compare_rows(old_rows, digests)
        if gone:
            connection.execute(REMOVE_ENTRIES, (gone,))
        for line, row in moved:
            connection.execute(MOVE_ENTRY, (line, row))
        if not new_places:
            return

        stems = self._stemmer.stem(
            text_row(number, entries[place]) for number, place in enumerate(new_places)
        )
        with connection.cursor() as cursor, cursor.copy(ADD_ENTRIES) as copy:
            for place, stemmed in zip(new_places, stems, strict=True):
                columns = _list_columns(repository_id, entries[place])
                record = (digests[place][1], pack(rows[place]))
                copy.write_row((*columns, *record, *_list_stem_columns(stemmed)))
        _add_words(connection, stems)

    def _search(
        self,
        connection: Connection,
        audience: str,
        query: Counter[StemPattern],
        values: dict[str, object],
        depth: int,
    ) -> list[OrgMatch]:
        """Return the best matches of an audience, by the patterns of the highest weights first."""
        counts = self._count(connection, audience, query)
        average = counts.words / counts.entries if counts.entries else 1.0
        weighted = _weigh_patterns(query, counts)
        best: list[ScoredRow] = []
        start = 0
        end = _count_first(weighted, FIRST * depth)
        while start < end:
            wanted = [item.pattern for item in weighted[start:end]]
            seen = [item.pattern for item in weighted[:start]]
            bound = {**values, "words": build_tsquery(wanted, seen)}
            rows = connection.execute(CANDIDATES, bound).fetchall()
            best += _score_candidates(rows, weighted, average)
            best.sort(key=lambda one: (-one.score, one.id, one.path, one.line))
            del best[depth:]
            least = best[-1].score if len(best) == depth else 0.0
            start = end
            end = max(end, _count_needed(weighted, least))

        matches = connection.execute(MATCHES, ([candidate.row for candidate in best],))
        match_by_row = {match[0]: match for match in matches}
        return [_parse_match(audience, item.score, match_by_row[item.row]) for item in best]

    def _count(
        self, connection: Connection, audience: str, patterns: Iterable[StemPattern]
    ) -> AudienceCounts:
        """Count the entries, the words and the entries that hold each pattern.

        An engine counts each pattern once.
        """
        holding = self._counts.setdefault(audience, {})
        new = [pattern for pattern in dict.fromkeys(patterns) if pattern not in holding]
        words = [pattern for pattern in new if pattern.is_plain and not pattern.is_prefix]
        lexemes = [pattern.lexemes[0] for pattern in words]
        row = connection.execute(COUNT, (lexemes,)).fetchone()
        total_entries, total_words, counts_json = row or (0, 0, None)
        counts_by_word = json.loads(counts_json or "{}")
        for pattern in words:
            holding[pattern] = counts_by_word.get(pattern.lexemes[0], 0)
        for pattern in new:
            if pattern not in holding:
                bound = (build_tsquery([pattern], []), pattern.text)
                counted = connection.execute(HOLDING, bound).fetchone()
                holding[pattern] = counted[0] if counted else 0
        return AudienceCounts(total_entries, total_words, holding)

    def _list_readable(self, audiences: Sequence[str]) -> list[str]:
        """Return the audiences that this role may read.

        Raises:
            EngineError: org-missing if a reader may read no audience.
        """
        names = [name for name in dict.fromkeys(audiences) if re.fullmatch(AUDIENCE, name)]
        readable = [name for name in names if self._find_connection(name) is not None]
        if names and not readable and not self._is_writer:
            hint = (
                "Ask the operator for the role of an audience,"
                " and which one MEMORY_CI_ORG_AUDIENCES is to name."
            )
            message = "this role may read none of what is asked for"
            raise EngineError(message, slug="org-missing", hint=hint)
        return readable

    def _query(
        self, audience: str, query: LiteralString, values: Sequence[object] = ()
    ) -> list[Row]:
        with self._snapshot(audience) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _snapshot(self, audience: str) -> Iterator[Connection]:
        """Read one snapshot of a database in the block, until the deadline."""
        connection = self._require(audience)
        with self._server.translate_errors(), connection.transaction():
            if self._server.deadline is not None:
                milliseconds = max(1, int(self._server.seconds_left() * 1000))
                connection.execute(DEADLINE, (str(milliseconds),))
            yield connection

    @contextmanager
    def _transact(self, audience: str) -> Iterator[Connection]:
        """Write to the database of an audience in one transaction; create it if necessary."""
        connection = self._find_connection(audience)
        if connection is None:
            name = sql.Identifier(self._server.database_of(audience))
            with self._server.translate_errors():
                self._require("").execute(CREATE.format(name))
            del self._connections[audience]
            connection = self._require(audience)
        self._counts.pop(audience, None)
        self._changed_audiences[audience] = None
        with self._server.translate_errors(), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (server.LOCK,))
            yield connection

    def _require(self, audience: str) -> Connection:
        """Return the connection of an audience, or of the operator ("").

        Raises:
            EngineError: org-missing.
        """
        connection = self._find_connection(audience)
        if connection is not None:
            return connection
        message = f"the database {self._server.database_of(audience)} cannot be opened by this role"
        hint = (
            f"{self._server.database} and the databases of all audiences are the operator's:"
            " use that role."
        )
        raise EngineError(message, slug="org-missing", hint=hint)

    def _find_connection(self, audience: str) -> Connection | None:
        """Return the connection of an audience, or of the operator ("").

        None if there is no database, or if this role may not read it.
        """
        if audience not in self._connections:
            with suppress(NoSuchDatabaseError), self._server.translate_errors():
                connection = self._server.take(self._server.database_of(audience))
                try:
                    is_current = self._is_current(connection, audience)
                    self._connections[audience] = connection if is_current else None
                finally:
                    if self._connections.get(audience) is None:
                        connection.close()
        return self._connections.setdefault(audience, None)

    def _is_current(self, connection: Connection, audience: str) -> bool:
        """Return whether the tables can be read and have our version; a writer updates them.

        Raises:
            EngineError: org-version; NeverSyncedError if the operator has no tables.
            RepositoryError: org-locked.
        """
        if self._is_writer:
            self._update(connection, audience)
            return True
        scripts = server.MIGRATIONS if audience else server.OPERATOR_MIGRATIONS
        try:
            server.check_version(connection, scripts)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as error:
            if not audience and isinstance(error, psycopg.errors.UndefinedTable):
                message = f"the database {self._server.database} holds no index yet"
                hint = "Build it: `memory-ci org sync LIST`, with the same address."
                raise NeverSyncedError(message, slug="org-missing", hint=hint) from error
            return False
        return True

    def _update(self, connection: Connection, audience: str) -> None:
        """Lock the index for this writer, and update the tables of a database."""
        if not audience:
            row = connection.execute(TRY_LOCK, (server.WRITER_LOCK,)).fetchone()
            if row != (True,):
                message = f"another sync works on {self._server.database}"
                hint = "Wait for it to end: what it does is not lost."
                raise RepositoryError(message, slug="org-locked", hint=hint)
        scripts = server.MIGRATIONS if audience else server.OPERATOR_MIGRATIONS
        with connection.transaction():
            server.migrate(connection, self._server.database_of(audience), scripts)
        if audience:
            self._require("").execute(ADD_AUDIENCE, (audience,))


def _list_columns(repository_id: str, located: Located) -> tuple[str | int | None, ...]:
    """Return the columns of an entry that queries filter by, in the order of `ADD_ENTRIES`."""
    entry = located.entry
    return (
        repository_id,
        entry.id,
        located.path,
        located.line,
        entry.type,
        entry.domain,
        entry.status,
        entry.phase,
        entry.valid_until.isoformat() if entry.valid_until else None,
    )


def _list_stem_columns(stemmed: Stemmed) -> tuple[int, str, str]:
    """Return the columns of an entry's stems, in the order of `ADD_ENTRIES`."""
    lexemes = " ".join(quote_lexeme(lexeme) for lexeme in stemmed.lexemes)
    return stemmed.size, stemmed.text, lexemes


def _add_words(connection: Connection, stems: Sequence[Stemmed]) -> None:
    """Add new entries to the word statistics."""
    counts: Counter[str] = Counter()
    for stemmed in stems:
        counts.update(stemmed.lexemes)
    words = sorted(counts)
    connection.execute(ADD_WORDS, (words, [counts[word] for word in words]))
    size = sum(stemmed.size for stemmed in stems)
    connection.execute(ADD_TOTALS, (len(stems), size))


def _bind_filters(filters: OrgFilters) -> dict[str, object]:
    """Return the values of filters in `CANDIDATES`."""
    return {
        "statuses": list(SEARCHED_STATUSES),
        "types": list(filters.types) or None,
        "domains": list(filters.domains) or None,
        "phases": list(filters.phases) or None,
        "today": filters.today.isoformat() if filters.today else None,
        "without": list(filters.without),
        "links": [link.lower() for link in filters.without],
    }


def _rank_key(match: OrgMatch) -> tuple[float, str, str, int]:
    return -match.lexical, match.located.entry.id, match.repository.id, match.located.line


def _weigh_patterns(query: Counter[StemPattern], counts: AudienceCounts) -> list[WeightedPattern]:
    """Return the patterns that an entry holds, those of the highest weight first."""
    weighted = []
    for pattern, frequency in query.items():
        holding = counts.holding[pattern]
        if holding:
            weight = frequency * idf(holding, counts.entries)
            weighted.append(WeightedPattern(pattern, weight, holding))
    return sorted(weighted, key=lambda item: (-item.weight, item.pattern))


def _score_candidates(
    rows: Iterable[Row], weighted: Sequence[WeightedPattern], average: float
) -> Iterator[ScoredRow]:
    """Yield the candidates that score above zero.

    Args:
        rows: rows of `CANDIDATES`.
        weighted: the patterns of the query.
        average: the mean number of words of an entry.
    """
    texts = [(item.pattern.text, item.weight) for item in weighted]
    for row, id_, path, line, size, stems in rows:
        lexical = score(stems, size, average, texts)
        if lexical > 0:
            yield ScoredRow(lexical, row, id_, path, line)


def _count_first(weighted: Sequence[WeightedPattern], candidates: int) -> int:
    """Return the least number of first patterns whose entries add up to `candidates`."""
    sums = accumulate(item.holding for item in weighted)
    for number, held in enumerate(sums, 1):
        if held >= candidates:
            return number
    return len(weighted)


def _count_needed(weighted: Sequence[WeightedPattern], least: float) -> int:
    """Return how many of the first patterns an entry needs one of to score above `least`.

    The patterns after them contribute (K1 + 1) times their weight at most.
    """
    reversed_bounds = accumulate((K1 + 1) * item.weight for item in reversed(weighted))
    bounds = list(reversed_bounds)[::-1]
    for number, bound in enumerate(bounds):
        if bound <= least:
            return number
    return len(weighted)


def _parse_match(audience: str, lexical: float, row: Row) -> OrgMatch:
    _, record, repository_id, name, link, head = row
    located = read_entry_row(tuple(unpack(record)))
    return OrgMatch(located, lexical, OrgRepository(repository_id, name, link, audience), head)
