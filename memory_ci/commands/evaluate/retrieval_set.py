"""Sets of entries and queries with known answers, by which retrieval is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from memory_ci.commands.evaluate.json_lines import DEFAULT_TIME, load_lines
from memory_ci.commands.evaluate.records import JudgedQuery
from memory_ci.extraction.entries import make_sample_entry
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index

JSON_LINES_HINT = "Give one JSON object a line: `memory-ci help evaluation`."


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
    ts: datetime = DEFAULT_TIME
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
        tuple(load_lines(entries, SetEntry, "bad-queries", JSON_LINES_HINT)),
        tuple(load_lines(queries, SetQuery, "bad-queries", JSON_LINES_HINT)),
        tuple(load_lines(judgements, RelevanceJudgement, "bad-queries", JSON_LINES_HINT)),
    )


def replay_set(retrieval_set: RetrievalSet) -> Iterator[tuple[Index, JudgedQuery]]:
    """Yield each query that has an answer, with an index of the entries learned before it.

    A group of entries and queries is a memory of its own. The queries of each group come in the
    order of time. Before each, the entries that were learned since the last one are added to the
    index, as a memory file of their own. So an index must be used before the next query is drawn.
    """
    grades_by_query: dict[str, dict[str, float]] = defaultdict(dict)
    for judgement in retrieval_set.judgements:
        if judgement.relevance > 0:
            grades_by_query[judgement.query][judgement.entry] = judgement.relevance

    for group in sorted({query.group for query in retrieval_set.queries}):
        queries = [
            query
            for query in retrieval_set.queries
            if query.group == group and query.id in grades_by_query
        ]
        queries.sort(key=_query_time)
        unlearned_entries = [entry for entry in retrieval_set.entries if entry.group == group]
        unlearned_entries.sort(key=lambda entry: _as_utc(entry.ts), reverse=True)  # oldest last
        files: dict[str, LoadedFile] = {}
        with open_index(None) as index:
            for query in queries:
                new_path = f"{len(files):06}.md"
                new_file = _move_learned_to_file(unlearned_entries, query, new_path)
                if new_file.entries:
                    files[new_path] = new_file
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


def _move_learned_to_file(entries: list[SetEntry], query: SetQuery, path: str) -> LoadedFile:
    """Move the entries that were learned before a query from a list into a new memory file.

    Args:
        entries: the entries that are in no file yet, the oldest last. Those that were learned
            before the query are removed from the end of this list.
        query: the query; without a time, all entries were learned before it.
        path: the path of the memory file.
    """
    learned_entries: list[Located] = []
    while entries:
        oldest = entries[-1]
        if query.ts is not None and _as_utc(oldest.ts) >= _query_time(query):
            break
        entries.pop()
        line = len(learned_entries) + 1
        learned_entries.append(Located(_make_memory_entry(oldest), path, line, PROJECT))
    return LoadedFile(path=path, scope=PROJECT, entries=tuple(learned_entries))


def _sync_files(index: Index, files: Mapping[str, LoadedFile]) -> None:
    oids = dict.fromkeys(files, "learned")
    sync(index, oids, lambda paths: [files[path] for path in sorted(paths)])


def _make_memory_entry(set_entry: SetEntry) -> Entry:
    """Return an entry of memory with the values of an entry of the set, and defaults otherwise."""
    title, _, body = set_entry.text.partition("\n")
    default_entry = make_sample_entry(0, title)
    return replace(
        default_entry,
        id=set_entry.id,
        last_reinforced=_as_utc(set_entry.ts).date(),
        session=None if set_entry.session is None else str(set_entry.session),
        body=body,
    )


def _query_time(query: SetQuery) -> datetime:
    return _as_utc(query.ts or DEFAULT_TIME)


def _as_utc(time: datetime) -> datetime:
    """Return a time in UTC; one without a zone is taken for UTC."""
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:  # The time is in the first or the last hours of the calendar.
        return time.replace(tzinfo=UTC)
