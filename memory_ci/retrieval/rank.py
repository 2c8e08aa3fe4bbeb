"""Order matches by relevance, prominence and scope. Every factor is named, and their product is the score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from memory_ci.records.entry import Entry, ScopeName, ScopeOf
from memory_ci.records.retrieval import Hit, Match

SCOPE_FACTORS: Mapping[ScopeName, float] = {"team": 1.5, "project": 1.2, "session": 1.0, "global": 1.0}
"""The nearer, the better (docs/ranking.md); institutional memory is not ranked."""

OWN_SESSION_FACTOR = 1.5

LEAST_RELEVANCE = 1e-9
"""What a match counts whose score says nothing: it was found."""


def rank(matches: Iterable[Match], prominence: Callable[[Entry], float], *, session: str | None = None) -> list[Hit]:
    """Hits, best first: relevance x (0.5 + p / (1 + p)) x scope, where p is the entry's prominence.

    Relevance is the share of the best lexical score, in (0, 1]. Prominence moves a score by a factor of 3 at most:
    unbounded, it would make relevance irrelevant. At 0 the entry is retired and not served. `session` is the caller's
    own job. Ties: last reinforced first, then by id. A value that is no number counts as the least there is.
    """
    found = list(matches)
    best = max((_lexical(match) for match in found), default=LEAST_RELEVANCE)
    weighed = ((match, prominence(match.located.entry)) for match in found)
    hits = [_hit(match, best, value, session) for match, value in weighed if not value <= 0]
    return sorted(hits, key=_order)


def _hit(match: Match, best: float, prominence: float, session: str | None) -> Hit:
    factors = (
        ("relevance", _lexical(match) / best),
        ("prominence", _bounded(prominence)),
        ("scope", _scope_factor(match.located.scope, session)),
    )
    return Hit(match.located, math.prod(value for _, value in factors), factors)


def _lexical(match: Match) -> float:
    return max(match.lexical, LEAST_RELEVANCE) if math.isfinite(match.lexical) else LEAST_RELEVANCE


def _bounded(prominence: float) -> float:
    """0.5 + p / (1 + p), in [0.5, 1.5]: the lower bound for nan, the upper one for infinity."""
    if math.isnan(prominence):
        return 0.5
    return 1.5 - 1 / (1 + prominence)


def _scope_factor(scope: ScopeOf, session: str | None) -> float:
    if scope.name == "session" and scope.where == session:
        return OWN_SESSION_FACTOR
    return SCOPE_FACTORS.get(scope.name, 1.0)


def _order(hit: Hit) -> tuple[float, int, str, str, int]:
    located = hit.located
    return -hit.score, -located.entry.last_reinforced.toordinal(), located.entry.id, located.path, located.line
