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
    count_first_round_patterns,
    count_patterns_to_read,
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
        """Prepare the engine; connections are made at their first use.

        Args:
            address: postgresql://…
            is_writer: write to the index, for a sync.
            deadline: the value of time.monotonic() until which the server may answer.
        """
        self._server = OrgServer(address, is_writer=is_writer, deadline=deadline)
        self._is_writer = is_writer
        # By audience; None for an audience without a database, or that this role may not read.
        self._connections: dict[str, Connection | None] = {}
        self._changed_audiences: dict[str, None] = {}  # in the order of their changes
        # For each audience, how many of its entries contain a pattern.
        self._count_cache: dict[str, dict[StemPattern, int]] = {}
        self._stemmer = Stemmer()

    def _write(self, head: OrgHead, entries: Sequence[Located] | None) -> None:
        """Write the head of a repository, and its entries unless they are None."""
        repository = head.repository
        row = (repository.id, repository.name, repository.link, head.commit, head.entries)
        with self._write_transaction(repository.audience) as connection:
            if entries is not None:
                self._replace_rows(connection, repository.id, entries)
            connection.execute(statements.ADD_REPOSITORY, row)

    def _remove(self, repository: OrgRepository) -> None:
        with self._write_transaction(repository.audience) as connection:
            self._replace_rows(connection, repository.id, ())
            connection.execute(statements.REMOVE_REPOSITORY, (repository.id,))

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """Return the best matches of all databases, each scored by the statistics of its own."""
        if not terms:
            return []
        depth = max(1, min(depth, MAX_DEPTH))
        pattern_by_term = self._stemmer.build_patterns(terms)
        frequencies = Counter(pattern_by_term[term] for term in terms if term in pattern_by_term)
        filter_values = _bind_filters(filters)
        matches: list[OrgMatch] = []
        for audience in self._list_readable(audiences):
            with self._read_transaction(audience) as connection:
                matches += self._search_audience(
                    connection, audience, frequencies, filter_values, depth
                )
        matches.sort(key=_rank_key)
        return matches[:depth]

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many entries the audiences have together, and how many contain each term."""
        pattern_by_term = self._stemmer.build_patterns(terms)
        entry_count = 0
        count_by_term = dict.fromkeys(terms, 0)
        for audience in self._list_readable(audiences):
            with self._read_transaction(audience) as connection:
                counts = self._count_in_audience(connection, audience, pattern_by_term.values())
            entry_count += counts.entries
            for term, pattern in pattern_by_term.items():
                count_by_term[term] += counts.by_pattern[pattern]
        return entry_count, count_by_term

    def _read_heads(self) -> list[OrgHead]:
        """Return the indexed commit of each repository of all audiences, sorted by repository.

        The operator's database has the list of audiences, so only the operator can do this.
        """
        operator_connection = self._require_connection(server.OPERATOR)
        with self._server.translate_errors():
            audiences = operator_connection.execute(statements.LIST_AUDIENCES).fetchall()
        heads = []
        for (audience,) in audiences:
            if self._find_connection(audience) is not None:
                for repo_id, name, link, commit, entries in self._query(
                    audience, statements.LIST_HEADS
                ):
                    repository = OrgRepository(repo_id, name, link, audience)
                    heads.append(OrgHead(repository, commit, entries))
        return sorted(heads, key=lambda head: head.repository.id)

    def _read_entries(self, repository: OrgRepository) -> list[Located]:
        rows = self._query(repository.audience, statements.ENTRY_RECORDS, (repository.id,))
        entries = [read_entry_row(tuple(unpack(record))) for (record,) in rows]
        return sorted(entries, key=lambda located: (located.path, located.line, located.entry.id))

    def publish(self) -> list[OrgPublished]:
        """Clean up the tables of changed audiences, so that queries of readers are fast.

        There is nothing to publish, and no file to return: readers see each transaction at once.
        """
        for audience in tuple(self._changed_audiences):
            with self._write_transaction(audience) as connection:
                connection.execute("DELETE FROM memory_org.words WHERE entries <= 0")
                connection.execute("SELECT gin_clean_pending_list('memory_org.entries_words')")
                connection.execute("ANALYZE memory_org.entries")
        self._changed_audiences.clear()
        return []

    def size(self, audience: str) -> int:
        """Return the size of the database of an audience in bytes."""
        ((size,),) = self._query(audience, statements.DATABASE_SIZE)
        return int(size)

    def state(self) -> bytes:
        """Return the operator's state, or b""."""
        rows = self._query(server.OPERATOR, statements.OPERATOR_STATE)
        return bytes(rows[0][0]) if rows else b""

    def save_state(self, data: bytes) -> None:
        """Save the operator's state."""
        connection = self._require_connection(server.OPERATOR)
        with self._server.translate_errors(), connection.transaction():
            connection.execute("DELETE FROM memory_org.state")
            connection.execute("INSERT INTO memory_org.state VALUES (%s)", (data,))

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
                self._server.keep_connection(self._server.database_of(audience), connection)
        self._connections.clear()

    def _replace_rows(
        self, connection: Connection, repository_id: str, entries: Sequence[Located]
    ) -> None:
        """Replace the rows of a repository by entries; an unchanged entry keeps its row."""
        old_rows = connection.execute(statements.ROWS_OF_REPOSITORY, (repository_id,)).fetchall()
        new_rows = [entry_row(located, None) for located in entries]
        digests = [entry_digest(row) for row in new_rows]
        changes = compare_rows(old_rows, digests)
        if changes.unwanted_numbers:
            connection.execute(statements.REMOVE_ENTRIES, (changes.unwanted_numbers,))
        for moved_row in changes.moved_rows:
            connection.execute(statements.MOVE_ENTRY, (moved_row.line, moved_row.row_number))
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

    def _search_audience(
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
        counts = self._count_in_audience(connection, audience, frequencies)
        mean_words = counts.words / counts.entries if counts.entries else 1.0
        weighted = weigh_patterns(frequencies, counts)
        best: list[ScoredRow] = []
        start = 0
        end = count_first_round_patterns(weighted, FIRST_ROUND * depth)
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
            end = max(end, count_patterns_to_read(weighted, least_score))
        return _read_matches(connection, audience, best)

    def _count_in_audience(
        self, connection: Connection, audience: str, patterns: Iterable[StemPattern]
    ) -> AudienceCounts:
        """Count the entries and words of an audience, and the entries that contain each pattern.

        Counts of patterns are cached. A table has the counts of single words; entries with any
        other pattern (a prefix, several words) are counted by a query each.
        """
        by_pattern = self._count_cache.setdefault(audience, {})
        new_patterns = [pattern for pattern in dict.fromkeys(patterns) if pattern not in by_pattern]
        single_words: list[StemPattern] = []
        other_patterns: list[StemPattern] = []
        for pattern in new_patterns:
            if pattern.is_plain and not pattern.is_prefix:
                single_words.append(pattern)
            else:
                other_patterns.append(pattern)

        lexemes = [pattern.lexemes[0] for pattern in single_words]
        row = connection.execute(statements.COUNT_ENTRIES_AND_WORDS, (lexemes,)).fetchone()
        total_entries, total_words, counts_json = row or (0, 0, None)
        count_by_lexeme = json.loads(counts_json or "{}")
        for pattern in single_words:
            by_pattern[pattern] = count_by_lexeme.get(pattern.lexemes[0], 0)
        for pattern in other_patterns:
            parameters = (build_tsquery([pattern], []), pattern.text)
            count_row = connection.execute(
                statements.COUNT_ENTRIES_WITH_PATTERN, parameters
            ).fetchone()
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
        with self._read_transaction(audience) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _read_transaction(self, audience: str) -> Iterator[Connection]:
        """Open a transaction for the block, which reads one state of a database.

        A query that runs past the deadline is ended by the server.
        """
        connection = self._require_connection(audience)
        with self._server.translate_errors(), connection.transaction():
            if self._server.deadline is not None:
                milliseconds = max(1, int(self._server.seconds_left() * 1000))
                connection.execute(statements.SET_TIMEOUT, (str(milliseconds),))
            yield connection

    @contextmanager
    def _write_transaction(self, audience: str) -> Iterator[Connection]:
        """Write to the database of an audience in one transaction; create it if necessary."""
        if self._find_connection(audience) is None:
            name = sql.Identifier(self._server.database_of(audience))
            operator_connection = self._require_connection(server.OPERATOR)
            with self._server.translate_errors():
                operator_connection.execute(CREATE_DATABASE.format(name))
            del self._connections[audience]  # It says that there is no database.
        connection = self._require_connection(audience)
        self._count_cache.pop(audience, None)
        self._changed_audiences[audience] = None
        with self._server.translate_errors(), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (server.TRANSACTION_LOCK,))
            yield connection

    def _require_connection(self, audience: str) -> Connection:
        """Return the connection of an audience, or of the operator (server.OPERATOR).

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
        """Return the cached connection of an audience, or of the operator (server.OPERATOR).

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
        """Connect to the database of an audience, or of the operator (server.OPERATOR).

        A writer creates or updates its tables.

        Returns:
            The connection; None if this role may not read the tables.

        Raises:
            EngineError: org-version; NeverSyncedError if the operator has no tables.
            RepositoryError: org-locked.
        """
        connection = self._server.take_connection(self._server.database_of(audience))
        is_usable = False
        try:
            if self._is_writer:
                self._prepare_for_writer(connection, audience)
                is_usable = True
            else:
                is_usable = self._is_readable(connection, audience)
        finally:
            if not is_usable:
                connection.close()
        return connection if is_usable else None

    def _is_readable(self, connection: Connection, audience: str) -> bool:
        """Return whether a reader's role may read the tables of a database.

        Raises:
            EngineError: org-version if the tables have another version than this memory-ci needs;
                NeverSyncedError if the operator has no tables.
        """
        try:
            server.check_version(connection, _choose_migrations(audience))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as error:
            is_without_tables = isinstance(error, psycopg.errors.UndefinedTable)
            if audience == server.OPERATOR and is_without_tables:
                message = f"the database {self._server.database} holds no index yet"
                hint = "Build it: `memory-ci org sync LIST`, with the same address."
                raise NeverSyncedError(message, slug="org-missing", hint=hint) from error
            return False
        return True

    def _prepare_for_writer(self, connection: Connection, audience: str) -> None:
        """Create or update the tables of a database.

        For the operator's database the whole index is locked first, for this writer alone. A
        database of an audience is added to the operator's list of audiences.

        Raises:
            RepositoryError: org-locked.
        """
        if audience == server.OPERATOR:
            row = connection.execute(statements.TRY_LOCK, (server.WRITER_LOCK,)).fetchone()
            if row != (True,):
                message = f"another sync works on {self._server.database}"
                hint = "Wait for it to end: what it does is not lost."
                raise RepositoryError(message, slug="org-locked", hint=hint)
        with connection.transaction():
            name = self._server.database_of(audience)
            server.migrate(connection, name, _choose_migrations(audience))
        if audience != server.OPERATOR:
            operator_connection = self._require_connection(server.OPERATOR)
            operator_connection.execute(statements.ADD_AUDIENCE, (audience,))


