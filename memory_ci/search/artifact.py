"""The index as a file to hand on: the same bytes for the same memory; and one compared with the memory files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from memory_ci.errors import RepositoryError
from memory_ci.files import replacing
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import IndexStats
from memory_ci.search.builder import ADD_ENTRY, ADD_FEEDBACK, ADD_FILE
from memory_ci.search.database import (
    LIST_FEEDBACK,
    LIST_FILES,
    SCHEMA_VERSION,
    Index,
    check_identity,
    check_schema,
    connect,
    create,
    entries_by_path,
    feedback_by_path,
    prove,
)
from memory_ci.search.rows import ENTRY_COLUMNS, HASH_BYTES, Row

LIST_ENTRIES = f"SELECT {ENTRY_COLUMNS}, digest FROM entries ORDER BY path, line, id"  # noqa: S608 - a constant of ours


def write_artifact(index: Index, path: Path) -> None:
    """Write what `index` knows to `path`, rows in order of content, words in one segment, pages in order.

    The bytes are those of one version of SQLite (its number is in the header). They do not depend on time, place or
    the order of earlier updates. Cached vectors stay behind: they are not derived from the tree alone. A reader sees
    the old file or the new one. Raises RepositoryError (write-failed).
    """
    try:
        with replacing(path) as temporary:
            with closing(connect(temporary)) as target:
                _fill(target, index.connection)
            temporary.chmod(0o644)
    except (OSError, sqlite3.OperationalError) as error:
        raise RepositoryError(
            f"cannot write {path}: {error}", slug="write-failed", hint="Nothing was changed."
        ) from error


def _fill(target: sqlite3.Connection, source: sqlite3.Connection) -> None:
    target.execute(
        "PRAGMA journal_mode = OFF"
    )  # a file that nobody reads yet: after a crash it is left behind
    target.execute("BEGIN")
    create(target)
    target.executemany(ADD_FILE, source.execute(LIST_FILES))
    target.executemany(ADD_ENTRY, source.execute(LIST_ENTRIES))
    target.executemany(ADD_FEEDBACK, source.execute(LIST_FEEDBACK))
    target.execute("INSERT INTO entries_fts (entries_fts) VALUES ('rebuild')")
    target.execute("INSERT INTO entries_fts (entries_fts) VALUES ('optimize')")
    target.execute("COMMIT")
    target.execute("VACUUM")


REMEDY = "Delete the file, or run `memory-ci index`."


def verify(path: Path, fresh: Index) -> list[Finding]:
    """What in the file at `path` is not as in `fresh`, in order of paths; the file itself is only read. Every column of
    every row is compared, and every word of the lexical lane with its text."""
    try:
        with closing(_copy(path)) as found:
            check_identity(found)
            check_schema(found)
            differences = list(_differences(found, fresh.connection))
            if not differences:
                prove(found)
            return differences
    except sqlite3.DatabaseError as damage:
        return [_finding(str(path), 1, f"the index cannot be used: {damage}")]


def _copy(path: Path) -> sqlite3.Connection:
    """The database in memory, where checking may write. Raises sqlite3.DatabaseError, also where no file is."""
    copy = connect(":memory:")
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
        source.backup(copy)
    return copy


def _differences(found: sqlite3.Connection, fresh: sqlite3.Connection) -> Iterator[Finding]:
    ours, theirs = _files(fresh), _files(found)
    rows, others = entries_by_path(fresh), entries_by_path(found)
    said, claimed = feedback_by_path(fresh), feedback_by_path(found)
    for path in sorted(ours.keys() | theirs.keys() | others.keys() | claimed.keys()):
        if path not in ours:
            yield _finding(path, 1, "the index has a file that the tree does not have")
        elif path not in theirs:
            yield _finding(path, 1, "the index does not have this file")
        elif theirs[path][1] != ours[path][1]:
            yield _finding(path, 1, "the index has another version of this file")
        elif others.get(path, []) != rows.get(path, []):
            yield _finding(
                path,
                _first_other(others.get(path, []), rows.get(path, [])),
                "entries differ from the file",
            )
        elif claimed.get(path, []) != said.get(path, []):
            line = _first_other(claimed.get(path, []), said.get(path, []))
            yield _finding(path, line, "feedback differs from the file")
        elif theirs[path] != ours[path]:
            yield _finding(path, 1, "what the index knows of the file differs from it")


def _files(connection: sqlite3.Connection) -> Mapping[str, Row]:
    return {row[0]: row for row in connection.execute(LIST_FILES)}


def _first_other(found: list[Row], fresh: list[Row]) -> int:
    """The line of the first row that is not the same in both; it stands third in rows of entries and of feedback."""
    lines = [other[2] for one, other in zip(found, fresh, strict=False) if one != other]
    rest = [row[2] for row in fresh[len(found) :]]
    return next((line for line in [*lines, *rest] if isinstance(line, int)), 1)


def _finding(path: str, line: int, message: str) -> Finding:
    return Finding(path, line, "index-differs", message, REMEDY)


def count_index(index: Index) -> IndexStats:
    """The statistics of an open index."""
    connection = index.connection
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, entries_fts, row)"
    )
    terms, occurrences = connection.execute(
        "SELECT count(*), coalesce(sum(cnt), 0) FROM vocabulary"
    ).fetchone()
    return IndexStats(
        schema=SCHEMA_VERSION,
        sqlite=sqlite3.sqlite_version,
        size=_one(index, "PRAGMA page_count") * _one(index, "PRAGMA page_size"),
        files=_one(index, "SELECT count(*) FROM files"),
        entries=_one(index, "SELECT count(*) FROM entries"),
        feedback=_one(index, "SELECT count(*) FROM feedback"),
        scopes=_by(index, "scope"),
        types=_by(index, "type"),
        statuses=_by(index, "status"),
        terms=terms,
        occurrences=occurrences,
        vectors=dict(
            connection.execute(
                "SELECT model_id, length(hashes) / ? FROM vectors ORDER BY 1", (HASH_BYTES,)
            )
        ),
    )


def _one(index: Index, sql: str) -> int:
    return int(index.connection.execute(sql).fetchone()[0])


def _by(index: Index, column: str) -> dict[str, int]:
    return dict(
        index.connection.execute(f"SELECT {column}, count(*) FROM entries GROUP BY 1 ORDER BY 1")  # noqa: S608
    )
