"""Prove that an index file holds what the tree says: compare it with an index that was built from the tree just now."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from memory_ci.index.database import Index, check_identity, check_schema, connect
from memory_ci.index.rows import Row
from memory_ci.index.trust import LIST_FILES, entries_by_path, feedback_by_path, prove
from memory_ci.records.report import Finding

REMEDY = "Delete the file, or run `memory-ci index`."


def verify(path: Path, fresh: Index) -> list[Finding]:
    """What in the file at `path` is not as in `fresh`, in order of paths; the file itself is only read.

    Every column of every row is compared, and every word of the lexical lane with its text.
    """
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
            yield _finding(path, _first_other(others.get(path, []), rows.get(path, [])), "entries differ from the file")
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
