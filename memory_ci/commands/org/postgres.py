"""The organisation's search index on PostgreSQL: a database for each audience of readers.

One more database is the operator's, who alone may list the others. They are databases and not
schemas: within one database every role sees names, row estimates and sizes of all tables
(pg_class, pg_stat_user_tables). A role with the name of a database, if there is one, has the
members who may read it.

Candidates come from a GIN index of the stems that FTS5 would index. The score is BM25 as in
SQLite, with the statistics of the audience; `ranking` computes it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import LiteralString

import msgspec
import psycopg
from psycopg import sql

from memory_ci.commands.org import server, statements
from memory_ci.commands.org.engine import NeverSyncedError, OrgEngine
from memory_ci.commands.org.ranking import (
    AudienceCounts,
    ScoredRow,
    count_first,
    count_needed,
    score_candidates,
    weigh_patterns,
)
from memory_ci.commands.org.records import (
    OrgFilters,
    OrgHead,
    OrgMatch,
    OrgPublished,
    OrgRepository,
)
from memory_ci.commands.org.server import Connection, NoSuchDatabaseError, OrgServer
from memory_ci.commands.org.stems import (
    Stemmed,
    Stemmer,
    StemPattern,
    build_tsquery,
    quote_lexeme,
)
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.records.entry import Located
from memory_ci.records.names import AUDIENCE
from memory_ci.search.builder import compare_rows, text_row
from memory_ci.search.rows import Row, entry_digest, entry_row, pack, read_entry_row
from memory_ci.search.search import MAX_DEPTH, SEARCHED_STATUSES

CREATE_DATABASE = sql.SQL(
    "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
)
FIRST_ROUND = 4
"""How many candidates are scored first, as a multiple of the depth.

