"""Ask the index: entries by words, entries by what they are, prose and findings; how common words are."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import msgspec

from memory_ci.records.entry import Domain, EntryType, Located, Phase, ScopeName, Status
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Match, Norm
from memory_ci.search.database import Index
from memory_ci.search.rows import ENTRY_COLUMNS, Row, located_of

if TYPE_CHECKING:
    from memory_ci.records.episode import Feedback

RANKED_SCOPES: tuple[ScopeName, ...] = tuple(
    name for name in get_args(ScopeName) if name != "institutional"
)
"""Institutional memory always holds: it is loaded whole and never ranked."""

SHOWN_STATUSES: tuple[Status, ...] = tuple(
    status for status in get_args(Status) if status != "retired"
)
MAX_DEPTH = 10_000

COLUMN_WEIGHT = 4.0
"""FTS5 multiplies the count of a term by this; its k1 is fixed at 1.2, so this is as good as a k1 of 0.3: in a text of
few lines a word that comes twice says little more than one that comes once (docs/ranking.md)."""

CITED_WEIGHT = (
    2.0  # Of the words of what is cited: where an entry belongs says less than what it says.
)
BM25 = f"-bm25(entries_fts, {COLUMN_WEIGHT}, {COLUMN_WEIGHT}, {COLUMN_WEIGHT}, {CITED_WEIGHT})"


class Filters(TypedDict, total=False):
    """Which entries may answer; what is None or not said does not limit.

    `paths`: what the work touches. A team entry then counts only if one of them is in the entry's directory.
    `session`: the caller's own job. Entries of other sessions then do not count, unless `all_sessions`; where that is
    said to be False and there is no own job, those of no session do.
    `occurred_between`: first and last day; an entry that says nothing of when it occurred is not between them.
    `today`: what is no longer valid on that day does not count.
    """

    scopes: Sequence[ScopeName] | None
    types: Sequence[EntryType] | None
    domains: Sequence[Domain] | None
    statuses: Sequence[Status] | None
    phases: Sequence[Phase] | None
    paths: Sequence[str] | None
    session: str | None
    all_sessions: bool
    occurred_between: tuple[date, date] | None
    today: date | None


COLUMNS = ", ".join(f"e.{column}" for column in ENTRY_COLUMNS.split(", "))
# Strings of this module put together, values always bound. Bodies are read for the rows within the limit only.
LIST = f"SELECT {COLUMNS} FROM entries AS e WHERE {{filter}} ORDER BY e.path, e.line"  # noqa: S608
SEARCH = f"""
WITH best AS (
    SELECT e.row, e.id, {BM25} AS lexical
    FROM entries_fts JOIN entries AS e ON e.row = entries_fts.rowid
    WHERE entries_fts MATCH :match AND {{filter}}
    ORDER BY lexical DESC, e.id, e.path, e.line
    LIMIT :depth
)
SELECT {COLUMNS}, best.lexical FROM best JOIN entries AS e ON e.row = best.row
ORDER BY best.lexical DESC, e.id, e.path, e.line
"""  # noqa: S608

LEAST_TOTAL = 20
"""Texts that a memory counts as having at least, where it is reckoned how rare a word is: of two entries that both hold
a word of the task, each should be found by it."""

LEAST_IDF = 1e-6
"""What FTS5's bm25() gives a word that more than half of the texts hold (ext/fts5/fts5_aux.c)."""

COUNT_TEXTS = "SELECT count(*) FROM entries_fts"
COUNT_HOLDING = "SELECT count(*) FROM entries_fts WHERE entries_fts MATCH ?"
SEARCH_SMALL = f"""
WITH weighed AS (SELECT value ->> 0 AS term, value ->> 1 AS weight FROM json_each(:terms)),
scored AS MATERIALIZED (
    SELECT entries_fts.rowid AS row, {BM25} * weighed.weight AS lexical
    FROM weighed JOIN entries_fts ON entries_fts MATCH weighed.term
),
best AS (
    SELECT e.row, e.id, sum(scored.lexical) AS lexical
    FROM scored JOIN entries AS e ON e.row = scored.row
    WHERE {{filter}}
    GROUP BY e.row
    ORDER BY lexical DESC, e.id, e.path, e.line
    LIMIT :depth
)
SELECT {COLUMNS}, best.lexical FROM best JOIN entries AS e ON e.row = best.row
ORDER BY best.lexical DESC, e.id, e.path, e.line
"""  # noqa: S608

