"""Metrics of rankings, and golden queries that are derived from entries.

Of an entry that a ranking has twice, the first place counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from memory_ci.commands.evaluate.records import GoldenQuery
from memory_ci.records.entry import Entry
from memory_ci.text import STOP_WORDS, content_words, words

Grades = Mapping[str, float]  # The relevance of entries, above zero, by id.
BOOTSTRAP_SAMPLES = 1000


def recall(ranking: Sequence[str], relevant: Grades, k: int) -> float:
    """Return the share of the relevant entries among the first `k`.

    >>> recall(["a", "b"], {"a": 1, "c": 1}, 10)
    0.5
    """
    return len(set(_list_unique_ids(ranking)[:k]) & relevant.keys()) / len(relevant)


def ndcg(ranking: Sequence[str], relevant: Grades, k: int) -> float:
    """Return the normalised discounted cumulative gain of the first `k` entries.

    The gain is 2^relevance - 1, the discount log2(rank + 1); the norm is that of the best order
    (Burges and others, ICML 2005).

    >>> ndcg(["x", "a"], {"a": 1}, 10) == 1 / math.log2(3)
    True
    """
    best_grades = sorted(relevant.values(), reverse=True)[:k]
    grades = [relevant.get(entry_id, 0.0) for entry_id in _list_unique_ids(ranking)[:k]]
    return _compute_dcg(grades) / _compute_dcg(best_grades)


def reciprocal_rank(ranking: Sequence[str], relevant: Grades, k: int) -> float:
    """Return 1 / rank of the first relevant entry, 0 if none is among the first `k`.

    >>> reciprocal_rank(["x", "a"], {"a": 1}, 10), reciprocal_rank(["x", "a"], {"a": 1}, 1)
    (0.5, 0.0)
    """
    for rank, entry_id in enumerate(_list_unique_ids(ranking)[:k], start=1):
        if entry_id in relevant:
            return 1 / rank
    return 0.0


def has_any(ranking: Sequence[str], unwanted: Collection[str], k: int) -> float:
    """Return 1 if an entry that should not be served is among the first `k`, else 0."""
    return float(not set(unwanted).isdisjoint(_list_unique_ids(ranking)[:k]))


def mean(values: Collection[float]) -> float:
    """Return the mean of values, 0 without values."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Iterable[float], share: float) -> float:
    """Return the percentile of values by nearest rank, 0 without values.

    >>> percentile([3, 1, 2, 4], 0.5)
    2
    """
    ordered = sorted(values)
    if not ordered:
        return 0.0
    rank = max(1, math.ceil(share * len(ordered)))
    return ordered[rank - 1]


def interval(
    values: Sequence[float], draw: Callable[[Sequence[float]], Sequence[float]]
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the mean (Efron 1979).

    Args:
        values: the values.
        draw: returns a sample of equal size, drawn with replacement.
    """
    means = [0.0]
    if values:
        means = sorted(mean(draw(values)) for _ in range(BOOTSTRAP_SAMPLES))
    return percentile(means, 0.025), percentile(means, 0.975)


def _compute_dcg(grades: Iterable[float]) -> float:
    """Return the discounted cumulative gain of a ranking, from the relevance of each rank."""
    return sum(
        (math.pow(2, grade) - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1)
    )


def _list_unique_ids(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))


# -- golden queries

FOREIGN_TASKS = (
    "Bake shadow maps for directional lights in the renderer",
    "Tune the PID gains of the quadcopter's yaw loop",
    "Segment lung nodules in the DICOM series before registration",
    "Quantise the tokenizer's logits on the wafer tester",
    "Let the tram timetable import GTFS stop headways",
    "Score a chess endgame with a seven-piece tablebase",
    "Model soil moisture drift in the irrigation planner",
    "Transpose the MIDI score when the oboe part is muted",
)
"""Tasks of other trades, on which a memory about software work should have nothing."""

LEAST_BODY_WORDS = 4  # Words that only a body has, for a paraphrase to be derived.
PARAPHRASE_WORDS = 6


def derive_golden(
    entries: Sequence[Entry], paths_of: Callable[[Entry], Iterable[str]]
) -> tuple[GoldenQuery, ...]:
    """Derive golden queries, tasks with known answers, from entries.

    Each entry answers up to three: its title, a paraphrase, and a change of the files that it
    cites. Tasks of other trades follow, which no entry answers, unless entries have half of their
    words.

    Args:
        entries: the entries.
        paths_of: returns the files that an entry cites.
    """
    entry_counts: Counter[str] = Counter()  # In how many entries each word is.
    for entry in entries:
        entry_counts.update(set(content_words(entry.text)))

    goldens: list[GoldenQuery] = []
    for entry in entries:
        goldens.append(GoldenQuery(query=entry.title, relevant=(entry.id,), kind="title"))
        paraphrase = _paraphrase_title(entry, entry_counts)
        if paraphrase:
            goldens.append(GoldenQuery(query=paraphrase, relevant=(entry.id,), kind="paraphrase"))
        text = entry.text.lower()  # Only title and body are searched.
        paths = [path for path in dict.fromkeys(paths_of(entry)) if path.lower() in text]
        if paths:
            query = f"Change {' and '.join(paths)}"
            goldens.append(GoldenQuery(query=query, relevant=(entry.id,), kind="path"))

    for task in FOREIGN_TASKS:
        task_words = content_words(task)
        known_words = task_words & entry_counts.keys()
        if len(known_words) < len(task_words) / 2:
            goldens.append(GoldenQuery(query=task, kind="foreign"))
    return tuple(goldens)


def _paraphrase_title(entry: Entry, entry_counts: Counter[str]) -> str:
    """Return a task that an entry answers, in words that differ from its title.

    It has the words of the title without the rarest one, by which the entry would be found too
    easily. Then come the rarest words that are in the body and not in the title.

    Args:
        entry: the entry; if its body adds too few words the result is "".
        entry_counts: in how many entries each word is.
    """
    title_words = _list_unique_words(entry.title, STOP_WORDS)
    body_words = _list_unique_words(entry.body, {*STOP_WORDS, *title_words})
    if len(title_words) < 2 or len(body_words) < LEAST_BODY_WORDS:
        return ""
    title_words.remove(min(title_words, key=lambda word: (entry_counts[word], word)))
    body_words.sort(key=lambda word: (entry_counts[word], word))
    return " ".join([*title_words, *body_words[:PARAPHRASE_WORDS]])


def _list_unique_words(text: str, excluded: Collection[str]) -> list[str]:
    return [word for word in dict.fromkeys(words(text)) if word not in excluded]
