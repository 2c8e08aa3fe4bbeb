"""Sets of entries and queries with known answers, by which retrieval is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from memory_ci.commands.evaluate.json_lines import WHEN, load_lines
from memory_ci.commands.evaluate.records import JudgedQuery
from memory_ci.extraction.entries import make_sample_entry
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index

ONE_A_LINE = "Give one JSON object a line: `memory-ci help evaluation`."


class SetEntry(msgspec.Struct, frozen=True):
    """A line of entries.

    Attributes:
        text: the title in the first line, then the body.
        group: the memory that the entry belongs to.
        ts: when it was learned; entries without a time are of one day.
    """

    id: str
    text: str
    group: str = ""
    ts: datetime = WHEN
    session: str | int | None = None


class SetQuery(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    """A line of queries; it is answered from the entries that its group learned before `ts`."""

    id: str
    text: str
    group: str = ""
    ts: datetime | None = None
    kind: str = ""


class RelevanceJudgement(msgspec.Struct, frozen=True):
    """A line of judgements; one with a relevance of 0 or less does not count."""

    query: str
    entry: str
    relevance: Annotated[float, msgspec.Meta(le=100)] = 1.0


class RetrievalSet(msgspec.Struct, frozen=True):
    """Entries and queries with known answers."""

    entries: tuple[SetEntry, ...]
    queries: tuple[SetQuery, ...]
    judgements: tuple[RelevanceJudgement, ...]


def load_set(entries: Path, queries: Path, judgements: Path) -> RetrievalSet:
    """Load a set from three files of JSON lines.

    Raises:
        UsageError: bad-queries, with the number of the line.
    """
    return RetrievalSet(
        tuple(load_lines(entries, SetEntry, "bad-queries", ONE_A_LINE)),
        tuple(load_lines(queries, SetQuery, "bad-queries", ONE_A_LINE)),
        tuple(load_lines(judgements, RelevanceJudgement, "bad-queries", ONE_A_LINE)),
    )


def replay_set(data: RetrievalSet) -> Iterator[tuple[Index, JudgedQuery]]:
    """Yield each query that has an answer, with an index of the entries learned before it.

    A group is a memory of its own. The queries of each group come in the order of time, and its
    index grows from query to query: it is valid until the next query.
    """
    grades_by_query: dict[str, dict[str, float]] = defaultdict(dict)
    for judgement in data.judgements:
        if judgement.relevance > 0:
            grades_by_query[judgement.query][judgement.entry] = judgement.relevance

    for group in sorted({query.group for query in data.queries}):
        queries = [
            query for query in data.queries if query.group == group and query.id in grades_by_query
        ]
        queries.sort(key=_query_time)
        entries = [entry for entry in data.entries if entry.group == group]
        entries.sort(key=lambda entry: _as_utc(entry.ts), reverse=True)
        files: dict[str, LoadedFile] = {}
        with open_index(None) as index:
            for query in queries:
                file = _take_learned(entries, query, f"{len(files):06}.md")
                if file.entries:
                    files[file.path] = file
                    _sync_files(index, files)
                judged_query = JudgedQuery(
                    name=query.id,
                    text=query.text,
                    grades=grades_by_query[query.id],
                    negative=(),
                    kind=query.kind,
                    today=_query_time(query).date(),
                )
                yield index, judged_query


def _take_learned(entries: list[SetEntry], query: SetQuery, path: str) -> LoadedFile:
    """Remove the entries that were learned before a query from a list, and return them as a file.

    Args:
        entries: the entries that are in no file yet, the oldest last.
        query: the query; without a time, all entries were learned before it.
        path: the path of the memory file.
    """
    learned: list[Located] = []
    while entries:
        oldest = entries[-1]
        if query.ts is not None and _as_utc(oldest.ts) >= _query_time(query):
            break
        entries.pop()
        line = len(learned) + 1
        learned.append(Located(_make_entry(oldest), path, line, PROJECT))
    return LoadedFile(path=path, scope=PROJECT, entries=tuple(learned))


def _sync_files(index: Index, files: Mapping[str, LoadedFile]) -> None:
    oids = dict.fromkeys(files, "learned")
    sync(index, oids, lambda paths: [files[path] for path in sorted(paths)])


def _make_entry(entry: SetEntry) -> Entry:
    """Return the memory entry of a line of a set."""
    title, _, body = entry.text.partition("\n")
    return replace(
        make_sample_entry(0, title),
        id=entry.id,
        last_reinforced=_as_utc(entry.ts).date(),
        session=None if entry.session is None else str(entry.session),
        body=body,
    )


def _query_time(query: SetQuery) -> datetime:
    return _as_utc(query.ts or WHEN)


def _as_utc(time: datetime) -> datetime:
    """Return a time in UTC; one without a zone is taken for UTC."""
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:  # The time is in the first or the last hours of the calendar.
        return time.replace(tzinfo=UTC)