HELD = "SELECT DISTINCT id FROM entries WHERE id IN (SELECT value FROM json_each(:ids))"

KINDS = frozenset(("confirmed", "corrected", "rejected", "undone", "ignored", "touched"))
"""Those of records.episode, which is not loaded where nothing was said."""

# Each job is counted once, however often it is told: a hundred entries ignored in three hundred files are one job.
FEEDBACK = """
WITH told AS MATERIALIZED (
    SELECT entry, kind, at, by, ref, CASE WHEN kind = 'ignored' AND :with_ignored THEN job END AS job
    FROM feedback WHERE entry IN (SELECT value FROM json_each(:ids))
), jobs AS MATERIALIZED (
    SELECT job, count(DISTINCT entry) AS entries FROM feedback
    WHERE kind = 'ignored' AND job IN (SELECT job FROM told WHERE job IS NOT NULL) GROUP BY job
)
SELECT entry, kind, at, by, ref, coalesce(jobs.entries, 1) FROM told LEFT JOIN jobs ON jobs.job = told.job
"""

unpack_prose = msgspec.msgpack.Decoder(tuple[tuple[int, str], ...]).decode
unpack_findings = msgspec.msgpack.Decoder(tuple[Finding, ...]).decode


def search(
    index: Index, terms: Sequence[str], *, depth: int = 200, **filters: Unpack[Filters]
) -> list[Match]:
    """Entries that hold at least one of `terms`, best first: any strings are legal, and a repeated term counts more. At
    most `depth` of them, filtered before they are counted; retired entries and institutional memory only on demand."""
    if not terms:
        return []
    shown: Filters = {"scopes": RANKED_SCOPES, "statuses": SHOWN_STATUSES}
    condition, values = build_filter({**shown, **filters})
    values["depth"] = max(1, min(depth, MAX_DEPTH))
    total = index.read(COUNT_TEXTS, (), lambda row: int(row[0]))[0]
    if total < LEAST_TOTAL:
        sql = SEARCH_SMALL
        values["terms"] = json.dumps(weigh_terms(index, terms, total))
    else:
        sql = SEARCH
        values["match"] = " OR ".join(map(quote, terms))
    return index.read(
        sql.format(filter=condition), values, lambda row: Match(located_of(row[:-1]), row[-1])
    )


def weigh_terms(index: Index, terms: Sequence[str], total: int) -> list[tuple[str, float]]:
    """Return each quoted term with what its BM25 score is multiplied by in a memory of fewer than LEAST_TOTAL texts.

    BM25 weighs a term that n of N texts hold by log((N - n + 0.5) / (n + 0.5)) (Robertson and Zaragoza 2009), and
    FTS5 by LEAST_IDF where that is not above zero. The factor takes this weight out and puts in that of the same n in
    LEAST_TOTAL texts. A repeated term counts each time; one that no text holds is left out.
    """
    weighed = []
    for term, times in Counter(terms).items():
        quoted = quote(term)
        (holding,) = index.read(COUNT_HOLDING, (quoted,), lambda row: int(row[0]))
        if holding:
            own = max(LEAST_IDF, _log_odds(holding, total))
            weighed.append((quoted, times * _log_odds(holding, LEAST_TOTAL) / own))
    return weighed


def _log_odds(holding: int, total: int) -> float:
    if 2 * holding >= total:
        return 0.0
    return math.log((total - holding + 0.5) / (holding + 0.5))


def list_entries(index: Index, **filters: Unpack[Filters]) -> list[Located]:
    """Entries in order of path and line; without filters all of them, retired and institutional ones too."""
    condition, values = build_filter(filters)
    return index.read(LIST.format(filter=condition), values, located_of)


def list_naming(index: Index, path: str, **filters: Unpack[Filters]) -> list[Located]:
    """Entries that hold a file's path in their front matter (MessagePack, its strings UTF-8): all that can cite it."""
    condition, values = build_filter(filters)
    sql = LIST.format(filter=f"instr(e.front, :named) AND {condition}")
    return index.read(sql, {**values, "named": path.encode("utf-8", "replace")}, located_of)


def build_filter(filters: Filters) -> tuple[str, dict[str, object]]:
    """An SQL condition on `entries AS e`, and the values to bind: what filters ask for, before any limit."""
    clauses = list(_clauses(filters))
    condition = " AND ".join(clause for clause, _ in clauses) or "TRUE"
    return condition, {name: value for _, values in clauses for name, value in values.items()}


