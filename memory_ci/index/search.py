"""Ask the index: entries by words, entries by what they are, prose and findings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TypedDict, Unpack, get_args

import msgspec

from memory_ci.index.database import Index, Row
from memory_ci.records.entry import Entry, EntryType, Located, ScopeName, ScopeOf, Status
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Match, Norm

RANKED_SCOPES: tuple[ScopeName, ...] = tuple(name for name in get_args(ScopeName) if name != "institutional")
"""Institutional memory always holds: it is loaded whole and never ranked."""

SHOWN_STATUSES: tuple[Status, ...] = tuple(status for status in get_args(Status) if status != "retired")

MAX_DEPTH = 10_000


class Filters(TypedDict, total=False):
    """Which entries may answer; what is None or not said does not limit.

    `paths`: what the work touches. A team entry then counts only if one of them is in the entry's directory.
    """

    scopes: Sequence[ScopeName] | None
    types: Sequence[EntryType] | None
    statuses: Sequence[Status] | None
    paths: Sequence[str] | None


FILTER = """
    (:scopes IS NULL OR e.scope IN (SELECT value FROM json_each(:scopes)))
AND (:types IS NULL OR e.type IN (SELECT value FROM json_each(:types)))
AND (:statuses IS NULL OR e.status IN (SELECT value FROM json_each(:statuses)))
AND (:directories IS NULL OR e.scope != 'team' OR e.scope_where IN (SELECT value FROM json_each(:directories)))
"""
COLUMNS = "e.path, e.line, e.scope, e.scope_where, e.front, e.title, e.body"

# Strings of this module put together, values always bound. Bodies are read for the rows within the limit only.
LIST = f"SELECT {COLUMNS} FROM entries AS e WHERE {FILTER} ORDER BY e.path, e.line"  # noqa: S608
SEARCH = f"""
WITH best AS (
    SELECT e.row, e.id, -bm25(entries_fts) AS lexical
    FROM entries_fts JOIN entries AS e ON e.row = entries_fts.rowid
    WHERE entries_fts MATCH :match AND {FILTER}
    ORDER BY lexical DESC, e.id, e.path, e.line
    LIMIT :depth
)
SELECT {COLUMNS}, best.lexical FROM best JOIN entries AS e ON e.row = best.row
ORDER BY best.lexical DESC, e.id, e.path, e.line
"""  # noqa: S608

unpack_front = msgspec.msgpack.Decoder(Entry).decode
unpack_prose = msgspec.msgpack.Decoder(tuple[tuple[int, str], ...]).decode
unpack_findings = msgspec.msgpack.Decoder(tuple[Finding, ...]).decode


def search(index: Index, terms: Sequence[str], *, depth: int = 200, **filters: Unpack[Filters]) -> list[Match]:
    """Entries that hold at least one of `terms`, best first: any strings are legal, and a repeated term counts more.

    At most `depth` of them, filtered before they are counted; retired entries and institutional memory only on demand.
    """
    if not terms:
        return []
    shown: Filters = {"scopes": RANKED_SCOPES, "statuses": SHOWN_STATUSES}
    values = {
        **_values({**shown, **filters}),
        "match": " OR ".join(map(_quote, terms)),
        "depth": max(1, min(depth, MAX_DEPTH)),
    }
    return index.read(SEARCH, values, lambda row: Match(_located(row), row[-1]))


def list_entries(index: Index, **filters: Unpack[Filters]) -> list[Located]:
    """Entries in order of path and line; without filters all of them, retired and institutional ones too."""
    return index.read(LIST, _values(filters), _located)


def list_prose(index: Index, scope: ScopeName) -> list[Norm]:
    """What the files of `scope` say outside entries, in order of path and line."""
    rows = index.read(
        "SELECT path, prose FROM files WHERE scope = ? ORDER BY path",
        (scope,),
        lambda row: (row[0], unpack_prose(row[1])),
    )
    return [Norm(path, line, text) for path, prose in rows for line, text in prose]


def list_findings(index: Index) -> list[Finding]:
    """What was wrong in the files when they were read, in order of path."""
    rows = index.read("SELECT findings FROM files ORDER BY path", (), lambda row: unpack_findings(row[0]))
    return [finding for findings in rows for finding in findings]


def _located(row: Row) -> Located:
    path, line, scope, scope_where, front, title, body = row[:7]
    entry = msgspec.structs.replace(unpack_front(front), title=title, body=body)
    return Located(entry, path, line, ScopeOf(scope, scope_where))


def _values(filters: Filters) -> dict[str, object]:
    paths = filters.get("paths")
    lists: dict[str, Iterable[str] | None] = {
        "scopes": filters.get("scopes"),
        "types": filters.get("types"),
        "statuses": filters.get("statuses"),
        "directories": None if paths is None else _directories(paths),
    }
    return {name: None if value is None else json.dumps(list(value)) for name, value in lists.items()}


def _directories(paths: Sequence[str]) -> set[str]:
    """Every directory that one of `paths` is in or is, the root ("") included."""
    directories = {""}
    for path in paths:
        place = path.removeprefix("./").strip("/")
        while place and place not in directories:
            directories.add(place)
            place = place.rpartition("/")[0]
    return directories


def _quote(term: str) -> str:
    """`term` as an FTS5 string: a phrase of whatever words it holds, never an operator. NUL would end it."""
    legal = term.replace("\0", " ").encode("utf-8", "replace").decode()
    return '"' + legal.replace('"', '""') + '"'
