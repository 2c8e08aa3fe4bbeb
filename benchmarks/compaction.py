"""How long compaction takes as memory grows, and what its filter saves against comparing all pairs."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import combinations

from benchmarks.timing import Row
from memory_ci.lifecycle.compaction import plan_compaction
from memory_ci.lifecycle.similarity import parse_entry_words, similar_pairs
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.text import jaccard

SIZES = (1_000, 10_000, 100_000)
ALL_PAIRS_UP_TO = 1_000
REPEATED = 20
"""Of so many entries one repeats an earlier one with a word or two changed."""
VOCABULARY = 20_000
LENGTH = 40


def bench_compaction() -> list[Row]:
    """Planning a compaction, and its search for pairs alone, at each size."""
    rows = []
    planned = searched = 0.0
    for size in SIZES:
        memory = tuple(_memory(size))
        last_planned, last_searched = planned, searched
        planned, changes = _timed(plan_compaction, memory)
        rows.append(
            Row(
                f"plan, {size} entries",
                planned,
                last_planned,
                f"{changes} changes; baseline: the size before",
            )
        )
        texts = [parse_entry_words(place.entry).words for place in memory]
        searched, pairs = _timed(similar_pairs, texts)
        rows.append(
            Row(
                f"pairs of {size} entries",
                searched,
                last_searched,
                f"{pairs} pairs; baseline: the size before",
            )
        )
        if size <= ALL_PAIRS_UP_TO:
            compared, found = _timed(_all_pairs, texts)
            note = f"{found} pairs; baseline: the pairs above"
            rows.append(Row(f"comparing all {size} with all", compared, searched, note))
    return rows


def _memory(size: int) -> Iterator[Located]:
    """Entries of 40 words, drawn by Zipf's law as in prose: the n-th commonest word n times rarer than the first."""
    chance = random.Random(7)  # noqa: S311 - the same texts in every run
    texts: list[list[str]] = []
    for number in range(size):
        words = [_word(chance) for _ in range(LENGTH)]
        if number % REPEATED == REPEATED - 1:
            words = list(texts[chance.randrange(number)])
            for _ in range(chance.randint(1, 2)):
                words[chance.randrange(LENGTH)] = _word(chance)
        texts.append(words)
        entry_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        yield Located(_entry(entry_id, words), "MEMORY.md", number + 1, ScopeOf("project"))


def _word(chance: random.Random) -> str:
    return f"w{int(VOCABULARY ** chance.random())}"


def _entry(entry_id: str, words: Sequence[str]) -> Entry:
    return Entry(
        id=entry_id,
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=0,
        last_reinforced=date(2026, 1, 1),
        status="active",
        title=" ".join(words[:8]),
        body=" ".join(words[8:]),
    )


def _all_pairs(texts: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    return [
        (a, b) for a, b in combinations(range(len(texts)), 2) if jaccard(texts[a], texts[b]) > 0.8
    ]


def _timed(function: Callable[..., Sequence[object]], argument: object) -> tuple[float, int]:
    """Seconds that a call took, and how much it gave."""
    start = time.perf_counter()
    found = function(argument)
    return time.perf_counter() - start, len(found)
