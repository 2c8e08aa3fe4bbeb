"""The embedded engine: one read-only file for each audience, and beside them the files that a sync works on.

The schema is that of a repository's index, with a table of repositories; the path of an entry is the repository's id, a
line end and the path there. A sync works on `operator/NAME.db`, a transaction for each repository; `publish` copies
what changed to `NAME.db`, without what was deleted, and renames it into place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from memory_ci.commands.org.engine import WORK, OrgEngine
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
from memory_ci.search.builder import ADD_ENTRY, ADD_TEXT, keep_rows, text_row
from memory_ci.search.database import (
    IDENTITY,
    Values,
    connect,
    create,
    is_fault_of_the_place,
    is_sealed,
    refuse_pipes,
    seal,
    seal_path,
)
from memory_ci.search.rows import Row, entry_digest, entry_row, located_of
from memory_ci.search.search import (
    BM25,
    COLUMNS,
    MAX_DEPTH,
    SHOWN_STATUSES,
    Filters,
    build_filter,
    quote,
)

STATE = "state.json"  # Of the operator, in WORK.
STEPS = 2_000  # Of SQLite's machine between two looks at the clock: some tens of microseconds.
END = "\x0b"  # The sign after the line end: between `id\n` and `id\x0b` stand the paths of one repository.
# Strings of this module put together, values always bound.
ROWS = "SELECT row, line, source, digest FROM entries WHERE path >= ? AND path < ? ORDER BY row"
ADD_REPOSITORY = "INSERT OR REPLACE INTO repositories VALUES (?, ?, ?, ?, ?)"
ENTRIES = f"SELECT {COLUMNS} FROM entries AS e WHERE e.path >= ? AND e.path < ? ORDER BY e.path, e.line, e.id"  # noqa: S608
HEADS = "SELECT id, name, link, head, entries FROM repositories ORDER BY id"
BEST = f"""
SELECT {BM25} AS lexical, e.id, e.path, e.line, e.row FROM entries_fts JOIN entries AS e ON e.row = entries_fts.rowid
WHERE entries_fts MATCH :match AND {{filter}}
ORDER BY lexical DESC, e.id, e.path, e.line
LIMIT :depth
"""  # noqa: S608
CHOSEN = f"""
SELECT e.row, {COLUMNS}, r.id, r.name, r.link, r.head FROM entries AS e
JOIN repositories AS r ON r.id = substr(e.path, 1, instr(e.path, char(10)) - 1)
WHERE e.row IN (SELECT value FROM json_each(:rows))
"""  # noqa: S608
HOLDING = "SELECT count(*) FROM entries_fts WHERE entries_fts MATCH ?"
NAMED = """
SELECT id FROM repositories
WHERE id IN (SELECT value FROM json_each(:names)) OR lower(link) IN (SELECT lower(value) FROM json_each(:names))
"""

T = TypeVar("T")


class SqliteEngine(OrgEngine):
    """The files of `directory`. A writer sees all audiences, a reader those that are published. `deadline`: the moment
    of time.monotonic() after which nothing is answered."""

    def __init__(
        self, directory: Path, *, is_writer: bool = False, deadline: float | None = None
    ) -> None:
        self._directory, self._is_writer, self._deadline = directory, is_writer, deadline
        self._work = directory / WORK
        self._open: dict[str, sqlite3.Connection] = {}
        self._is_sound = True
        if is_writer:
            self._work.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _write(self, held: OrgHead, entries: Sequence[Located] | None) -> None:
        repository = held.repository
        row = (repository.id, repository.name, repository.link, held.head, held.entries)
        with self._telling(repository.audience) as connection, transaction(connection):
            if entries is not None:
                _put(connection, repository.id, entries)
            connection.execute(ADD_REPOSITORY, row)

    def _remove(self, repository: OrgRepository) -> None:
        with self._telling(repository.audience) as connection, transaction(connection):
            _put(connection, repository.id, ())
            connection.execute("DELETE FROM repositories WHERE id = ?", (repository.id,))

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """As in OrgEngine: by the statistics of each file, then all together by their scores."""
        if not terms:
            return []
        depth = max(1, min(depth, MAX_DEPTH))
        match = {"match": " OR ".join(map(quote, terms)), "depth": depth}
        found: list[tuple[float, str, str, int, int, str]] = []
        for audience in self._readable(audiences):
            condition, values = self._filter(audience, filters)
            sql = BEST.format(filter=condition)
            found += self._ask(
                audience,
                sql,
                {**values, **match},
                lambda row, of=audience: (-row[0], *row[1:], of),  # type: ignore[misc]
            )
        best = sorted(found)[:depth]
        chosen: dict[tuple[str, int], OrgMatch] = {}
        for audience in {one[-1] for one in best}:  # texts are read of the best of all files only
            scores = {row: -score for score, *_, row, of in best if of == audience}
            bound = {"rows": json.dumps(list(scores))}
            matches = self._ask(audience, CHOSEN, bound, partial(_match, audience, scores))
            chosen |= {(audience, row): match for row, match in matches}
        return [chosen[audience, row] for *_, row, audience in best if (audience, row) in chosen]

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        total, holding = 0, dict.fromkeys(terms, 0)
        for audience in self._readable(audiences):
            total += self._ask(
                audience, "SELECT count(*) FROM entries", (), lambda row: int(row[0])
            )[0]
            for term in holding:
                holding[term] += self._ask(
                    audience, HOLDING, (quote(term),), lambda row: int(row[0])
                )[0]
        return total, holding

    def _read_heads(self) -> Iterator[OrgHead]:
        for audience in self.list_audiences():
            for id_, name, link, head, entries in self._ask(audience, HEADS, (), tuple):
                yield OrgHead(OrgRepository(id_, name, link, audience), head, entries)

    def _read_entries(self, repository: OrgRepository) -> list[Located]:
        between = (f"{repository.id}\n", f"{repository.id}{END}")
        return self._ask(repository.audience, ENTRIES, between, _located)

    def list_audiences(self) -> tuple[str, ...]:
        """Those that there are files of."""
        places = (self._directory, *([self._work] if self._is_writer else []))
        names = {path.stem for place in places for path in place.glob("*.db")}
        return tuple(sorted(name for name in names if re.fullmatch(AUDIENCE, name)))

    def publish(self) -> list[OrgPublished]:
        """As in OrgEngine. An audience without repositories has no file. Raises RepositoryError (write-failed)."""
        published = []
        for audience in self.list_audiences():
            target = self._directory / f"{audience}.db"
            try:
                if any(head.repository.audience == audience for head in self.heads().values()):
                    published.append(self._publish(audience, target))
                else:
                    target.unlink(missing_ok=True)
            except (OSError, sqlite3.OperationalError) as error:
                message = f"cannot write {target}: {error}"
                raise RepositoryError(
                    message, slug="write-failed", hint="What was published before stays."
                ) from error
        return published

    def size(self, audience: str) -> int:
        path = self._directory / f"{audience}.db"
        return path.stat().st_size if path.is_file() else 0

    def state(self) -> bytes:
        with suppress(OSError):
            return (self._work / STATE).read_bytes()
        return b""

    def keep_state(self, data: bytes) -> None:
        path, new = self._work / STATE, self._work / f"{STATE}.new"
        try:
            new.write_bytes(data)
            new.replace(path)
        except OSError as error:
            message = f"cannot write {path}: {error}"
            raise RepositoryError(
                message, slug="write-failed", hint="The index itself is written."
            ) from error

    def close(self) -> None:
        for audience, connection in self._open.items():
            connection.close()
            if self._is_writer and self._is_sound:
                seal(self._work / f"{audience}.db")
        self._open.clear()

    def _publish(self, audience: str, target: Path) -> OrgPublished:
        """Copy what changed since it was last published; the words of what was deleted are not in the copy."""
        connection, mark = self._connection(audience), self._work / f"{audience}.published"
        # What the rows of an audience follow from: repositories and their heads.
        rows = (repr(row).encode("utf-8", "surrogateescape") for row in connection.execute(HEADS))
        content = hashlib.sha256(b"".join([json.dumps(ORG_IDENTITY).encode(), *rows])).hexdigest()
        with suppress(OSError, ValueError, KeyError):
            said = json.loads(mark.read_bytes())
            if said["content"] == content and target.stat().st_size == said["size"]:
                return OrgPublished(
                    audience, str(target), said["sha256"], said["size"], is_new=False
                )
        if connection.execute("PRAGMA user_version").fetchone()[0]:
            with transaction(connection):
                connection.execute("INSERT INTO entries_fts (entries_fts) VALUES ('optimize')")
                connection.execute("PRAGMA user_version = 0")
        temporary = self._work / f"{audience}.new"
        temporary.unlink(missing_ok=True)
        connection.execute("VACUUM INTO ?", (str(temporary),))
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = temporary.stat().st_size
        temporary.chmod(0o444)
        temporary.replace(target)
        mark.write_text(json.dumps({"content": content, "sha256": sha256, "size": size}), "utf-8")
        return OrgPublished(audience, str(target), sha256, size, is_new=True)

    def _readable(self, audiences: Sequence[str]) -> list[str]:
        there = self.list_audiences()
        return [audience for audience in dict.fromkeys(audiences) if audience in there]

    def _filter(self, audience: str, filters: OrgFilters) -> tuple[str, dict[str, object]]:
        wanted: Filters = {
            "types": filters.types or None,
            "domains": filters.domains or None,
            "phases": filters.phases or None,
            "statuses": SHOWN_STATUSES,
            "today": filters.today,
        }
        condition, values = build_filter(wanted)
        named = self._ask(
            audience, NAMED, {"names": json.dumps(filters.without)}, lambda row: str(row[0])
        )
        for number, repository_id in enumerate(named):
            condition += f" AND NOT (e.path >= :from{number} AND e.path < :to{number})"
            values |= {
                f"from{number}": f"{repository_id}\n",
                f"to{number}": f"{repository_id}{END}",
            }
        return condition, values

    def _ask(self, audience: str, sql: str, values: Values, make: Callable[[Row], T]) -> list[T]:
        with self._telling(audience) as connection:
            return [make(row) for row in connection.execute(sql, values)]

    @contextmanager
    def _telling(self, audience: str) -> Iterator[sqlite3.Connection]:
        """The file of an audience. Raises TimeoutError at the deadline, EngineError (org-damaged) for what is wrong."""
        try:
            yield self._connection(audience)
        except (sqlite3.DatabaseError, OSError, ValueError, TypeError) as damage:
            if getattr(damage, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise TimeoutError from damage
            self._is_sound = False
            path = (self._work if self._is_writer else self._directory) / f"{audience}.db"
            hint = (
                "Run `memory-ci org sync` again: it builds what is missing from the repositories."
            )
            raise EngineError(
                f"{path} cannot be used: {damage}", slug="org-damaged", hint=hint
            ) from damage

    def _connection(self, audience: str) -> sqlite3.Connection:
        if audience not in self._open:
            path = self._directory / f"{audience}.db"
            self._open[audience] = (
                open_work(self._work / path.name, path)
                if self._is_writer
                else self._read_only(path)
            )
        return self._open[audience]

    def _read_only(self, path: Path) -> sqlite3.Connection:
        refuse_pipes(path)
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None
        )
        connection.execute("PRAGMA trusted_schema = OFF")
        if (end := self._deadline) is not None:
            connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        check(connection)
        return connection


def _put(connection: sqlite3.Connection, repository_id: str, entries: Sequence[Located]) -> None:
    """Make the rows of a repository these; what it had already keeps its row, and its words are not indexed anew."""
    before = connection.execute(ROWS, (f"{repository_id}\n", f"{repository_id}{END}")).fetchall()
    rows = [
        entry_row(replace(place, path=f"{repository_id}\n{place.path}"), None) for place in entries
    ]
    digests = list(map(entry_digest, rows))
    new = keep_rows(connection, before, digests)
    if len(before) > len(rows) - len(new):
        connection.execute(
            "PRAGMA user_version = 1"
        )  # words of what was deleted are there until they are merged
    (last,) = connection.execute("SELECT coalesce(max(row), 0) FROM entries").fetchone()
    connection.executemany(ADD_ENTRY, ((*rows[at], digests[at][1]) for at in new))
    connection.executemany(ADD_TEXT, map(text_row, count(last + 1), (entries[at] for at in new)))


def _match(audience: str, scores: Mapping[int, float], row: Row) -> tuple[int, OrgMatch]:
    number, *columns, repository_id, name, link, head = row
    repository = OrgRepository(repository_id, f"{name}", f"{link}", audience)
    return number, OrgMatch(_located(tuple(columns)), scores[number], repository, head)


def _located(row: Row) -> Located:
    place = located_of(row)
    if not all(
        isinstance(text, str) for text in (place.entry.id, place.entry.title, place.entry.body)
    ):
        raise TypeError("what should be text is none")
    return replace(place, path=place.path.partition("\n")[2])


ORG_IDENTITY = {**IDENTITY, "org": "1"}
BUSY_SECONDS = 5.0

REPOSITORIES = """
CREATE TABLE repositories (
    id      TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    link    TEXT NOT NULL,
    head    TEXT NOT NULL,
    entries INTEGER NOT NULL
) WITHOUT ROWID
"""


def open_work(path: Path, published: Path) -> sqlite3.Connection:
    """The file that a sync works on, proved unless it is as we left it. Where there is none, or a damaged one, it goes
    on from what was published, and begins anew where that is no better."""
    refuse_pipes(path)
    for is_restored in (False, True):
        try:
            if is_restored:
                shutil.copyfile(published, path)
                path.chmod(0o644)
            if not published.exists() or (path.exists() and path.stat().st_size):
                return _open(path)
        except FileNotFoundError:
            pass
        except sqlite3.DatabaseError as error:
            if is_fault_of_the_place(error):  # and not of the file
                raise
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    return _open(path)


def _open(path: Path) -> sqlite3.Connection:
    is_known = is_sealed(path)
    seal_path(path).unlink(missing_ok=True)
    connection = connect(path, BUSY_SECONDS)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with transaction(connection):
                create(connection)
                connection.execute(REPOSITORIES)
                connection.execute("INSERT INTO meta VALUES ('org', ?)", (ORG_IDENTITY["org"],))
        check(connection)
        if not is_known:
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("pages are damaged")
            connection.execute("INSERT INTO entries_fts (entries_fts) VALUES ('integrity-check')")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def check(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError for a file of another version."""
    if dict(connection.execute("SELECT key, value FROM meta")) != ORG_IDENTITY:
        raise sqlite3.DatabaseError("it is of another version")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that the block does, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