The best of them set the score that the others must reach.
"""

unpack = msgspec.msgpack.Decoder().decode


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
        """Write the head of a repository, and its entries unless they are None."""
        repository = head.repository
        row = (repository.id, repository.name, repository.link, head.head, head.entries)
        with self._transact(repository.audience) as connection:
            if entries is not None:
                self._replace_rows(connection, repository.id, entries)
            connection.execute(statements.ADD_REPOSITORY, row)

    def _remove(self, repository: OrgRepository) -> None:
        with self._transact(repository.audience) as connection:
            self._replace_rows(connection, repository.id, ())
            connection.execute(statements.REMOVE_REPOSITORY, (repository.id,))

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """Return the best matches of all databases, each scored by the statistics of its own."""
        if not terms:
            return []
        depth = max(1, min(depth, MAX_DEPTH))
        pattern_by_term = self._stemmer.patterns(terms)
        frequencies = Counter(pattern_by_term[term] for term in terms if term in pattern_by_term)
        filter_values = _bind_filters(filters)
        matches: list[OrgMatch] = []
        for audience in self._list_readable(audiences):
            with self._snapshot(audience) as connection:
                matches += self._search(connection, audience, frequencies, filter_values, depth)
        matches.sort(key=_rank_key)
        return matches[:depth]

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many entries the audiences have together, and how many contain each term."""
        pattern_by_term = self._stemmer.patterns(terms)
        entry_count = 0
        count_by_term = dict.fromkeys(terms, 0)
        for audience in self._list_readable(audiences):
            with self._snapshot(audience) as connection:
                counts = self._count(connection, audience, pattern_by_term.values())
            entry_count += counts.entries
            for term, pattern in pattern_by_term.items():
                count_by_term[term] += counts.by_pattern[pattern]
        return entry_count, count_by_term

    def _read_heads(self) -> list[OrgHead]:
        """Return the heads of all audiences, for the operator, who alone may list them."""
        with self._server.translate_errors():
            audiences = self._require("").execute(statements.AUDIENCES).fetchall()
        heads = []
        for (audience,) in audiences:
            if self._find_connection(audience) is not None:
                for repo_id, name, link, head, entries in self._query(audience, statements.HEADS):
                    repository = OrgRepository(repo_id, name, link, audience)
                    heads.append(OrgHead(repository, head, entries))
        return sorted(heads, key=lambda head: head.repository.id)

    def _read_entries(self, repository: OrgRepository) -> list[Located]:
        rows = self._query(repository.audience, statements.RECORDS, (repository.id,))
        entries = [read_entry_row(tuple(unpack(record))) for (record,) in rows]
        return sorted(entries, key=lambda located: (located.path, located.line, located.entry.id))

    def publish(self) -> list[OrgPublished]:
        """Clean up the tables of changed audiences, so that queries of readers are fast.

        The transactions published the changes already. There is no file to return.
        """
        for audience in tuple(self._changed_audiences):
            with self._transact(audience) as connection:
                connection.execute("DELETE FROM memory_org.words WHERE entries <= 0")
                connection.execute("SELECT gin_clean_pending_list('memory_org.entries_words')")
                connection.execute("ANALYZE memory_org.entries")
        self._changed_audiences.clear()
        return []

    def size(self, audience: str) -> int:
        """Return the size of the database of an audience in bytes."""
        ((size,),) = self._query(audience, statements.SIZE)
        return int(size)

    def state(self) -> bytes:
        """Return the operator's state, or b""."""
        rows = self._query("", statements.STATE)
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
        """Replace the rows of a repository by entries; an unchanged entry keeps its row."""
        old_rows = connection.execute(statements.ROWS, (repository_id,)).fetchall()
        new_rows = [entry_row(located, None) for located in entries]
        digests = [entry_digest(row) for row in new_rows]
        changes = compare_rows(old_rows, digests)
        if changes.unwanted_numbers:
            connection.execute(statements.REMOVE_ENTRIES, (changes.unwanted_numbers,))
        for moved in changes.moved:
            connection.execute(statements.MOVE_ENTRY, (moved.line, moved.row_number))
        if not changes.missing_indices:
            return

        stems = self._stemmer.stem(
            text_row(number, entries[index]) for number, index in enumerate(changes.missing_indices)
        )
        with connection.cursor() as cursor, cursor.copy(statements.ADD_ENTRIES) as copy:
            for index, stemmed in zip(changes.missing_indices, stems, strict=True):
                columns = _list_columns(repository_id, entries[index])
                digest = digests[index].digest
                record = pack(new_rows[index])
                copy.write_row((*columns, digest, record, *_list_stem_columns(stemmed)))
        _add_words(connection, stems)

    def _search(
        self,
        connection: Connection,
        audience: str,
        frequencies: Counter[StemPattern],
        filter_values: dict[str, object],
        depth: int,
    ) -> list[OrgMatch]:
        """Return the best matches in the database of an audience, best first.

        Entries are read in rounds. The first reads those with one of the rarest patterns. The next
        reads those that have only other patterns, if these can still reach the score of the worst
        entry among the best `depth` ones (the MaxScore algorithm).

        Args:
            connection: the connection of the audience.
            audience: its name.
            frequencies: the patterns of the query, and how often it has each.
            filter_values: the parameters of `CANDIDATES` for the filters.
            depth: the number of matches.
        """
        counts = self._count(connection, audience, frequencies)
        mean_words = counts.words / counts.entries if counts.entries else 1.0
        weighted = weigh_patterns(frequencies, counts)
        best: list[ScoredRow] = []
        start = 0
        end = count_first(weighted, FIRST_ROUND * depth)
        while start < end:
            round_patterns = [item.pattern for item in weighted[start:end]]
            read_patterns = [item.pattern for item in weighted[:start]]
            parameters = {**filter_values, "words": build_tsquery(round_patterns, read_patterns)}
            rows = connection.execute(statements.CANDIDATES, parameters).fetchall()
            best += score_candidates(rows, weighted, mean_words)
            best.sort(key=lambda row: (-row.score, row.id, row.path, row.line))
            del best[depth:]
            least_score = best[-1].score if len(best) == depth else 0.0
            start = end
            end = max(end, count_needed(weighted, least_score))
        return _read_matches(connection, audience, best)

    def _count(
        self, connection: Connection, audience: str, patterns: Iterable[StemPattern]
    ) -> AudienceCounts:
        """Count the entries and words of an audience, and the entries that contain each pattern.

        Counts of patterns are cached. A table has the counts of single words; entries with any
        other pattern (a prefix, several words) are counted by a query each.
        """
        by_pattern = self._counts.setdefault(audience, {})
        new_patterns = [pattern for pattern in dict.fromkeys(patterns) if pattern not in by_pattern]
        single_words: list[StemPattern] = []
        other_patterns: list[StemPattern] = []
        for pattern in new_patterns:
            if pattern.is_plain and not pattern.is_prefix:
                single_words.append(pattern)
            else:
                other_patterns.append(pattern)

        lexemes = [pattern.lexemes[0] for pattern in single_words]
        row = connection.execute(statements.COUNT, (lexemes,)).fetchone()
        total_entries, total_words, counts_json = row or (0, 0, None)
        count_by_lexeme = json.loads(counts_json or "{}")
        for pattern in single_words:
            by_pattern[pattern] = count_by_lexeme.get(pattern.lexemes[0], 0)
        for pattern in other_patterns:
            parameters = (build_tsquery([pattern], []), pattern.text)
            count_row = connection.execute(statements.HOLDING, parameters).fetchone()
            by_pattern[pattern] = count_row[0] if count_row else 0
        return AudienceCounts(total_entries, total_words, by_pattern)

    def _list_readable(self, audiences: Sequence[str]) -> list[str]:
        """Return the audiences that the role of the connection may read, each once.

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
        """Open a transaction for the block, which reads one state of a database.

        A query that runs past the deadline is ended by the server.
        """
        connection = self._require(audience)
        with self._server.translate_errors(), connection.transaction():
            if self._server.deadline is not None:
                milliseconds = max(1, int(self._server.seconds_left() * 1000))
                connection.execute(statements.DEADLINE, (str(milliseconds),))
            yield connection

    @contextmanager
    def _transact(self, audience: str) -> Iterator[Connection]:
        """Write to the database of an audience in one transaction; create it if necessary."""
        connection = self._find_connection(audience)
        if connection is None:
            name = sql.Identifier(self._server.database_of(audience))
            with self._server.translate_errors():
                self._require("").execute(CREATE_DATABASE.format(name))
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
        """Return the cached connection of an audience, or of the operator ("").

        Returns:
            The connection; None if there is no database, or if this role may not read it.
        """
        if audience not in self._connections:
            connection = None
            with suppress(NoSuchDatabaseError), self._server.translate_errors():
                connection = self._open_connection(audience)
            self._connections[audience] = connection
        return self._connections[audience]

    def _open_connection(self, audience: str) -> Connection | None:
        """Connect to the database of an audience, None if this role may not read its tables."""
        connection = self._server.take(self._server.database_of(audience))
        is_current = False
        try:
            is_current = self._is_current(connection, audience)
        finally:
            if not is_current:
                connection.close()
        return connection if is_current else None

    def _is_current(self, connection: Connection, audience: str) -> bool:
        """Return whether the tables can be read and have the version of this memory-ci.

        A writer creates or updates them.

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
            row = connection.execute(statements.TRY_LOCK, (server.WRITER_LOCK,)).fetchone()
            if row != (True,):
                message = f"another sync works on {self._server.database}"
                hint = "Wait for it to end: what it does is not lost."
                raise RepositoryError(message, slug="org-locked", hint=hint)
        scripts = server.MIGRATIONS if audience else server.OPERATOR_MIGRATIONS
        with connection.transaction():
            server.migrate(connection, self._server.database_of(audience), scripts)
        if audience:
            self._require("").execute(statements.ADD_AUDIENCE, (audience,))


