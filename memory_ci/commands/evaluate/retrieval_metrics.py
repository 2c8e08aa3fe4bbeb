"""How good a ranking is, and golden queries to measure it by. Of an entry that comes twice the first counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from memory_ci.commands.evaluate.records import Golden
from memory_ci.records.entry import Entry
from memory_ci.text import STOP_WORDS, content_words, words

Grades = Mapping[str, float]  # Relevance by entry, above zero.
RESAMPLES = 1000


def recall(ranking: Sequence[str], relevant: Grades, k: int) -> float:
    """The share of the relevant entries among the first `k`.

    >>> recall(["a", "b"], {"a": 1, "c": 1}, 10)
    0.5
    """
    return len(set(_unique(ranking)[:k]) & relevant.keys()) / len(relevant)


def ndcg(ranking: Sequence[str], relevant: Grades, k: int) -> float:
    """Gain 2^relevance - 1, discount log2(rank + 1), as a share of the best order (Burges and others, ICML 2005).

    >>> ndcg(["x", "a"], {"a": 1}, 10) == 1 / math.log2(3)
    True
    """
    best = _dcg(sorted(relevant.values(), reverse=True)[:k])
    return _dcg(relevant.get(entry, 0.0) for entry in _unique(ranking)[:k]) / best


def reciprocal_rank(ranking: Sequence[str], relevant: Grades, k: int) -> float:
    """1 / rank of the first relevant entry, 0 if none is among the first `k`.

    >>> reciprocal_rank(["x", "a"], {"a": 1}, 10), reciprocal_rank(["x", "a"], {"a": 1}, 1)
    (0.5, 0.0)
    """
    places = (
        1 / rank for rank, entry in enumerate(_unique(ranking)[:k], start=1) if entry in relevant
    )
    return next(places, 0.0)


def has_any(ranking: Sequence[str], unwanted: Collection[str], k: int) -> float:
    """1 if an entry that should not be served is among the first `k`, else 0."""
    return float(not set(unwanted).isdisjoint(_unique(ranking)[:k]))


def mean(values: Collection[float]) -> float:
    """0 for none."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Iterable[float], share: float) -> float:
    """The value below or at which that share of them lies (nearest rank); 0 for none.

    >>> percentile([3, 1, 2, 4], 0.5)
    2
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def interval(
    values: Sequence[float], draw: Callable[[Sequence[float]], Sequence[float]]
) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean (Efron 1979); `draw` gives a sample of equal size, with
    replacement."""
    means = sorted(mean(draw(values)) for _ in range(RESAMPLES)) if values else [0.0]
    return percentile(means, 0.025), percentile(means, 0.975)


def _dcg(grades: Iterable[float]) -> float:
    return sum(
        (math.pow(2, grade) - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1)
    )


def _unique(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))


# Tasks of other trades: a memory about software work has nothing on them.
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
LEAST_BODY_WORDS = 4  # A body with fewer words of its own gives no paraphrase.
PARAPHRASE_WORDS = 6


def derive_golden(
    entries: Sequence[Entry], paths_of: Callable[[Entry], Iterable[str]]
) -> tuple[Golden, ...]:
    """Up to three queries for each entry (its title, a paraphrase, the files it cites, given by `paths_of`), then
    tasks of other trades, most of whose words no entry has."""
    df = Counter(word for entry in entries for word in content_words(entry.text))
    own: list[Golden] = []
    for entry in entries:
        own.append(Golden(query=entry.title, relevant=(entry.id,), kind="title"))
        if paraphrase := _paraphrase(entry, df):
            own.append(Golden(query=paraphrase, relevant=(entry.id,), kind="paraphrase"))
        text = entry.text.lower()  # only title and body are searched
        if paths := [path for path in dict.fromkeys(paths_of(entry)) if path.lower() in text]:
            own.append(
                Golden(query=f"Change {' and '.join(paths)}", relevant=(entry.id,), kind="path")
            )
    asked = {task: content_words(task) for task in FOREIGN_TASKS}
    foreign = [task for task, said in asked.items() if 2 * len(said & df.keys()) < len(said)]
    return (*own, *(Golden(query=task, kind="foreign") for task in foreign))


def _paraphrase(entry: Entry, df: Counter[str]) -> str:
    """The title without its rarest word, and words that only the body has; "" where the body adds too little."""
    title = list(_telling(words(entry.title)))
    body = sorted(_telling(words(entry.body), title), key=lambda word: (df[word], word))
    if len(title) < 2 or len(body) < LEAST_BODY_WORDS:
        return ""
    rarest = min(title, key=lambda word: (df[word], word))
    return " ".join([*(word for word in title if word != rarest), *body[:PARAPHRASE_WORDS]])


def _telling(found: Iterable[str], known: Iterable[str] = ()) -> Iterator[str]:
    left_out = {*STOP_WORDS, *known}
    return (word for word in dict.fromkeys(found) if word not in left_out)
