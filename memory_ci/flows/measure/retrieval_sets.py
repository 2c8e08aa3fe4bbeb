"""Sets of queries with known answers: read from JSON lines, and asked one after the other as time goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from memory_ci.errors import UsageError
from memory_ci.files import read_regular
from memory_ci.index.build import open_index, sync
from memory_ci.index.database import Index
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.quality import Asking
from memory_ci.records.report import LoadedFile

T = TypeVar("T")

MAX_SET_BYTES = 200_000_000
TIMELESS = datetime(2026, 1, 1, tzinfo=UTC)
"""When everything is that carries no time."""


class SetEntry(msgspec.Struct, frozen=True):
    """A line of entries. The first line of `text` is the title. `group` is the namespace, `ts` when it was learned."""

    id: str
    text: str
    group: str = ""
    ts: datetime = TIMELESS


class SetQuery(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    """A line of queries, answered from what its group had learned before `ts`."""

    id: str
    text: str
    group: str = ""
    ts: datetime | None = None
    kind: str = ""


class Judgement(msgspec.Struct, frozen=True):
    """A line of judgements; a relevance of 0 or less says nothing."""

    query: str
    entry: str
    relevance: Annotated[float, msgspec.Meta(le=100)] = 1.0


class RetrievalSet(msgspec.Struct, frozen=True):
    """Entries and queries with known answers."""

    entries: tuple[SetEntry, ...]
    queries: tuple[SetQuery, ...]
    judgements: tuple[Judgement, ...]


def load_set(entries: Path, queries: Path, judgements: Path) -> RetrievalSet:
    """The set of three files of JSON lines. Raises UsageError (bad-queries) with the line."""
    return RetrievalSet(
        tuple(load_lines(entries, SetEntry)),
        tuple(load_lines(queries, SetQuery)),
        tuple(load_lines(judgements, Judgement)),
    )


def load_lines(path: Path, kind: type[T]) -> list[T]:
    """A record for each line that is not empty. Raises UsageError (bad-queries) with the line."""
    try:
        lines = read_regular(path, MAX_SET_BYTES).decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", slug="bad-queries") from error
    decode = msgspec.json.Decoder(kind).decode
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records += [decode(line)] if line.strip() else []
        except msgspec.MsgspecError as error:
            hint = "Give one JSON object a line: docs/ranking.md, evaluation."
            raise UsageError(f"{path}:{number}: {error}", slug="bad-queries", hint=hint) from error
    return records


def replay(of: RetrievalSet) -> Iterator[tuple[Index, Asking]]:
    """Each query that has an answer, in order of group and time, with the index of what its group knew before."""
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for judgement in of.judgements:
        if judgement.relevance > 0:
            grades[judgement.query][judgement.entry] = judgement.relevance
    for group in sorted({query.group for query in of.queries}):
        queries = [query for query in of.queries if query.group == group and query.id in grades]
        entries = [entry for entry in of.entries if entry.group == group]
        yield from _replay_group(entries, queries, grades)


def _replay_group(
    entries: Sequence[SetEntry], queries: Sequence[SetQuery], grades: Mapping[str, dict[str, float]]
) -> Iterator[tuple[Index, Asking]]:
    waiting = sorted(entries, key=lambda entry: _aware(entry.ts), reverse=True)
    files: dict[str, LoadedFile] = {}

    def load(paths: Collection[str]) -> list[LoadedFile]:
        return [files[path] for path in sorted(paths)]

    with open_index(None) as index:
        for query in sorted(queries, key=_asked_at):
            fresh = []
            while waiting and (query.ts is None or _aware(waiting[-1].ts) < _asked_at(query)):
                fresh.append(waiting.pop())
            if fresh:
                path = f"{len(files):06}.md"
                files[path] = _file(path, fresh)
                sync(index, dict.fromkeys(files, "learned"), load)
            today = _asked_at(query).date()
            yield index, Asking(query.id, query.text, grades[query.id], (), query.kind, today)


def _file(path: str, entries: Sequence[SetEntry]) -> LoadedFile:
    located = [Located(_entry(entry), path, line, PROJECT) for line, entry in enumerate(entries, start=1)]
    return LoadedFile(path=path, scope=PROJECT, entries=tuple(located))


def _entry(entry: SetEntry) -> Entry:
    title, _, body = entry.text.partition("\n")
    day: date = _aware(entry.ts).date()
    return Entry(
        id=entry.id,
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=0,
        last_reinforced=day,
        status="active",
        title=title,
        body=body,
    )


def _asked_at(query: SetQuery) -> datetime:
    return _aware(query.ts or TIMELESS)


def _aware(moment: datetime) -> datetime:
    """The moment in UTC, which a time without a zone is taken for."""
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # the first or the last hours that a calendar has
        return moment.replace(tzinfo=UTC)
