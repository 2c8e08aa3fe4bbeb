"""The organisation's search index on SQLite: one file for each audience of readers.

The schema is that of a repository's index, with a table of repositories; the path of an entry is
the repository's id, a line end and the path in the repository. A sync works on files of its own,
`operator/NAME.db`, with a transaction for each repository. `publish` copies changes to `NAME.db`,
without deleted words, and renames the copy into place. Readers open that file, read-only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from memory_ci.commands.org.engine import OPERATOR_DIRECTORY, OrgEngine
from memory_ci.commands.org.records import (
    OrgFilters,
    OrgHead,
    OrgMatch,
    OrgPublished,
    OrgRepository,
)
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.records.entry import Located
from memory_ci.records.names import AUDIENCE
from memory_ci.search.builder import ADD_ENTRY, ADD_TEXT, text_row, update_rows
from memory_ci.search.database import (
    IDENTITY,
    Values,
    connect,
    create,
    is_place_error,
    is_sealed,
    refuse_pipes,
    seal,
    seal_path,
)
from memory_ci.search.rows import Row, entry_digest, entry_row, read_entry_row
from memory_ci.search.search import (
    BM25,
    COLUMNS,
    MAX_DEPTH,
    SEARCHED_STATUSES,
    Filters,
    build_filter,
    quote_term,
)

STATE_FILE = "state.json"  # The operator's state, in OPERATOR_DIRECTORY.
STEPS_BETWEEN_CHECKS = (
    2_000  # Steps of SQLite's machine between two looks at the clock: tens of microseconds.
)
AFTER_LINE_END = "\x0b"
"""The sign after the line end. The paths of a repository are between `id\\n` and `id\\x0b`."""

# Queries are put together of strings of this module; values are always bound.
ROWS_OF_REPOSITORY = (
    "SELECT row, line, source, digest FROM entries WHERE path >= ? AND path < ? ORDER BY row"
)
ADD_REPOSITORY = "INSERT OR REPLACE INTO repositories VALUES (?, ?, ?, ?, ?)"
ENTRIES_OF_REPOSITORY = f"""
SELECT {COLUMNS} FROM entries AS e
WHERE e.path >= ? AND e.path < ?
ORDER BY e.path, e.line, e.id
"""  # noqa: S608
LIST_HEADS = "SELECT id, name, link, head, entries FROM repositories ORDER BY id"
BEST_ROWS = f"""
SELECT {BM25} AS lexical, e.id, e.path, e.line, e.row
FROM entries_fts JOIN entries AS e ON e.row = entries_fts.rowid
WHERE entries_fts MATCH :match AND {{filter}}
ORDER BY lexical DESC, e.id, e.path, e.line
LIMIT :depth
"""  # noqa: S608
ROWS_WITH_REPOSITORY = f"""
SELECT e.row, {COLUMNS}, r.id, r.name, r.link, r.head FROM entries AS e
JOIN repositories AS r ON r.id = substr(e.path, 1, instr(e.path, char(10)) - 1)
WHERE e.row IN (SELECT value FROM json_each(:rows))
"""  # noqa: S608
COUNT_ENTRIES = "SELECT count(*) FROM entries"
COUNT_ENTRIES_WITH_TERM = "SELECT count(*) FROM entries_fts WHERE entries_fts MATCH ?"
IDS_OF_EXCLUDED = """
SELECT id FROM repositories
WHERE id IN (SELECT value FROM json_each(:names))
OR lower(link) IN (SELECT lower(value) FROM json_each(:names))
"""
# A number in the header of the file, which is free for programs, says whether the index of words
# has deleted words since they were purged last.
HAS_DELETED_WORDS = "PRAGMA user_version"
SET_DELETED_WORDS = "PRAGMA user_version = 1"
UNSET_DELETED_WORDS = "PRAGMA user_version = 0"
PURGE_DELETED_WORDS = "INSERT INTO entries_fts (entries_fts) VALUES ('optimize')"

T = TypeVar("T")


class OrgRankedRow(NamedTuple):
    """A row that a query finds, in the order of ranks."""

    negative_score: float
    id: str
    path: str
    line: int
    row: int
    audience: str


class SqliteEngine(OrgEngine):
    """The files of a directory. A writer sees all audiences, a reader the published ones."""

    def __init__(
        self, directory: Path, *, is_writer: bool = False, deadline: float | None = None
    ) -> None:
        """Prepare the engine; files are opened at their first use.

        Args:
            directory: the directory of the published files.
            is_writer: open it for a sync, which works on files of its own.
            deadline: the value of time.monotonic() until which a reader answers.
        """
        self._directory = directory
        self._is_writer = is_writer
        self._deadline = deadline
        self._operator_directory = directory / OPERATOR_DIRECTORY
        self._connections: dict[str, sqlite3.Connection] = {}
        self._are_files_sound = True  # no error has shown a file to be damaged
        if is_writer:
            self._operator_directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _write(self, head: OrgHead, entries: Sequence[Located] | None) -> None:
        """Write the head of a repository, and its entries unless they are None."""
        repository = head.repository
        row = (repository.id, repository.name, repository.link, head.commit, head.entries)
        with self._use_connection(repository.audience) as connection, transaction(connection):
            if entries is not None:
                _replace_rows(connection, repository.id, entries)
            connection.execute(ADD_REPOSITORY, row)

    def _remove(self, repository: OrgRepository) -> None:
        with self._use_connection(repository.audience) as connection, transaction(connection):
            _replace_rows(connection, repository.id, ())
            connection.execute("DELETE FROM repositories WHERE id = ?", (repository.id,))

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """Return the best matches of all files, each scored by the statistics of its file."""
        if not terms:
            return []
        depth = max(1, min(depth, MAX_DEPTH))
        query = " OR ".join(quote_term(term) for term in terms)
        ranked_rows: list[OrgRankedRow] = []
        for audience in self._list_readable(audiences):
            ranked_rows += self._find_best_rows(audience, query, filters, depth)
        ranked_rows.sort()
        best_rows = ranked_rows[:depth]

        # Texts are read only of the best of all files.
        matches: dict[tuple[str, int], OrgMatch] = {}
        for audience in {row.audience for row in best_rows}:
            rows = [row for row in best_rows if row.audience == audience]
            matches.update(self._read_matches(audience, rows))
        keys = [(row.audience, row.row) for row in best_rows]
        return [matches[key] for key in keys if key in matches]

    def _find_best_rows(
        self, audience: str, query: str, filters: OrgFilters, depth: int
    ) -> list[OrgRankedRow]:
        """Return the best rows of an audience for a query of FTS5, at most `depth`.

        They have the negative score, so that the best row is the first in the order of tuples.
        """
        condition, values = self._build_filter(audience, filters)
        values |= {"match": query, "depth": depth}
        found_rows = self._query(audience, BEST_ROWS.format(filter=condition), values, tuple)
        return [
            OrgRankedRow(-score, entry_id, path, line, row_number, audience)
            for score, entry_id, path, line, row_number in found_rows
        ]

    def _read_matches(
        self, audience: str, rows: Sequence[OrgRankedRow]
    ) -> Iterator[tuple[tuple[str, int], OrgMatch]]:
        """Yield the matches of rows of an audience, each with its audience and row number."""
        score_by_row = {row.row: -row.negative_score for row in rows}
        values = {"rows": json.dumps(list(score_by_row))}
        for row in self._query(audience, ROWS_WITH_REPOSITORY, values, _parse_match):
            repository = OrgRepository(row.id, row.name, row.link, audience)
            match = OrgMatch(row.located, score_by_row[row.row], repository, row.commit)
            yield (audience, row.row), match

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many entries the audiences have together, and how many contain each term."""
        entry_count = 0
        count_by_term = dict.fromkeys(terms, 0)
        for audience in self._list_readable(audiences):
            entry_count += self._query_count(audience, COUNT_ENTRIES, ())
            for term in count_by_term:
                count_by_term[term] += self._query_count(
                    audience, COUNT_ENTRIES_WITH_TERM, (quote_term(term),)
                )
        return entry_count, count_by_term

    def _read_heads(self) -> Iterator[OrgHead]:
        """Yield the heads of all repositories, from the file of each audience."""
        for audience in self.list_audiences():
            rows = self._query(audience, LIST_HEADS, (), tuple)
            for repository_id, name, link, commit, entries in rows:
                yield OrgHead(OrgRepository(repository_id, name, link, audience), commit, entries)

    def _read_entries(self, repository: OrgRepository) -> list[Located]:
        return self._query(
            repository.audience, ENTRIES_OF_REPOSITORY, _bound_paths(repository.id), _parse_located
        )

    def list_audiences(self) -> tuple[str, ...]:
        """Return the names of the audiences that have a file, sorted."""
        paths = list(self._directory.glob("*.db"))
        if self._is_writer:
            paths += self._operator_directory.glob("*.db")
        names = {path.stem for path in paths}
        return tuple(sorted(name for name in names if re.fullmatch(AUDIENCE, name)))

    def publish(self) -> list[OrgPublished]:
        """Publish the file of each audience, and remove those of audiences without repositories.

        Raises:
            RepositoryError: write-failed.
        """
        published = []
        audiences_in_use = {head.repository.audience for head in self.heads().values()}
        for audience in self.list_audiences():
            target = self._directory / f"{audience}.db"
            try:
                if audience in audiences_in_use:
                    published.append(self._publish_audience(audience, target))
                else:
                    target.unlink(missing_ok=True)
            except (OSError, sqlite3.OperationalError) as error:
                message = f"cannot write {target}: {error}"
                hint = "What was published before stays."
                raise RepositoryError(message, slug="write-failed", hint=hint) from error
        return published

    def size(self, audience: str) -> int:
        """Return the size of the published file of an audience in bytes."""
        path = self._directory / f"{audience}.db"
        return path.stat().st_size if path.is_file() else 0

    def state(self) -> bytes:
        """Return the operator's state, or b""."""
        with suppress(OSError):
            return (self._operator_directory / STATE_FILE).read_bytes()
        return b""

    def save_state(self, data: bytes) -> None:
        """Save the operator's state.

        Raises:
            RepositoryError: write-failed.
        """
        path = self._operator_directory / STATE_FILE
        temporary = self._operator_directory / f"{STATE_FILE}.new"
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        except OSError as error:
            message = f"cannot write {path}: {error}"
            hint = "The index itself is written."
            raise RepositoryError(message, slug="write-failed", hint=hint) from error

    def close(self) -> None:
        """Close the files; a writer marks sound ones, which need no check when opened again."""
        for audience, connection in self._connections.items():
            connection.close()
            if self._is_writer and self._are_files_sound:
                seal(self._operator_directory / f"{audience}.db")
        self._connections.clear()

    def _publish_audience(self, audience: str, target: Path) -> OrgPublished:
        """Copy the working file of an audience to its published file, if it changed.

        A file beside the working file records the digests of the copy that was published last. The
        words of deleted entries are purged before the copy is made: its readers may not see them.

        Args:
            audience: the audience.
            target: the published file.
        """
        connection = self._connect_to_audience(audience)
        content_digest = _hash_content(connection)
        record_file = self._operator_directory / f"{audience}.published"
        with suppress(OSError, ValueError, KeyError):
            last_record = json.loads(record_file.read_bytes())
            if (
                last_record["content"] == content_digest
                and target.stat().st_size == last_record["size"]
            ):
                return OrgPublished(
                    audience, str(target), last_record["sha256"], last_record["size"], is_new=False
                )

        ((has_deleted_words,),) = connection.execute(HAS_DELETED_WORDS)
        if has_deleted_words:
            with transaction(connection):
                connection.execute(PURGE_DELETED_WORDS)
                connection.execute(UNSET_DELETED_WORDS)
        temporary = self._operator_directory / f"{audience}.new"
        temporary.unlink(missing_ok=True)
        connection.execute("VACUUM INTO ?", (str(temporary),))
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = temporary.stat().st_size
        temporary.chmod(0o444)
        temporary.replace(target)
        record = {"content": content_digest, "sha256": sha256, "size": size}
        record_file.write_text(json.dumps(record), "utf-8")
        return OrgPublished(audience, str(target), sha256, size, is_new=True)

    def _list_readable(self, audiences: Sequence[str]) -> list[str]:
        """Return those of the audiences that have a file, each once."""
        present_audiences = self.list_audiences()
        return [audience for audience in dict.fromkeys(audiences) if audience in present_audiences]

    def _build_filter(self, audience: str, filters: OrgFilters) -> tuple[str, dict[str, object]]:
        """Return the SQL condition of filters for rows of an audience, and its named values.

        To the filters of any index it adds the repositories that may not answer. The column `path`
        begins with the id of a repository, so each excluded repository is a range of this column.
        """
        common_filters: Filters = {
            "types": filters.types or None,
            "domains": filters.domains or None,
            "phases": filters.phases or None,
            "statuses": SEARCHED_STATUSES,
            "today": filters.today,
        }
        condition, values = build_filter(common_filters)
        names = {"names": json.dumps(filters.excluded_repositories)}
        excluded_rows = self._query(audience, IDS_OF_EXCLUDED, names, tuple)
        for number, (repository_id,) in enumerate(excluded_rows):
            condition += f" AND NOT (e.path >= :from{number} AND e.path < :to{number})"
            start, end = _bound_paths(str(repository_id))
            values[f"from{number}"] = start
            values[f"to{number}"] = end
        return condition, values

    def _query(self, audience: str, sql: str, values: Values, make: Callable[[Row], T]) -> list[T]:
        """Return the rows of a query, each as `make` converts it."""
        with self._use_connection(audience) as connection:
            return [make(row) for row in connection.execute(sql, values)]

    def _query_count(self, audience: str, sql: str, values: Values) -> int:
        ((number,),) = self._query(audience, sql, values, tuple)
        return int(number)

    @contextmanager
    def _use_connection(self, audience: str) -> Iterator[sqlite3.Connection]:
        """Yield a connection to the file of an audience, and translate errors of the block.

        Raises:
            TimeoutError: the deadline is over.
            EngineError: org-damaged.
        """
        try:
            yield self._connect_to_audience(audience)
        except (sqlite3.DatabaseError, OSError, ValueError, TypeError) as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise TimeoutError from error
            self._are_files_sound = False
            directory = self._operator_directory if self._is_writer else self._directory
            message = f"{directory / f'{audience}.db'} cannot be used: {error}"
            hint = (
                "Run `memory-ci org sync` again: it builds what is missing from the repositories."
            )
            raise EngineError(message, slug="org-damaged", hint=hint) from error

    def _connect_to_audience(self, audience: str) -> sqlite3.Connection:
        if audience not in self._connections:
            self._connections[audience] = self._open_file(f"{audience}.db")
        return self._connections[audience]

    def _open_file(self, name: str) -> sqlite3.Connection:
        published = self._directory / name
        if self._is_writer:
            return open_working_file(self._operator_directory / name, published)
        return self._open_published(published)

    def _open_published(self, path: Path) -> sqlite3.Connection:
        """Open a published file for reading; queries are interrupted at the deadline."""
        refuse_pipes(path)
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        connection.execute("PRAGMA trusted_schema = OFF")
        deadline = self._deadline
        if deadline is not None:
            connection.set_progress_handler(
                lambda: time.monotonic() > deadline, STEPS_BETWEEN_CHECKS
            )
        check(connection)
        return connection


