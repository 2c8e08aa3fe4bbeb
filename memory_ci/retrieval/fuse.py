"""One relevance from several lanes. Every mode gives values in (0, 1], and with one lane the order of that lane."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from memory_ci.records.entry import Located

Place = tuple[str, int]  # Path and line: an id may stand in two files.
Lane = Mapping[Place, float]  # What one lane found, and how well: higher is better, comparable within the lane only.
Fusion = Literal["blend", "rrf", "cosine_x_importance", "linear4"]

VECTOR_WEIGHT = 0.4  # For all-MiniLM-L6-v2; static embedders are weaker and do best with 0.3 (docs/ranking.md).
RRF_K = 60  # Cormack, Clarke and Buettcher, SIGIR 2009; Crewship uses the same.
LEAST_RELEVANCE = 1e-9  # What a match counts whose score says nothing: it was found.


class Traits(NamedTuple):
    """What the seeds' own formulas know of an entry besides its text. `outcome` is that of `weigh_outcome`."""

    importance: float
    recency: float
    outcome: float = 1.0


def fuse(
    mode: Fusion, lexical: Lane, vectors: Lane, traits: Callable[[Place], Traits], *, weight: float = VECTOR_WEIGHT
) -> Lane:
    """The relevance of everything that a lane found; a single lane counts as it stands, whatever the mode."""
    if not lexical or not vectors:
        return shares(lexical or vectors)
    if mode == "rrf":
        return rrf(lexical, vectors)
    if mode == "blend":
        return blend(lexical, vectors, weight=weight)
    known = {place: vectors.get(place, 0.0) for place in {**lexical, **vectors}}
    formula = cosine_x_importance if mode == "cosine_x_importance" else linear4
    return {place: max(formula(cosine, traits(place)), LEAST_RELEVANCE) for place, cosine in known.items()}


def place_of(located: Located) -> Place:
    """Where an entry stands: what names it in every lane."""
    return located.path, located.line


def shares(lane: Lane) -> Lane:
    """Each score as a share of the best one. What is no number counts least."""
    finite = [score for score in lane.values() if math.isfinite(score)]
    low, best = min([0.0, *finite]), max(finite, default=0.0)
    return {place: max(_unit(score, low, best), LEAST_RELEVANCE) for place, score in lane.items()}


def blend(lexical: Lane, vectors: Lane, *, weight: float = VECTOR_WEIGHT) -> Lane:
    """weight x vectors + (1 - weight) x lexical, each min-max-normalised within its lane; what a lane did not find
    has 0 in it. TeaParty blends 0.7 to 0.3; measured, 0.4 to 0.6 wins on every set."""
    own, other = _min_max(lexical), _min_max(vectors)
    places = {**lexical, **vectors}
    mixed = {place: weight * other.get(place, 0.0) + (1 - weight) * own.get(place, 0.0) for place in places}
    return {place: max(value, LEAST_RELEVANCE) for place, value in mixed.items()}


def rrf(*lanes: Lane, k: int = RRF_K) -> Lane:
    """Reciprocal rank fusion: the sum of 1 / (k + rank), as a share of what the first in every active lane gets."""
    active = [lane for lane in lanes if lane]
    total: dict[Place, float] = {}
    for lane in active:
        for rank, place in enumerate(sorted(lane, key=lambda found: (-lane[found], found)), start=1):
            total[place] = total.get(place, 0.0) + 1 / (k + rank)
    return {place: value * (k + 1) / len(active) for place, value in total.items()}


def cosine_x_importance(cosine: float, traits: Traits) -> float:
    """Crewship's order at recall: cosine x importance, its importance being ours x recency."""
    return cosine * traits.importance * traits.recency


def linear4(cosine: float, traits: Traits) -> float:
    """T4DM: 0.4 semantic + 0.25 recency + 0.2 outcome + 0.15 importance; at most 1.04, brought to at most 1."""
    total = 0.4 * cosine + 0.25 * traits.recency + 0.2 * traits.outcome + 0.15 * traits.importance
    return total / 1.04


def weigh_outcome(utility: float) -> float:
    """T4DM counts a success 1.2, a failure 0.8, and 1 what is neither: ours is what feedback says came of an entry."""
    return 0.8 + 0.4 * utility


def _min_max(lane: Lane) -> Lane:
    finite = [score for score in lane.values() if math.isfinite(score)]
    low, best = min(finite, default=0.0), max(finite, default=0.0)
    return {place: _unit(score, low, best) for place, score in lane.items()}


def _unit(score: float, low: float, best: float) -> float:
    """The place of a score between `low` (0) and `best` (1), each halved so that no difference overflows; of equals
    each is the best, and what is no number counts 0."""
    if not math.isfinite(score):
        return 0.0
    span = best / 2 - low / 2
    return (score / 2 - low / 2) / span if span else 1.0
