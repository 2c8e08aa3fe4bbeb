"""Evaluate retrieval: queries with known answers, asked of the very code that `retrieve` runs; and a gate on them."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.evaluate import retrieval_metrics as metrics
from memory_ci.commands.evaluate.evaluate import WHEN, load_lines
from memory_ci.commands.evaluate.records import (
    Answered,
    Asking,
    Comparison,
    Fall,
    Golden,
    Measure,
    Quality,
)
from memory_ci.commands.retrieve.options import RetrieveOptions, make_sound
from memory_ci.commands.retrieve.ranking import arrange, find_ranked
from memory_ci.commands.retrieve.text import context_cost, entry_cost, render_context
from memory_ci.errors import UsageError
from memory_ci.extraction.entries import sample_entry
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.memory.index import synced_index
from memory_ci.memory.past_index import Past
from memory_ci.memory.workspace import Workspace, load_memory, work_tree
from memory_ci.records.config import Config, GlobalConfig
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.report import LoadedFile
from memory_ci.records.retrieval import Retrieval
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.embedders import (
    Embedder,
    EmbedderChoice,
    Vectors,
    choose_embedder,
    require_embedder,
)
from memory_ci.search.embedders.remote import UNHURRIED
from memory_ci.search.rank import fit
from memory_ci.search.strength import drop_weak
from memory_ci.search.vectors import missing, store
from memory_ci.store.files import write_file

ONE_A_LINE = "Give one JSON object a line: `memory-ci help ranking`, evaluation."
SESSION = 10  # so many tasks, one after the other, are taken for a session: what comes twice among them is a repeat
GOLDEN_DIR = ".memory/eval"
DERIVED = "derived.jsonl"
Timer = Callable[[], float]  # seconds from any start
MEASURES: dict[str, Callable[[Answered], float]] = {
    "recall@5": lambda one: metrics.recall(one.ranking, one.asking.grades, 5),
    "recall@10": lambda one: metrics.recall(one.ranking, one.asking.grades, 10),
    "nDCG@10": lambda one: metrics.ndcg(one.ranking, one.asking.grades, 10),
    "MRR@10": lambda one: metrics.reciprocal_rank(one.ranking, one.asking.grades, 10),
    "zero results": lambda one: float(not one.ranking),
    "entries given": lambda one: float(len(one.given)),
    "characters given": lambda one: float(one.characters),
    "recall at given": lambda one: metrics.recall(one.given, one.asking.grades, len(one.given)),
}
"""What is averaged over the queries that have a relevant entry."""


class SetEntry(msgspec.Struct, frozen=True):
    """A line of entries. The first line of `text` is the title. `group` is the namespace, `ts` when it was learned.
    Without a time all is of one day."""

    id: str
    text: str
    group: str = ""
    ts: datetime = WHEN
    session: str | int | None = None


class SetQuery(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    """A line of queries, answered from what its group had learned before `ts`."""

    id: str
    text: str
    group: str = ""
    ts: datetime | None = None
    kind: str = ""


class RelevanceJudgement(msgspec.Struct, frozen=True):
    """A line of judgements; a relevance of 0 or less says nothing."""

    query: str
    entry: str
    relevance: Annotated[float, msgspec.Meta(le=100)] = 1.0


class RetrievalSet(msgspec.Struct, frozen=True):
    """Entries and queries with known answers."""

    entries: tuple[SetEntry, ...]
    queries: tuple[SetQuery, ...]
    judgements: tuple[RelevanceJudgement, ...]


def load_set(entries: Path, queries: Path, judgements: Path) -> RetrievalSet:
    """The set of three files of JSON lines. Raises UsageError (bad-queries) with the line."""
    return RetrievalSet(
        tuple(load_lines(entries, SetEntry, "bad-queries", ONE_A_LINE)),
        tuple(load_lines(queries, SetQuery, "bad-queries", ONE_A_LINE)),
        tuple(load_lines(judgements, RelevanceJudgement, "bad-queries", ONE_A_LINE)),
    )


def replay(of: RetrievalSet) -> Iterator[tuple[Index, Asking]]:
    """Each query that has an answer, in order of group and time, with the index of what its group knew before."""
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for judgement in of.judgements:
        if judgement.relevance > 0:
            grades[judgement.query][judgement.entry] = judgement.relevance
    files: dict[str, LoadedFile] = {}
    for group in sorted({query.group for query in of.queries}):
        files.clear()
        queries = sorted(
            (one for one in of.queries if one.group == group and one.id in grades), key=_asked_at
        )
        entries = (entry for entry in of.entries if entry.group == group)
        waiting = sorted(entries, key=lambda entry: _aware(entry.ts), reverse=True)
        with open_index(None) as index:
            for query in queries:
                path, fresh = f"{len(files):06}.md", list[Located]()
                while waiting and (query.ts is None or _aware(waiting[-1].ts) < _asked_at(query)):
                    fresh.append(Located(_entry(waiting.pop()), path, len(fresh) + 1, PROJECT))
                if fresh:
                    files[path] = LoadedFile(path=path, scope=PROJECT, entries=tuple(fresh))
                    sync(
                        index,
                        dict.fromkeys(files, "learned"),
                        lambda paths: [files[path] for path in sorted(paths)],
                    )
                yield (
                    index,
                    Asking(
                        query.id,
                        query.text,
                        grades[query.id],
                        (),
                        query.kind,
                        _asked_at(query).date(),
                    ),
                )


def _entry(entry: SetEntry) -> Entry:
    title, _, body = entry.text.partition("\n")
    session = None if entry.session is None else str(entry.session)
    day = _aware(entry.ts).date()
    return replace(
        sample_entry(0, title), id=entry.id, last_reinforced=day, session=session, body=body
    )


def _asked_at(query: SetQuery) -> datetime:
    return _aware(query.ts or WHEN)


def _aware(moment: datetime) -> datetime:
    """The moment in UTC, which a time without a zone is taken for."""
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # the first or the last hours that a calendar has
        return moment.replace(tzinfo=UTC)


def answer_set(
    of: RetrievalSet, config: Config, clock: Timer, embedder: EmbedderChoice | None = None
) -> Iterator[Answered]:
    """Each query of a set, answered from what its group had learned by then; with an embedder, all of it embedded.

    Each is followed by one of another group, without a name, of which its memory should know nothing.
    Raises EngineError when that fails: half of the entries with vectors would judge nothing.
    """
    vectors: dict[bytes, array[float]] = {}
    dice = random.Random(len(of.queries))  # noqa: S311 - a choice that anyone can repeat, no secret
    group_of = {query.id: query.group for query in of.queries}
    texts: dict[str, list[str]] = defaultdict(list)
    for query in of.queries:
        texts[query.group].append(query.text)
    for index, asking in replay(of):
        if embedder and embedder.embedder:
            _embed_all(index, embedder.embedder, vectors)
        others = [group for group in texts if group != group_of[asking.name]]
        yield _answer(index, config, asking, clock, embedder)
        if others:
            unrelated = dice.choice(texts[dice.choice(others)])
            yield _answer(
                index, config, replace(asking, name="", text=unrelated, grades={}), clock, embedder
            )


def choose_for_all(config: Config, environ: Mapping[str, str]) -> EmbedderChoice:
    """The embedder that `retrieve` would have. Raises UsageError (no-embedder) where there is none."""
    require_embedder(config.retrieve, environ, UNHURRIED)
    return choose_embedder(config.retrieve, environ, UNHURRIED)


def _embed_all(index: Index, embedder: Embedder, known: dict[bytes, array[float]]) -> None:
    """Give every entry its vector; a text that stands in several indexes is embedded once."""
    lost = missing(index, embedder.model_id)
    if new := [name for name in lost if name not in known]:
        given = embedder.embed([lost[name] for name in new])
        known |= {
            name: given.data[at * given.dim : (at + 1) * given.dim] for at, name in enumerate(new)
        }
    if lost:
        data = array("f", [value for name in lost for value in known[name]])
        store(index, embedder.model_id, tuple(lost), Vectors(len(data) // len(lost), data))


def load_golden(workspace: Workspace) -> tuple[Golden, ...]:
    """The golden queries of a work tree, each with a name. Raises UsageError: no-golden-queries, bad-queries."""
    found = [
        golden if golden.name else replace(golden, name=f"{path.stem}:{number}")
        for path in sorted((work_tree(workspace) / GOLDEN_DIR).glob("*.jsonl"))
        for number, golden in enumerate(
            load_lines(path, Golden, "bad-queries", ONE_A_LINE), start=1
        )
    ]
    if not found:
        hint = "Derive some from the entries with `memory-ci eval init`, and mend them by hand."
        raise UsageError(
            f"there are no golden queries in {GOLDEN_DIR}/", slug="no-golden-queries", hint=hint
        )
    return tuple(found)


def answer_golden(
    workspace: Workspace, goldens: Sequence[Golden], today: date, clock: Timer
) -> tuple[Answered, ...]:
    """Golden queries, answered from the memory of the work tree; global memory is not the repository's."""
    own = replace(workspace, config=replace(workspace.config, global_=GlobalConfig(path="")))
    with synced_index(own) as index:
        return _answer_all(index, own.config, goldens, today, clock)