def _bound_paths(repository_id: str) -> tuple[str, str]:
    """Return the bounds of the column `path` for a repository; the upper bound is excluded.

    A value of the column is the id, a line end and the path in the repository.
    """
    return f"{repository_id}\n", f"{repository_id}{AFTER_LINE_END}"


def _hash_content(connection: sqlite3.Connection) -> str:
    """Hash the schema and the heads of the repositories, which determine all rows of a file."""
    content = hashlib.sha256(json.dumps(ORG_IDENTITY).encode())
    for row in connection.execute(LIST_HEADS):
        content.update(repr(row).encode("utf-8", "surrogateescape"))
    return content.hexdigest()


def _replace_rows(
    connection: sqlite3.Connection, repository_id: str, entries: Sequence[Located]
) -> None:
    """Replace the rows of a repository by entries.

    An entry is unchanged if its row has the same digest. It keeps this row, and its words are not
    indexed again.
    """
    old_rows = connection.execute(ROWS_OF_REPOSITORY, _bound_paths(repository_id)).fetchall()
    rows = []
    for located in entries:
        path = f"{repository_id}\n{located.path}"
        rows.append(entry_row(replace(located, path=path), None))
    digests = [entry_digest(row) for row in rows]
    added_indices = update_rows(connection, old_rows, digests)
    kept_count = len(rows) - len(added_indices)
    if len(old_rows) > kept_count:
        # A row was deleted; its words stay in the index of words until `publish` purges them.
        connection.execute(SET_DELETED_WORDS)

    (last_row,) = connection.execute("SELECT coalesce(max(row), 0) FROM entries").fetchone()
    entry_rows = []
    text_rows = []
    for row_number, index in enumerate(added_indices, start=last_row + 1):
        entry_rows.append((*rows[index], digests[index].digest))
        text_rows.append(text_row(row_number, entries[index]))
    connection.executemany(ADD_ENTRY, entry_rows)
    connection.executemany(ADD_TEXT, text_rows)


