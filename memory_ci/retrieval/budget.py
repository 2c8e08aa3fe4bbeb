"""How much is injected: whole entries only, and what was dropped is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TypeVar

from memory_ci.records.entry import EntryType
from memory_ci.records.retrieval import Hit, Norm

T = TypeVar("T")

NO_LIMITS: Mapping[EntryType, int] = MappingProxyType({})


def fit(
    hits: Sequence[Hit], max_chars: int, cost: Callable[[Hit], int], by_type: Mapping[EntryType, int] = NO_LIMITS
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """(kept, dropped), both in the order given. A hit that is too large is passed over: a smaller one may still fit.

    `by_type` bounds what entries of one type may take of `max_chars`.
    """
    left = dict(by_type)
    chosen: set[int] = set()
    for place, hit in enumerate(hits):
        price, kind = cost(hit), hit.located.entry.type
        if price <= max_chars and price <= left.get(kind, price):
            chosen.add(place)
            max_chars -= price
            if kind in left:
                left[kind] -= price
    return _parted(hits, chosen)


def fit_norms(
    norms: Sequence[Norm], max_chars: int, cost: Callable[[Norm], int]
) -> tuple[tuple[Norm, ...], tuple[Norm, ...]]:
    """(kept, dropped), in the order given. When not all fit, the most prominent come first."""
    chosen: set[int] = set()
    for place in sorted(range(len(norms)), key=lambda place: _prominence(norms[place]), reverse=True):
        price = cost(norms[place])
        if price <= max_chars:
            chosen.add(place)
            max_chars -= price
    return _parted(norms, chosen)


def _parted(items: Sequence[T], chosen: Set[int]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    kept = tuple(item for place, item in enumerate(items) if place in chosen)
    dropped = tuple(item for place, item in enumerate(items) if place not in chosen)
    return kept, dropped


def _prominence(norm: Norm) -> float:
    return -math.inf if math.isnan(norm.prominence) else norm.prominence
