"""How good a ranking is, by what is known to be relevant. Only the first place of an entry that comes twice counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

Grades = Mapping[str, float]
"""Relevance by entry, above zero."""

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
    places = (1 / rank for rank, entry in enumerate(_unique(ranking)[:k], start=1) if entry in relevant)
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


def interval(values: Sequence[float], draw: Callable[[Sequence[float]], Sequence[float]]) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean (Efron 1979); `draw` gives a sample of equal size, with
    replacement."""
    means = sorted(mean(draw(values)) for _ in range(RESAMPLES)) if values else [0.0]
    return percentile(means, 0.025), percentile(means, 0.975)


def _dcg(grades: Iterable[float]) -> float:
    return sum((math.pow(2, grade) - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def _unique(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))
