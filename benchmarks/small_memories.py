"""Measure how much is served from memories of a few entries, of which one to three are relevant.

    python -m benchmarks.small_memories DIR [DIR ...]

Each DIR is a retrieval set of entries.jsonl, queries.jsonl and qrels.jsonl, as `memory-ci eval
retrieval` reads them. For each size, memories are drawn: the relevant entries of a query and
others of the same group. A second query, of another group, should be answered with nothing.
"""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from memory_ci.commands.evaluate.evaluate_retrieval import answer_set
from memory_ci.commands.evaluate.retrieval_metrics import interval
from memory_ci.commands.evaluate.retrieval_set import RetrievalSet, load_set
from memory_ci.records.config import Config

SIZES = (2, 3, 5, 10, 20)
RELEVANT = (1, 2, 3)
DRAWN = 150
"""Memories of each size and number of relevant entries, of each set."""


class Memory(NamedTuple):
    """A drawn memory: its entries, a query with its relevant entries, and a query of another group."""

    cases: RetrievalSet
    relevant: frozenset[str]


def draw_memories(source: RetrievalSet, size: int, count: int, seed: int) -> Iterator[Memory]:
    """Yield small memories, each with a query that some of its entries answer.

    Args:
        source: the set that entries and queries are drawn from.
        size: the number of entries of a memory.
        count: the number of these that are relevant to the query.
        seed: the seed of the draw.
    """
    generator = random.Random(seed)  # noqa: S311 - a draw that anyone can repeat, no secret
    relevant_ids = _map_relevant_ids(source)
    queries = [query for query in source.queries if len(relevant_ids[query.id]) >= count]
    for query in generator.sample(queries, min(DRAWN, len(queries))):
        chosen_ids = generator.sample(sorted(relevant_ids[query.id]), count)
        irrelevant_ids = [
            entry.id
            for entry in source.entries
            if entry.group == query.group and entry.id not in relevant_ids[query.id]
        ]
        unrelated_queries = [other for other in source.queries if other.group != query.group]
        if len(irrelevant_ids) < size - count or not unrelated_queries:
            continue
        ids = {*chosen_ids, *generator.sample(irrelevant_ids, size - count)}
        entries = tuple(entry for entry in source.entries if entry.id in ids)
        judgements = tuple(
            judgement
            for judgement in source.judgements
            if judgement.query == query.id and judgement.entry in ids
        )
        unrelated_query = generator.choice(unrelated_queries)
        cases = RetrievalSet(entries, (query, unrelated_query), judgements)
        yield Memory(cases, frozenset(chosen_ids))


def _map_relevant_ids(source: RetrievalSet) -> dict[str, set[str]]:
    """Return for each query the ids of the entries of a set that are relevant to it."""
    entry_ids = {entry.id for entry in source.entries}
    relevant_ids: defaultdict[str, set[str]] = defaultdict(set)
    for judgement in source.judgements:
        if judgement.relevance > 0 and judgement.entry in entry_ids:
            relevant_ids[judgement.query].add(judgement.entry)
    return relevant_ids


class ServedShares(NamedTuple):
    """What is served from memories, one value for each memory.

    Attributes:
        relevant: the share of the relevant entries that are served.
        irrelevant: the share of the other entries that are served.
        answered: 1.0 if the query of another group is answered, else 0.0.
    """

    relevant: list[float]
    irrelevant: list[float]
    answered: list[float]


def measure(memories: Sequence[Memory]) -> ServedShares:
    """Return which shares of relevant and irrelevant entries are served from memories."""
    shares = ServedShares([], [], [])
    for memory in memories:
        for answer in answer_set(memory.cases, Config(), time.perf_counter):
            served_ids = set(answer.served_ids)
            is_unrelated_query = not answer.query.grades
            if is_unrelated_query:
                shares.answered.append(1.0 if served_ids else 0.0)
                continue
            relevant_served = len(served_ids & memory.relevant)
            shares.relevant.append(relevant_served / len(memory.relevant))
            irrelevant_count = len(memory.cases.entries) - len(memory.relevant)
            irrelevant_served = len(served_ids - memory.relevant)
            share = irrelevant_served / irrelevant_count if irrelevant_count else 0.0
            shares.irrelevant.append(share)
    return shares


def format_share(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval."""
    if not values:
        return "-"
    generator = random.Random(len(values))  # noqa: S311 - a resample that anyone can repeat
    low, high = interval(values, lambda sample: generator.choices(sample, k=len(sample)))
    return f"{sum(values) / len(values):.2f} [{low:.2f}, {high:.2f}]"


def main(folders: Sequence[str]) -> None:
    """Print a row for each number of relevant entries and each size."""
    names = ("entries.jsonl", "queries.jsonl", "qrels.jsonl")
    sources = [load_set(*(Path(folder, name) for name in names)) for folder in folders]
    print("relevant  size     n  relevant served     others served       unrelated task answered")
    for count in RELEVANT:
        for size in SIZES:
            if size < count:
                continue
            memories: list[Memory] = []
            for source in sources:
                memories += draw_memories(source, size, count, seed=size * 10 + count)
            cells = [f"{format_share(values):<19}" for values in measure(memories)]
            print(f"{count:>8}  {size:>4}  {len(memories):>4}  {' '.join(cells)}")


if __name__ == "__main__":
    main(sys.argv[1:])
