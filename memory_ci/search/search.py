"""Queries of the index: entries by words or by their fields, prose, findings and feedback."""

from __future__ import annotations

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
from memory_ci.search.rows import ENTRY_COLUMNS, Row, as_json_list, read_entry_row

if TYPE_CHECKING:
    from memory_ci.records.episode import Feedback

RANKED_SCOPES: tuple[ScopeName, ...] = tuple(
    name for name in get_args(ScopeName) if name != "institutional"
)
"""Institutional memory always applies: it is loaded whole and never ranked."""

SEARCHED_STATUSES: tuple[Status, ...] = tuple(
    status for status in get_args(Status) if status != "retired"
)
MAX_DEPTH = 10_000

COLUMN_WEIGHT = 4.0
"""FTS5 multiplies the count of a term by this. Its k1 is fixed at 1.2, so the effect is that of a
k1 of 0.3: in a text of few lines a word that occurs twice means little more than one that occurs
once (benchmarks/results/retrieval.md)."""

CITED_WEIGHT = 2.0
"""Of the words of cites: where an entry belongs means less than its text."""

BM25 = f"-bm25(entries_fts, {COLUMN_WEIGHT}, {COLUMN_WEIGHT}, {COLUMN_WEIGHT}, {CITED_WEIGHT})"


class Filters(TypedDict, total=False):
    """Conditions on entries; None and a missing key do not limit.

    Attributes:
        scopes: scopes of the entry.
        types: its types.
        domains: its domains.
        statuses: its statuses.
        phases: its phases.
        paths: the files that the work touches. A team entry then counts only if one of them is in
            its directory.
        session: the caller's own job. Entries of other sessions then do not count.
        all_sessions: whether they do nevertheless. If False and without an own job, those of no
            session count.
        occurred_between: first and last day; an entry without the day it occurred on does not
            count.
        today: the day on which an entry must be valid.
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
# Statements are put together of strings of this module; values are always bound. Bodies are read
# for the rows within the limit only.
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

MIN_TOTAL = 20
"""Texts that are assumed at least when the rarity of a word is computed: if both of two entries
have a word of the task, it should find each of them."""

FTS5_MIN_IDF = 1e-6
"""The idf of FTS5's bm25() for a word in more than half of the texts (ext/fts5/fts5_aux.c)."""

# Not from entries_fts, which would make the text of each of its rows.
COUNT_TEXTS = "SELECT count(*) FROM entries"
COUNT_TEXTS_WITH_TERM = "SELECT count(*) FROM entries_fts WHERE entries_fts MATCH ?"
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

LIST_IDS = "SELECT DISTINCT id FROM entries WHERE id IN (SELECT value FROM json_each(:ids))"

KINDS = frozenset(("confirmed", "corrected", "rejected", "undone", "ignored", "touched"))
"""Those of records.episode, which is not loaded where there is no feedback."""

# Each job is counted once, however often it is reported: a hundred entries ignored in three hundred
# files are one job.
FEEDBACK = """
WITH events AS MATERIALIZED (
    SELECT entry, kind, at, by, ref,
        CASE WHEN kind = 'ignored' THEN job END AS job
    FROM feedback WHERE entry IN (SELECT value FROM json_each(:ids))
), jobs AS MATERIALIZED (
    SELECT job, count(DISTINCT entry) AS entries FROM feedback
    WHERE kind = 'ignored' AND job IN (SELECT job FROM events WHERE job IS NOT NULL) GROUP BY job
)
SELECT entry, kind, at, by, ref, coalesce(jobs.entries, 1)
FROM events LEFT JOIN jobs ON jobs.job = events.job
"""

NO_FINDINGS = msgspec.msgpack.encode(())
"""The findings of a file without any, as almost all files are."""


def search(
    index: Index, terms: Sequence[str], *, depth: int = 200, **filters: Unpack[Filters]
) -> list[Match]:
    """Return the entries that have at least one of the terms, best first by BM25.

    In an index of few entries FTS5's BM25 gives a word in half of them no weight. Therefore each
    term is searched alone there, and its scores are corrected (`weigh_terms`).

    Args:
        index: the index.
        terms: any strings; a repeated term weighs more.
        depth: how many entries are returned at most, after filters.
        filters: conditions. By default neither retired entries nor institutional memory are
            searched.
    """
    if not terms:
        return []
    condition, values = build_filter(
        {"scopes": RANKED_SCOPES, "statuses": SEARCHED_STATUSES, **filters}
    )
    values["depth"] = max(1, min(depth, MAX_DEPTH))
    (total,) = index.read(COUNT_TEXTS, (), _read_count)
    if total < MIN_TOTAL:
        sql = SEARCH_SMALL
        values["terms"] = as_json_list(weigh_terms(index, terms, total))
    else:
        sql = SEARCH
        values["match"] = " OR ".join(quote_term(term) for term in terms)
    return index.read(sql.format(filter=condition), values, _read_match)