def compare_golden(
    workspace: Workspace,
    goldens: Sequence[Golden],
    answered: Sequence[Answered],
    rev: str,
    margin: float,
    clock: Timer,
) -> Comparison:
    """The same queries answered from the memory of `rev`, ranked as on the same day. Raises RepositoryError
    (unknown-revision); UsageError (no-golden-queries) if none of them has a relevant entry."""
    if not any(one.asking.grades for one in answered):
        hint = 'A query with a "relevant" entry is needed: only these can fall.'
        raise UsageError(
            "no golden query has a relevant entry", slug="no-golden-queries", hint=hint
        )
    with Past(workspace).index(resolve_commit(workspace.repo, rev)) as index:
        before = _answer_all(index, workspace.config, goldens, answered[0].asking.today, clock)
    score = MEASURES["nDCG@10"]
    pairs = [(old, new) for old, new in zip(before, answered, strict=True) if old.asking.grades]
    falls = [
        Fall(new.asking.name, score(old), score(new))
        for old, new in pairs
        if score(new) < score(old)
    ]
    return Comparison(
        rev=rev,
        margin=margin,
        before=measure(before)[0],
        now=measure(answered)[0],
        falls=tuple(sorted(falls, key=lambda fall: (fall.now - fall.before, fall.name))),
    )