class OrgMatchRow(NamedTuple):
    """A row of `ROWS_WITH_REPOSITORY`: an entry and its repository."""

    row: int
    located: Located
    id: str
    name: str
    link: str
    commit: str


def _parse_match(row: Row) -> OrgMatchRow:
    number, *columns, repository_id, name, link, commit = row
    located = _parse_located(tuple(columns))
    return OrgMatchRow(number, located, repository_id, str(name), str(link), commit)


def _parse_located(row: Row) -> Located:
    """Return the entry of a row, with its path in the repository.

    The column `path` has the id of the repository, a line end and the path in the repository.

    Raises:
        TypeError: the file has values of other types than we write.
    """
    located = read_entry_row(row)
    entry = located.entry
    if not all(isinstance(text, str) for text in (entry.id, entry.title, entry.body)):
        raise TypeError("what should be text is none")
    _, _, path = located.path.partition("\n")  # without the id of the repository
    return replace(located, path=path)


ORG_IDENTITY = {**IDENTITY, "org": "1"}
"""The version of a file, in its table `meta`."""

BUSY_SECONDS = 5.0

CREATE_REPOSITORIES = """
CREATE TABLE repositories (
    id      TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    link    TEXT NOT NULL,
    head    TEXT NOT NULL,
    entries INTEGER NOT NULL
) WITHOUT ROWID
"""