def weigh_terms(index: Index, terms: Sequence[str], total: int) -> list[tuple[str, float]]:
    """Return factors that correct the BM25 scores of terms in a memory of few texts.

    BM25 multiplies the score of a term by its idf, log((N - n + 0.5) / (n + 0.5)) for a term that
    n of N texts have (Robertson and Zaragoza 2009). FTS5 takes FTS5_MIN_IDF instead if that is not
    above zero. The factor replaces FTS5's idf by the idf of n of MIN_TOTAL texts. A repeated term
    counts each time; a term that no text has is left out.

    Args:
        index: the index.
        terms: the search terms.
        total: number of texts in the index.

    Returns:
        Each quoted term and its factor.
    """
    factors: list[tuple[str, float]] = []
    for term, repetition_count in Counter(terms).items():
        quoted_term = quote_term(term)
        (text_count,) = index.read(COUNT_TEXTS_WITH_TERM, (quoted_term,), _read_count)
        if text_count:
            fts5_idf = max(FTS5_MIN_IDF, _compute_idf(text_count, total))
            wanted_idf = _compute_idf(text_count, MIN_TOTAL)
            factors.append((quoted_term, repetition_count * wanted_idf / fts5_idf))
    return factors


def _compute_idf(text_count: int, total: int) -> float:
    """Return BM25's inverse document frequency; 0 for a term that half of the texts have."""
    if 2 * text_count >= total:
        return 0.0
    return math.log((total - text_count + 0.5) / (text_count + 0.5))


def list_entries(index: Index, **filters: Unpack[Filters]) -> list[Located]:
    """Return entries in order of path and line.

    Without filters all are returned, retired and institutional ones too.
    """
    condition, values = build_filter(filters)
    return index.read(LIST.format(filter=condition), values, read_entry_row)


def list_entries_naming_path(index: Index, path: str, **filters: Unpack[Filters]) -> list[Located]:
    """Return the entries that may cite a file: those with its path in their front matter.

    The column `front` has the front matter as MessagePack, in which strings are UTF-8: the path is
    searched for in its bytes, without decoding each row.

    Args:
        index: the index.
        path: the path of the file.
        filters: conditions on the entries, as for `search`.
    """
    condition, values = build_filter(filters)
    sql = LIST.format(filter=f"instr(e.front, :named) AND {condition}")
    return index.read(sql, {**values, "named": path.encode("utf-8", "replace")}, read_entry_row)


def build_filter(filters: Filters) -> tuple[str, dict[str, object]]:
    """Return filters as one SQL condition on `entries AS e`, and the values to bind to it."""
    conditions: list[str] = []
    values: dict[str, object] = {}
    for condition, condition_values in _list_conditions(filters):
        conditions.append(condition)
        values.update(condition_values)
    return " AND ".join(conditions) or "TRUE", values


def _list_conditions(filters: Filters) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each filter as an SQL condition, with the values to bind to it."""
    yield from _is_in("e.scope", filters.get("scopes"))
    yield from _is_in("e.type", filters.get("types"))
    yield from _is_in("e.domain", filters.get("domains"))
    yield from _is_in("e.status", filters.get("statuses"))
    yield from _is_in("e.phase", filters.get("phases"))
    paths = filters.get("paths")
    if paths is not None:
        for condition, values in _is_in("e.scope_where", _list_directories(paths)):
            yield f"(e.scope != 'team' OR {condition})", values
    session = filters.get("session")
    if not filters.get("all_sessions", session is None):
        yield "(e.scope != 'session' OR e.scope_where = :session)", {"session": session}
    occurred_between = filters.get("occurred_between")
    if occurred_between is not None:
        first, last = occurred_between
        days: dict[str, object] = {"first": first.isoformat(), "last": last.isoformat()}
        yield "e.occurred_at BETWEEN :first AND :last", days
    today = filters.get("today")
    if today is not None:
        yield "(e.valid_until IS NULL OR e.valid_until > :today)", {"today": today.isoformat()}


def _is_in(column: str, values: Iterable[str] | None) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the SQL condition that a column has one of these values; no condition for None.

    The values are bound as one JSON list, so that the statement is the same for any number.
    """
    if values is not None:
        parameter = column.removeprefix("e.")
        condition = f"{column} IN (SELECT value FROM json_each(:{parameter}))"  # noqa: S608
        yield condition, {parameter: as_json_list(values)}