def _clauses(filters: Filters) -> Iterator[tuple[str, dict[str, object]]]:
    yield from _is_in("e.scope", filters.get("scopes"))
    yield from _is_in("e.type", filters.get("types"))
    yield from _is_in("e.domain", filters.get("domains"))
    yield from _is_in("e.status", filters.get("statuses"))
    yield from _is_in("e.phase", filters.get("phases"))
    if (paths := filters.get("paths")) is not None:
        for clause, values in _is_in("e.scope_where", _directories(paths)):
            yield f"(e.scope != 'team' OR {clause})", values
    session = filters.get("session")
    if not filters.get("all_sessions", session is None):
        yield "(e.scope != 'session' OR e.scope_where = :session)", {"session": session}
    if (between := filters.get("occurred_between")) is not None:
        first, last = (day.isoformat() for day in between)
        yield "e.occurred_at BETWEEN :first AND :last", {"first": first, "last": last}
    if (today := filters.get("today")) is not None:
        yield "(e.valid_until IS NULL OR e.valid_until > :today)", {"today": today.isoformat()}


def _is_in(column: str, wanted: Iterable[str] | None) -> Iterator[tuple[str, dict[str, object]]]:
    if wanted is not None:
        name = column.removeprefix("e.")
        yield (
            f"{column} IN (SELECT value FROM json_each(:{name}))",  # noqa: S608
            {name: json.dumps(list(wanted))},
        )


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
    rows = index.read(
        "SELECT findings FROM files ORDER BY path", (), lambda row: unpack_findings(row[0])
    )
    return [finding for findings in rows for finding in findings]


def list_feedback(
    index: Index, ids: Iterable[str], *, with_ignored: bool
) -> list[tuple[Feedback, int]]:
    """What was said of entries, in no order; with `with_ignored` how many entries the same job ignored, else 1."""
    asked = {"ids": json.dumps(sorted(set(ids))), "with_ignored": with_ignored}
    rows = index.read(FEEDBACK, asked, _checked)
    if not rows:
        return []
    from memory_ci.records.episode import (
        Feedback,
    )  # nobody pays for it of whose entries nothing was said

    return [
        (Feedback(id=entry, kind=kind, at=at, by=by, ref=ref), count)
        for entry, kind, at, by, ref, count in rows
    ]


def list_session_places(index: Index) -> list[tuple[str, str, int]]:
    """(session, path, line) of every entry that comes from a session, in that order."""
    sql = "SELECT session, path, line FROM entries WHERE session IS NOT NULL ORDER BY session, path, line"
    return index.read(sql, (), lambda row: (str(row[0]), str(row[1]), int(row[2])))


def list_held(index: Index, ids: Iterable[str]) -> frozenset[str]:
    """Those of `ids` that an entry has, whatever its scope and status."""
    return frozenset(
        index.read(HELD, {"ids": json.dumps(sorted(set(ids)))}, lambda row: str(row[0]))
    )


def _checked(row: Row) -> Row:
    """The values of Feedback and the count. Raises ValueError or TypeError for a row that is damaged."""
    entry, kind, at, by, ref, count = row
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of feedback")
    return entry, kind, datetime.fromisoformat(at), by, ref, count


def _directories(paths: Sequence[str]) -> set[str]:
    """Every directory that one of `paths` is in or is, the root ("") included."""
    directories = {""}
    for path in paths:
        place = path.removeprefix("./").strip("/")
        while place and place not in directories:
            directories.add(place)
            place = place.rpartition("/")[0]
    return directories


def quote(term: str) -> str:
    """`term` as an FTS5 string: a phrase of whatever words it holds, never an operator but a last `*`, which makes it
    a prefix. NUL would end it."""
    legal = term.replace("\0", " ").encode("utf-8", "replace").decode()
    return '"' + legal.removesuffix("*").replace('"', '""') + '"' + "*" * legal.endswith("*")


def count_entries(index: Index) -> int:
    """All entries, whatever their scope and status."""
    (count,) = index.read("SELECT count(*) FROM entries", (), lambda row: int(row[0]))
    return count


def count_holding(index: Index, term: str) -> int:
    """How many of them hold a term of `query.build_terms`, stemmed and folded as in a search."""
    sql = "SELECT count(*) FROM entries_fts WHERE entries_fts MATCH ?"
    (count,) = index.read(sql, (quote(term),), lambda row: int(row[0]))
    return count