def open_working_file(path: Path, published: Path) -> sqlite3.Connection:
    """Open the file that a sync works on, for writing.

    A missing or damaged file is replaced by a copy of the published one, and by an empty one if
    the published one is missing or damaged, too.

    Args:
        path: the file.
        published: the published file of the same audience.
    """
    refuse_pipes(path)
    if not (_is_missing_or_empty(path) and published.exists()):
        connection = _open_unless_damaged(path)
        if connection is not None:
            return connection

    _remove_database(path)
    with suppress(FileNotFoundError):
        shutil.copyfile(published, path)
        path.chmod(0o644)
        connection = None if _is_missing_or_empty(path) else _open_unless_damaged(path)
        if connection is not None:
            return connection

    _remove_database(path)
    return _open_and_check(path)


def _is_missing_or_empty(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def _remove_database(path: Path) -> None:
    """Remove a file of SQLite with its write-ahead log."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def _open_unless_damaged(path: Path) -> sqlite3.Connection | None:
    """Open a file for writing, None if it is damaged or of another version.

    Raises:
        sqlite3.DatabaseError: the disk is at fault, not the file.
    """
    try:
        return _open_and_check(path)
    except FileNotFoundError:
        return None
    except sqlite3.DatabaseError as error:
        if is_place_error(error):
            raise
        return None


def _open_and_check(path: Path) -> sqlite3.Connection:
    """Open a file for writing, create its tables if it is empty, and check it.

    The pages of the file are read only if it has no seal. With the seal a sync marks a sound file
    at its end; it is removed while the file is open.

    Raises:
        sqlite3.DatabaseError: the file is damaged, or of another version.
    """
    was_sealed = is_sealed(path)
    seal_path(path).unlink(missing_ok=True)
    connection = connect(path, BUSY_SECONDS)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        ((table_count,),) = connection.execute("SELECT count(*) FROM sqlite_master")
        if not table_count:
            with transaction(connection):
                create(connection)
                connection.execute(CREATE_REPOSITORIES)
                connection.execute("INSERT INTO meta VALUES ('org', ?)", (ORG_IDENTITY["org"],))
        check(connection)
        if not was_sealed:
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("pages are damaged")
            connection.execute("INSERT INTO entries_fts (entries_fts) VALUES ('integrity-check')")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def check(connection: sqlite3.Connection) -> None:
    """Check that a file has the version of this memory-ci.

    Raises:
        sqlite3.DatabaseError: it has another one.
    """
    if dict(connection.execute("SELECT key, value FROM meta")) != ORG_IDENTITY:
        raise sqlite3.DatabaseError("it is of another version")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the changes of the block, or roll them back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