def measure(answered: Sequence[Answered]) -> tuple[Quality, ...]:
    """How good the answers are: all together, then by kind where the queries have kinds."""
    kinds = sorted({one.asking.kind for one in answered} - {""})
    parts = [(kind, [one for one in answered if one.asking.kind == kind]) for kind in kinds]
    return (_measure("", answered), *(_measure(kind, part) for kind, part in parts))


def init_golden(workspace: Workspace) -> tuple[Path, int]:
    """Write queries derived from the entries of the work tree to `.memory/eval/derived.jsonl`; (the file, how many).
    Written anew each time: what people add belongs into a file of its own."""
    entries = [
        place.entry
        for place in load_memory(workspace, None).located
        if place.entry.status == "active"
    ]
    goldens = metrics.derive_golden(
        [entry for entry in entries if entry.title],
        lambda entry: [anchor.path for cite in entry.cites if (anchor := parse_anchor(cite))],
    )
    root = work_tree(workspace)
    path = root / GOLDEN_DIR / DERIVED
    write_file(path, b"".join(msgspec.json.encode(golden) + b"\n" for golden in goldens), root)
    return path, len(goldens)


def run_lines(answered: Iterable[Answered], *, explain: bool) -> Iterator[bytes]:
    """A run as JSON lines: query, ranking and verdict, and each hit's factors if they are asked for."""
    for one in (one for one in answered if one.asking.name):
        line = {"query": one.asking.name, "ranking": one.ranking, "verdict": one.verdict}
        yield (
            msgspec.json.encode(
                line | ({"factors": [dict(hit) for hit in one.factors]} if explain else {})
            )
            + b"\n"
        )