def _list_columns(repository_id: str, located: Located) -> tuple[str | int | None, ...]:
    """Return the first columns of `ADD_ENTRIES`, which queries of entries filter by."""
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
    connection.execute(statements.ADD_WORDS, (words, [counts[word] for word in words]))
    size = sum(stemmed.size for stemmed in stems)
    connection.execute(statements.ADD_TOTALS, (len(stems), size))


def _bind_filters(filters: OrgFilters) -> dict[str, object]:
    """Return the parameters of `CANDIDATES` for filters; NULL does not filter."""
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
    """Return a key that sorts matches by score, and equal ones in an order that never changes."""
    return -match.lexical, match.located.entry.id, match.repository.id, match.located.line


def _read_matches(
    connection: Connection, audience: str, scored_rows: Sequence[ScoredRow]
) -> list[OrgMatch]:
    """Return the entries of scored rows with their repositories, in the order of the rows."""
    row_numbers = [scored.row for scored in scored_rows]
    columns_by_row = {}
    for row_number, *columns in connection.execute(statements.MATCHES, (row_numbers,)):
        columns_by_row[row_number] = columns
    matches = []
    for scored in scored_rows:
        packed_entry, repository_id, name, link, head = columns_by_row[scored.row]
        located = read_entry_row(tuple(unpack(packed_entry)))
        repository = OrgRepository(repository_id, name, link, audience)
        matches.append(OrgMatch(located, scored.score, repository, head))
    return matches
