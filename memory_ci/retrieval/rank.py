"""Order matches by the product of five factors, each of them named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from memory_ci.records.entry import NO_FEEDBACK, Entry, ScopeName, ScopeOf
from memory_ci.records.retrieval import Hit, Match
from memory_ci.retrieval.fuse import LEAST_RELEVANCE, Lane, place_of, shares

SCOPE_FACTORS: Mapping[ScopeName, float] = {"team": 1.5, "project": 1.2, "session": 1.0, "global": 1.0}
"""The nearer, the better (docs/ranking.md); institutional memory is not ranked."""

OWN_SESSION_FACTOR = 1.5


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry counts for besides its relevance; each function is asked with the entry.

    `prominence` is bounded to 0.5 + p / (1 + p), unless `is_literal` (TeaParty's product). `truth`: 1.0 where the
    code it cites stands or has moved, 0.5 where it changed, 0 where it is gone. `utility`: in [0, 1], what feedback
    says. `session`: the caller's own job.
    """

    prominence: Callable[[Entry], float]
    is_literal: bool = False
    truth: Callable[[Entry], float] = lambda _: 1.0
    utility: Callable[[Entry], float] = lambda _: NO_FEEDBACK
    session: str | None = None


def rank(matches: Iterable[Match], weights: Weights, relevance: Lane | None = None) -> list[Hit]:
    """Hits, best first: relevance x (0.5 + p / (1 + p)) x scope x truth x (0.75 + 0.5 u).

    `relevance` is what the lanes were fused to, by default the share of the best lexical score. Prominence moves a
    score by a factor of 3 at most: unbounded, it would make relevance irrelevant. Where it is 0 the entry is retired,
    where truth is 0 its code is gone: neither is served. Ties: last reinforced first, then by id. A value that is no
    number counts as the least there is.
    """
    found = list(matches)
    fused = relevance if relevance is not None else shares({place_of(m.located): m.lexical for m in found})
    hits = (_hit(match, fused[place_of(match.located)], weights) for match in found)
    return sorted((hit for hit in hits if hit is not None), key=_order)


def _hit(match: Match, relevance: float, weights: Weights) -> Hit | None:
    entry = match.located.entry
    prominence, truth = weights.prominence(entry), weights.truth(entry)
    if prominence <= 0 or truth <= 0:
        return None
    factors = (
        ("relevance", relevance),
        ("prominence", _number(prominence) if weights.is_literal else _bounded(prominence)),
        ("scope", _scope_factor(match.located.scope, weights.session)),
        ("truth", truth),
        ("utility", 0.75 + 0.5 * weights.utility(entry)),
    )
    return Hit(match.located, math.prod(value for _, value in factors), factors, (("lexical", match.lexical),))


def _bounded(prominence: float) -> float:
    """0.5 + p / (1 + p), in [0.5, 1.5]: the lower bound for nan, the upper one for infinity."""
    if math.isnan(prominence):
        return 0.5
    return 1.5 - 1 / (1 + prominence)


def _number(value: float) -> float:
    return value if math.isfinite(value) else LEAST_RELEVANCE


def _scope_factor(scope: ScopeOf, session: str | None) -> float:
    if scope.name == "session" and scope.where == session:
        return OWN_SESSION_FACTOR
    return SCOPE_FACTORS.get(scope.name, 1.0)


def _order(hit: Hit) -> tuple[float, int, str, str, int]:
    located = hit.located
    return -hit.score, -located.entry.last_reinforced.toordinal(), located.entry.id, located.path, located.line