def _answer_all(
    index: Index, config: Config, goldens: Sequence[Golden], today: date, clock: Timer
) -> tuple[Answered, ...]:
    askings = [
        Asking(one.name, one.query, dict.fromkeys(one.relevant, 1.0), one.negative, one.kind, today)
        for one in goldens
    ]
    return tuple(_answer(index, config, asking, clock) for asking in askings)


def _answer(
    index: Index,
    config: Config,
    asking: Asking,
    clock: Timer,
    embedder: EmbedderChoice | None = None,
) -> Answered:
    options = RetrieveOptions()
    start = clock()
    asked = make_sound(options, config, asking.today)
    found = find_ranked(index, config, asking.text, asked, options, asking.today, embedder)
    hits, _ = arrange(found.hits, asked.limit)
    answer = Retrieval(task=asking.text, mode=found.mode)
    best = drop_weak(hits, is_near=found.margin >= 0, is_exempt=lambda _: False)
    given, _ = fit(
        best, asked.max_chars - context_cost(answer), entry_cost, config.retrieve.type_max_chars
    )
    seconds = clock() - start
    return Answered(
        asking,
        tuple(hit.located.entry.id for hit in hits),
        tuple(hit.factors for hit in hits),
        found.verdict,
        seconds,
        tuple(hit.located.entry.id for hit in given),
        len(render_context(replace(answer, hits=given))),
    )


def _measure(kind: str, answered: Sequence[Answered]) -> Quality:
    asked = [one for one in answered if one.asking.grades]
    guarded = [one for one in answered if one.asking.negative]
    empty = [one for one in answered if not one.asking.grades]
    measures = (
        [_mean(name, [of(one) for one in asked]) for name, of in MEASURES.items()] if asked else []
    )
    measures += _measure_given(asked, empty)
    stale = [metrics.has_any(one.ranking, one.asking.negative, 10) for one in guarded]
    times = [1000 * one.seconds for one in answered]
    return Quality(
        kind=kind,
        queries=len(asked),
        measures=(*measures, *([_mean("stale hits@10", stale)] if stale else [])),
        milliseconds=(metrics.percentile(times, 0.5), metrics.percentile(times, 0.95)),
        unanswerable=len(empty),
        false_hits=sum(one.verdict == "HIT" for one in empty),
    )


def _measure_given(asked: Sequence[Answered], unrelated: Sequence[Answered]) -> Iterator[Measure]:
    """Shares of what was given: relevant, kept of the first ten, repeated; and of unrelated tasks that got anything."""
    served = [one for one in asked if one.given]
    if served:
        hits = [len(one.asking.grades.keys() & set(one.given)) / len(one.given) for one in served]
        yield _mean("precision at given", hits)
        before = [
            {name for one in served[at - at % SESSION : at] for name in one.given}
            for at in range(len(served))
        ]
        repeats = [
            len(known & set(one.given)) / len(one.given)
            for known, one in zip(before, served, strict=True)
        ]
        yield _mean("repeats", repeats)
    found = metrics.mean([MEASURES["recall@10"](one) for one in asked])
    if found:
        yield _mean("kept", [MEASURES["recall at given"](one) / found for one in asked])
    if unrelated:
        yield _mean("unrelated answered", [float(bool(one.given)) for one in unrelated])


def _mean(name: str, values: Sequence[float]) -> Measure:
    dice = random.Random(len(values))  # noqa: S311 - a resample that anyone can repeat, no secret
    low, high = metrics.interval(values, lambda sample: dice.choices(sample, k=len(sample)))
    return Measure(name, metrics.mean(values), low, high)