def _choose_migrations(audience: str) -> Sequence[LiteralString]:
    """Return the scripts that make the tables of an audience, or of the operator."""
    return server.OPERATOR_MIGRATIONS if audience == server.OPERATOR else server.MIGRATIONS


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


def _add_words(connection: Connection, stemmed_entries: Sequence[Stemmed]) -> None:
    """Add new entries to the word statistics of an audience.

    These are the number of entries with each word, and the numbers of all entries and words.
    """
    entry_counts: Counter[str] = Counter()
    for stemmed in stemmed_entries:
        entry_counts.update(stemmed.lexemes)  # each once
    words = sorted(entry_counts)
    connection.execute(statements.ADD_WORDS, (words, [entry_counts[word] for word in words]))
    word_count = sum(stemmed.size for stemmed in stemmed_entries)
    connection.execute(statements.ADD_TOTALS, (len(stemmed_entries), word_count))


def _bind_filters(filters: OrgFilters) -> dict[str, object]:
    """Return the parameters of `CANDIDATES` for filters; NULL does not filter.

    The excluded repositories are given by id or by link, so each is compared with both.
    """
    return {
        "statuses": list(SEARCHED_STATUSES),
        "types": list(filters.types) or None,
        "domains": list(filters.domains) or None,
        "phases": list(filters.phases) or None,
        "today": filters.today.isoformat() if filters.today else None,
        "excluded_ids": list(filters.excluded_repositories),
        "excluded_links": [link.lower() for link in filters.excluded_repositories],
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
        packed_entry, repository_id, name, link, commit = columns_by_row[scored.row]
        located = read_entry_row(tuple(unpack(packed_entry)))
        repository = OrgRepository(repository_id, name, link, audience)
        matches.append(OrgMatch(located, scored.score, repository, commit))
    return matches