def list_prose(index: Index, scope: ScopeName) -> list[Norm]:
    """Return the text between the entries of the files of a scope, in order of path and line.

    Each part of it is returned as a norm without an entry. A norm is a part of institutional
    memory, which is served whole.
    """
    rows = index.read(
        "SELECT path, prose FROM files WHERE scope = ? ORDER BY path",
        (scope,),
        _read_prose,
    )
    norms: list[Norm] = []
    for path, prose in rows:
        norms += [Norm(path, line, text) for line, text in prose]
    return norms


def list_findings(index: Index) -> list[Finding]:
    """Return the findings on all files when they were read, in order of path."""
    findings: list[Finding] = []
    for file_findings in index.read("SELECT findings FROM files ORDER BY path", (), _read_findings):
        findings += file_findings
    return findings


def list_feedback(index: Index, ids: Iterable[str]) -> list[tuple[Feedback, int]]:
    """Return the feedback on entries, in no order.

    Args:
        index: the index.
        ids: the ids of the entries.

    Returns:
        Each event of feedback with a count. If a job ignored the entry, the count is the number of
        entries that this job ignored, among which the feedback is shared. It is 1 for other
        feedback.
    """
    values = {"ids": as_json_list(sorted(set(ids)))}
    rows = index.read(FEEDBACK, values, _read_feedback)
    if not rows:
        return []
    # Not at the top: entries without feedback do not need it.
    from memory_ci.records.episode import Feedback

    return [
        (Feedback(id=entry_id, kind=kind, at=time, by=author, ref=ref), count)
        for entry_id, kind, time, author, ref, count in rows
    ]


def list_session_places(index: Index) -> list[tuple[str, str, int]]:
    """Return session, path and line of every entry that comes from a session, in that order."""
    sql = (
        "SELECT session, path, line FROM entries WHERE session IS NOT NULL "
        "ORDER BY session, path, line"
    )
    return index.read(sql, (), lambda row: (str(row[0]), str(row[1]), int(row[2])))


def list_existing_ids(index: Index, ids: Iterable[str]) -> frozenset[str]:
    """Return the ids among `ids` that an entry has, whatever its scope and status."""
    values = {"ids": as_json_list(sorted(set(ids)))}
    return frozenset(index.read(LIST_IDS, values, lambda row: str(row[0])))


def _read_prose(row: Row) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the path of a file and its prose by line."""
    path, prose = row
    return path, msgspec.msgpack.decode(prose, type=tuple[tuple[int, str], ...])


def _read_findings(row: Row) -> tuple[Finding, ...]:
    """Return the findings of a file."""
    (findings,) = row
    if findings == NO_FINDINGS:
        return ()
    return msgspec.msgpack.decode(findings, type=tuple[Finding, ...])


def _read_count(row: Row) -> int:
    return int(row[0])


def _read_match(row: Row) -> Match:
    return Match(read_entry_row(row[:-1]), row[-1])


def _read_feedback(row: Row) -> Row:
    """Return the values of Feedback and the count.

    Raises:
        ValueError: the row is damaged.
        TypeError: the row is damaged.
    """
    entry, kind, time, by, ref, count = row
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of feedback")
    return entry, kind, datetime.fromisoformat(time), by, ref, count


def _list_directories(paths: Sequence[str]) -> set[str]:
    """Return each of `paths` and every directory above it, the root ("") included."""
    directories = {""}
    for path in paths:
        # Nothing else than UTF-8 can be bound to a statement.
        legal_path = path.encode("utf-8", "replace").decode()
        directory = legal_path.removeprefix("./").strip("/")
        while directory and directory not in directories:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    return directories


def quote_term(term: str) -> str:
    """Return a term in the query language of FTS5: as a quoted phrase, without operators.

    A `*` at its end makes it a prefix search. A NUL would end the string and becomes a blank.
    """
    legal_term = term.replace("\0", " ").encode("utf-8", "replace").decode()
    phrase = legal_term.removesuffix("*").replace('"', '""')
    is_prefix = legal_term.endswith("*")
    return f'"{phrase}"*' if is_prefix else f'"{phrase}"'


def count_entries(index: Index) -> int:
    """Return the number of all entries, whatever their scope and status."""
    (count,) = index.read("SELECT count(*) FROM entries", (), _read_count)
    return count


def count_entries_with_term(index: Index, term: str) -> int:
    """Return how many of them have a term of `query.build_terms`, stemmed as in a search."""
    (count,) = index.read(COUNT_TEXTS_WITH_TERM, (quote_term(term),), _read_count)
    return count
