"""How much is served from memories of a few entries, in which one to three are relevant.

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

from memory_ci.commands.evaluate.evaluate_retrieval import RetrievalSet, answer_set, load_set
from memory_ci.commands.evaluate.retrieval_metrics import interval
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
    """Yield memories of `size` entries, `count` of them relevant to a query."""
    dice = random.Random(seed)  # noqa: S311 - a draw that anyone can repeat, no secret
    relevant: dict[str, set[str]] = defaultdict(set)
    for judgement in source.judgements:
        if judgement.relevance > 0:
            relevant[judgement.query].add(judgement.entry)
    entries = {entry.id: entry for entry in source.entries}
    queries = [
        query for query in source.queries if len(relevant[query.id] & entries.keys()) >= count
    ]
    for query in dice.sample(queries, min(DRAWN, len(queries))):
        known = sorted(relevant[query.id] & entries.keys())
        chosen = dice.sample(known, count)
        fillers = [
            entry.id
            for entry in source.entries
            if entry.group == query.group and entry.id not in relevant[query.id]
        ]
        others = [other for other in source.queries if other.group != query.group]
        if len(fillers) < size - count or not others:
            continue
        names = {*chosen, *dice.sample(fillers, size - count)}
        kept = tuple(entry for entry in source.entries if entry.id in names)
        judged = tuple(
            judgement
            for judgement in source.judgements
            if judgement.query == query.id and judgement.entry in names
        )
        cases = RetrievalSet(kept, (query, dice.choice(others)), judged)
        yield Memory(cases, frozenset(chosen))


def measure(memories: Sequence[Memory]) -> tuple[list[float], list[float], list[float]]:
    """Return the shares of the relevant and of the other entries that are served, and whether an
    unrelated query is answered; one value a memory."""
    served, unrelated, answered = [], [], []
    for memory in memories:
        for answer in answer_set(memory.cases, Config(), time.perf_counter):
            given = set(answer.given)
            if not answer.asking.grades:
                answered.append(float(bool(given)))
                continue
            others = len(memory.cases.entries) - len(memory.relevant)
            served.append(len(given & memory.relevant) / len(memory.relevant))
            unrelated.append(len(given - memory.relevant) / others if others else 0.0)
    return served, unrelated, answered


def format_share(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval."""
    if not values:
        return "-"
    dice = random.Random(len(values))  # noqa: S311 - a resample that anyone can repeat
    low, high = interval(values, lambda sample: dice.choices(sample, k=len(sample)))
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
            memories = [
                m
                for source in sources
                for m in draw_memories(source, size, count, size * 10 + count)
            ]
            served, unrelated, answered = measure(memories)
            row = (f"{format_share(values):<19}" for values in (served, unrelated, answered))
            print(f"{count:>8}  {size:>4}  {len(memories):>4}  {' '.join(row)}")


if __name__ == "__main__":
    main(sys.argv[1:])
