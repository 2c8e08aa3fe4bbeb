"""Evaluation of retrieval: queries with known answers are asked of the code of `retrieve`."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.evaluate import retrieval_metrics as metrics
from memory_ci.commands.evaluate.json_lines import load_lines
from memory_ci.commands.evaluate.records import (
    Comparison,
    GoldenQuery,
    JudgedQuery,
    Measure,
    Quality,
    QueryAnswer,
    WorsenedQuery,
)
from memory_ci.commands.evaluate.retrieval_set import JSON_LINES_HINT, RetrievalSet, replay_set
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import order_hits, rank_task
from memory_ci.commands.retrieve.text import context_cost, entry_cost, render_context
from memory_ci.errors import UsageError
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.memory.index import synced_index
from memory_ci.memory.past_index import PastIndexes
from memory_ci.memory.workspace import Workspace, load_memory, work_tree
from memory_ci.records.config import Config, GlobalConfig
from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Retrieval
from memory_ci.search.database import Index
from memory_ci.search.embedders import (
    Embedder,
    EmbedderChoice,
    Vectors,
)
from memory_ci.search.rank import fit_hits
from memory_ci.search.strength import drop_weak
from memory_ci.search.vectors import list_missing_texts, store_vectors
from memory_ci.store.files import write_file

TASKS_PER_SESSION = (
    10  # Consecutive tasks that count as one session, in which an entry can be repeated.
)
GOLDEN_DIR = ".memory/eval"
DERIVED_FILE = "derived.jsonl"
Timer = Callable[[], float]  # Returns seconds from any start.


def answer_set(
    retrieval_set: RetrievalSet,
    config: Config,
    clock: Timer,
    embedder: EmbedderChoice | None = None,
) -> Iterator[QueryAnswer]:
    """Yield the answer to each query of a set, from the entries of its group at that time.

    A group of entries and queries is a memory of its own. After each answer comes the answer of the
    same memory to a query of another group, drawn at random, which it should not be able to answer.
    Such a query has the name "".

    Args:
        retrieval_set: the set.
        config: the configuration of `retrieve`.
        clock: the clock that times the queries.
        embedder: embeds all entries and queries, if there is one.

    Raises:
        EngineError: the embedder fails. A comparison in which half of the entries have vectors
            would measure nothing.
    """
    vectors: dict[bytes, array[float]] = {}
    generator = random.Random(len(retrieval_set.queries))  # noqa: S311 - a choice that anyone can repeat, no secret
    group_by_query = {query.id: query.group for query in retrieval_set.queries}
    texts_by_group: dict[str, list[str]] = defaultdict(list)
    for query in retrieval_set.queries:
        texts_by_group[query.group].append(query.text)

    for index, judged_query in replay_set(retrieval_set):
        if embedder is not None and embedder.embedder is not None:
            _embed_missing(index, embedder.embedder, vectors)
        yield _answer_query(index, config, judged_query, clock, embedder)

        own_group = group_by_query[judged_query.name]
        other_groups = [group for group in texts_by_group if group != own_group]
        if other_groups:
            other_group = generator.choice(other_groups)
            text = generator.choice(texts_by_group[other_group])
            unrelated_query = replace(judged_query, name="", text=text, grades={})
            yield _answer_query(index, config, unrelated_query, clock, embedder)


def _embed_missing(index: Index, embedder: Embedder, vectors: dict[bytes, array[float]]) -> None:
    """Store the vectors that the entries of an index lack.

    Args:
        index: the index.
        embedder: makes the vectors.
        vectors: all vectors so far, by the hash of their text, so that no text is embedded twice;
            new ones are added.
    """
    texts = list_missing_texts(index, embedder.model_id)
    if not texts:
        return
    new_hashes = [text_hash for text_hash in texts if text_hash not in vectors]
    if new_hashes:
        embedded = embedder.embed([texts[text_hash] for text_hash in new_hashes])
        dim = embedded.dim
        for number, text_hash in enumerate(new_hashes):
            vectors[text_hash] = embedded.data[number * dim : (number + 1) * dim]

    data = array("f")
    for text_hash in texts:
        data.extend(vectors[text_hash])
    dim = len(data) // len(texts)
    store_vectors(index, embedder.model_id, tuple(texts), Vectors(dim, data))


# -- golden queries of a repository


def load_golden(workspace: Workspace) -> tuple[GoldenQuery, ...]:
    """Load the golden queries of a work tree: tasks, with the entries that should answer them.

    A query without a name is named by its file and line.

    Raises:
        UsageError: no-golden-queries, bad-queries.
    """
    goldens = []
    for path in sorted((work_tree(workspace) / GOLDEN_DIR).glob("*.jsonl")):
        lines = load_lines(path, GoldenQuery, "bad-queries", JSON_LINES_HINT)
        for number, golden in enumerate(lines, start=1):
            goldens.append(replace(golden, name=golden.name or f"{path.stem}:{number}"))
    if not goldens:
        message = f"there are no golden queries in {GOLDEN_DIR}/"
        hint = "Derive some from the entries with `memory-ci eval init`, and mend them by hand."
        raise UsageError(message, slug="no-golden-queries", hint=hint)
    return tuple(goldens)


def answer_golden(
    workspace: Workspace, goldens: Sequence[GoldenQuery], today: date, clock: Timer
) -> tuple[QueryAnswer, ...]:
    """Answer golden queries from the memory of the work tree, without global memory."""
    config = replace(workspace.config, global_=GlobalConfig(path=""))
    with synced_index(replace(workspace, config=config)) as index:
        return _answer_all(index, config, goldens, today, clock)


def compare_golden(
    workspace: Workspace,
    goldens: Sequence[GoldenQuery],
    present_answers: Sequence[QueryAnswer],
    rev: str,
    *,
    margin: float,
    clock: Timer,
) -> Comparison:
    """Compare the answers to golden queries with those from the memory of a revision.

    Both are ranked as on the same day, so that only memory differs.

    Args:
        workspace: the repository and its configuration.
        goldens: the golden queries.
        present_answers: the answers from the present memory, in the same order.
        rev: the revision.
        margin: how far a measure may worsen.
        clock: the clock that times the queries.

    Raises:
        RepositoryError: unknown-revision.
        UsageError: no-golden-queries if no query has a relevant entry.
    """
    if not any(answer.query.grades for answer in present_answers):
        message = "no golden query has a relevant entry"
        hint = 'A query with a "relevant" entry is needed: only these can fall.'
        raise UsageError(message, slug="no-golden-queries", hint=hint)

    with PastIndexes(workspace).open(resolve_commit(workspace.repo, rev)) as index:
        today = present_answers[0].query.today
        old_answers = _answer_all(index, workspace.config, goldens, today, clock)
    worsened_queries = []
    for old_answer, new_answer in zip(old_answers, present_answers, strict=True):
        if not old_answer.query.grades:  # No entry is relevant.
            continue
        old_ndcg = _ndcg_at_10(old_answer)
        new_ndcg = _ndcg_at_10(new_answer)
        if new_ndcg < old_ndcg:
            worsened_queries.append(WorsenedQuery(new_answer.query.name, old_ndcg, new_ndcg))
    worsened_queries.sort(key=lambda query: (query.now - query.before, query.name))
    return Comparison(
        rev=rev,
        margin=margin,
        before=_measure_quality("", old_answers),
        now=_measure_quality("", present_answers),
        falls=tuple(worsened_queries),
    )


def derive_golden_file(workspace: Workspace) -> tuple[Path, int]:
    """Derive golden queries from the entries of the work tree, and write them to a file.

    A golden query is a task with a known answer: the entries that should be served for it. An
    existing file is replaced: queries that people write belong into another one.

    Returns:
        The file, and the number of queries.
    """
    entries = [
        located.entry
        for located in load_memory(workspace, None).located
        if located.entry.status == "active" and located.entry.title
    ]
    goldens = metrics.derive_golden(entries, _list_cited_paths)
    root = work_tree(workspace)
    path = root / GOLDEN_DIR / DERIVED_FILE
    write_file(path, b"".join(msgspec.json.encode(golden) + b"\n" for golden in goldens), root)
    return path, len(goldens)


def _list_cited_paths(entry: Entry) -> list[str]:
    anchors = [parse_anchor(cite) for cite in entry.cites]
    return [anchor.path for anchor in anchors if anchor is not None]


def _answer_all(
    index: Index, config: Config, goldens: Sequence[GoldenQuery], today: date, clock: Timer
) -> tuple[QueryAnswer, ...]:
    """Return the answers of an index to golden queries, in the same order."""
    answers = []
    for golden in goldens:
        judged_query = JudgedQuery(
            name=golden.name,
            text=golden.query,
            grades=dict.fromkeys(golden.relevant, 1.0),
            negative=golden.negative,
            kind=golden.kind,
            today=today,
        )
        answers.append(_answer_query(index, config, judged_query, clock))
    return tuple(answers)


def _answer_query(
    index: Index,
    config: Config,
    query: JudgedQuery,
    clock: Timer,
    embedder: EmbedderChoice | None = None,
) -> QueryAnswer:
    """Answer a query as `retrieve` does: rank entries, drop weak ones, and fit the budget."""
    options = RetrieveOptions()
    start = clock()
    request = bound_options(options, config, query.today)
    ranked = rank_task(index, query.text, request, options, query.today, embedder=embedder)
    hits, _ = order_hits(ranked.hits, request.limit)
    is_near = ranked.margin >= 0  # else the best match is below what is served
    strong_hits = drop_weak(hits, is_near=is_near)
    empty_retrieval = Retrieval(task=query.text, mode=ranked.mode)
    budget = request.max_chars - context_cost(empty_retrieval)
    served_hits, _ = fit_hits(strong_hits, budget, entry_cost)
    seconds = clock() - start
    return QueryAnswer(
        query=query,
        ranking=tuple(hit.located.entry.id for hit in hits),
        factors=tuple(hit.factors for hit in hits),
        strength=ranked.strength,
        seconds=seconds,
        served_ids=tuple(hit.located.entry.id for hit in served_hits),
        characters=len(render_context(replace(empty_retrieval, hits=served_hits))),
    )


def measure(answers: Sequence[QueryAnswer]) -> tuple[Quality, ...]:
    """Return the quality of all answers, then the quality of those to each kind of query."""
    qualities = [_measure_quality("", answers)]
    for kind in sorted({answer.query.kind for answer in answers} - {""}):
        answers_of_kind = [answer for answer in answers if answer.query.kind == kind]
        qualities.append(_measure_quality(kind, answers_of_kind))
    return tuple(qualities)


def _ndcg_at_10(answer: QueryAnswer) -> float:
    return metrics.ndcg(answer.ranking, answer.query.grades, 10)


def _recall_at_10(answer: QueryAnswer) -> float:
    return metrics.recall(answer.ranking, answer.query.grades, 10)


def _recall_served(answer: QueryAnswer) -> float:
    return metrics.recall(answer.served_ids, answer.query.grades, len(answer.served_ids))


MEASURES: dict[str, Callable[[QueryAnswer], float]] = {
    "recall@5": lambda answer: metrics.recall(answer.ranking, answer.query.grades, 5),
    "recall@10": _recall_at_10,
    "nDCG@10": _ndcg_at_10,
    "MRR@10": lambda answer: metrics.reciprocal_rank(answer.ranking, answer.query.grades, 10),
    "zero results": lambda answer: float(not answer.ranking),
    "entries served": lambda answer: float(len(answer.served_ids)),
    "characters served": lambda answer: float(answer.characters),
    "recall at served": _recall_served,
}
"""The measures whose mean is taken over the queries that have a relevant entry."""


def _measure_quality(kind: str, answers: Sequence[QueryAnswer]) -> Quality:
    """Return the quality of answers: means of measures with intervals, and times.

    Most measures are taken over the queries that have a relevant entry. `unrelated answered` is
    the share of the other queries for which an entry is served all the same. `stale hits@10` is
    taken over queries that name entries which should not be served.

    Args:
        kind: the kind of the queries; "" for all together.
        answers: the answers to the queries.
    """
    answers_to_related = [answer for answer in answers if answer.query.grades]
    answers_to_unrelated = [answer for answer in answers if not answer.query.grades]
    measures: list[Measure] = []
    if answers_to_related:
        for name, compute in MEASURES.items():
            measures.append(_average(name, [compute(answer) for answer in answers_to_related]))
    measures += _measure_served_entries(answers_to_related)
    if answers_to_unrelated:
        served_any = [1.0 if answer.served_ids else 0.0 for answer in answers_to_unrelated]
        measures.append(_average("unrelated answered", served_any))

    stale_hits = []
    for answer in answers:
        if answer.query.negative:
            stale_hits.append(metrics.has_any(answer.ranking, answer.query.negative, 10))
    if stale_hits:
        measures.append(_average("stale hits@10", stale_hits))
    milliseconds = [1000 * answer.seconds for answer in answers]
    return Quality(
        kind=kind,
        queries=len(answers_to_related),
        measures=tuple(measures),
        milliseconds=(
            metrics.percentile(milliseconds, 0.5),
            metrics.percentile(milliseconds, 0.95),
        ),
        unanswerable=len(answers_to_unrelated),
        false_hits=sum(answer.strength == "HIT" for answer in answers_to_unrelated),
    )


def _measure_served_entries(answers: Sequence[QueryAnswer]) -> Iterator[Measure]:
    """Yield the measures of the served entries.

    They are the share of served entries that are relevant ("precision at served"), the share that
    was served before in the same session ("repeats"), and how much of the recall of the first ten
    ranked entries the served entries reach ("kept"). Ten consecutive answers count as a session.
    """
    non_empty_answers = [answer for answer in answers if answer.served_ids]
    if non_empty_answers:
        precisions = []
        repeat_shares = []
        ids_served_in_session: set[str] = set()
        for number, answer in enumerate(non_empty_answers):
            if number % TASKS_PER_SESSION == 0:
                ids_served_in_session = set()
            served_ids = set(answer.served_ids)
            relevant_ids = answer.query.grades.keys() & served_ids
            repeated_ids = ids_served_in_session & served_ids
            precisions.append(len(relevant_ids) / len(answer.served_ids))
            repeat_shares.append(len(repeated_ids) / len(answer.served_ids))
            ids_served_in_session |= served_ids
        yield _average("precision at served", precisions)
        yield _average("repeats", repeat_shares)

    recall_at_10 = metrics.mean([_recall_at_10(answer) for answer in answers])
    if recall_at_10:
        yield _average("kept", [_recall_served(answer) / recall_at_10 for answer in answers])


def _average(name: str, values: Sequence[float]) -> Measure:
    """Return the mean of values with its 95 % bootstrap interval."""
    generator = random.Random(len(values))  # noqa: S311 - a resample that anyone can repeat, no secret
    low, high = metrics.interval(values, lambda sample: generator.choices(sample, k=len(sample)))
    return Measure(name, metrics.mean(values), low, high)
