"""Matches in order: lanes fused to one relevance, five factors, corrections first, near-duplicates apart.

What is injected are whole entries, and what was dropped is named.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import NO_FEEDBACK, Entry, EntryType, Located, ScopeName
from memory_ci.records.retrieval import Hit, Match, Norm, Withheld
from memory_ci.text import content_words, jaccard

Place = tuple[str, int]  # Path and line: an id may stand in two files.
Lane = Mapping[
    Place, float
]  # What one lane found, and how well: higher is better, comparable within the lane only.
Fusion = Literal["blend", "rrf", "cosine_x_importance", "linear4"]
VECTOR_WEIGHT = (
    0.4  # For all-MiniLM-L6-v2; static embedders are weaker and do best with 0.3 (docs/ranking.md).
)
RRF_K = 60  # Cormack, Clarke and Buettcher, SIGIR 2009; Crewship uses the same.
LEAST_RELEVANCE = 1e-9  # What a match counts whose score says nothing: it was found.


class Traits(NamedTuple):
    """What the seeds' own formulas know of an entry besides its text. `outcome` is that of `weigh_outcome`."""

    importance: float
    recency: float
    outcome: float = 1.0


def fuse(
    mode: Fusion,
    lexical: Lane,
    vectors: Lane,
    traits: Callable[[Place], Traits],
    *,
    weight: float = VECTOR_WEIGHT,
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
    return {
        place: max(formula(cosine, traits(place)), LEAST_RELEVANCE)
        for place, cosine in known.items()
    }


def place_of(located: Located) -> Place:
    """Where an entry stands: what names it in every lane."""
    return located.path, located.line


def shares(lane: Lane) -> Lane:
    """Each score as a share of the best one. What is no number counts least."""
    finite = [score for score in lane.values() if math.isfinite(score)]
    low, best = min([0.0, *finite]), max(finite, default=0.0)
    return {place: max(_unit(score, low, best), LEAST_RELEVANCE) for place, score in lane.items()}


SMALL_LANE = 20
"""Places of fewer than so many say too little of what a low score is."""


def blend(lexical: Lane, vectors: Lane, *, weight: float = VECTOR_WEIGHT) -> Lane:
    """weight x vectors + (1 - weight) x lexical, each min-max-normalised within its lane; what a lane did not find
    has 0 in it, and of fewer than SMALL_LANE places 0 is the lowest: of two that words find, the second is not
    worth nothing. TeaParty blends 0.7 to 0.3; measured, 0.4 to 0.6 wins on every set."""
    places = {**lexical, **vectors}
    own, other = _min_max(lexical, is_from_zero=len(places) < SMALL_LANE), _min_max(vectors)
    mixed = {
        place: weight * other.get(place, 0.0) + (1 - weight) * own.get(place, 0.0)
        for place in places
    }
    return {place: max(value, LEAST_RELEVANCE) for place, value in mixed.items()}


def rrf(*lanes: Lane, k: int = RRF_K) -> Lane:
    """Reciprocal rank fusion: the sum of 1 / (k + rank), as a share of what the first in every active lane gets."""
    active = [lane for lane in lanes if lane]
    total: dict[Place, float] = {}
    for lane in active:
        for rank, place in enumerate(
            sorted(lane, key=lambda found: (-lane[found], found)), start=1
        ):
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


def _min_max(lane: Lane, *, is_from_zero: bool = False) -> Lane:
    finite = [score for score in lane.values() if math.isfinite(score)]
    low, best = min(finite, default=0.0), max(finite, default=0.0)
    if is_from_zero:
        low = min(low, 0.0)
    return {place: _unit(score, low, best) for place, score in lane.items()}


def _unit(score: float, low: float, best: float) -> float:
    """The place of a score between `low` (0) and `best` (1), each halved so that no difference overflows; of equals
    each is the best, and what is no number counts 0."""
    if not math.isfinite(score):
        return 0.0
    span = best / 2 - low / 2
    return (score / 2 - low / 2) / span if span else 1.0


# The nearer, the better (docs/ranking.md); institutional memory is not ranked.
SCOPE_FACTORS: Mapping[ScopeName, float] = {
    "team": 1.5,
    "project": 1.2,
    "session": 1.0,
    "global": 1.0,
}
OWN_SESSION_FACTOR = 1.5


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry counts for besides its relevance; each function is asked with the entry.

    `prominence` is bounded to F(p) = 0.5 + p / (1 + p), and `traits` say what age alone takes: F(importance x
    recency) / F(importance). Where `is_literal` (TeaParty's product) prominence counts as it stands, age only in it.
    `truth`: 1.0 where the code it cites stands or has moved, 0.5 where it changed, 0 where it is gone. `utility`: in
    [0, 1], what feedback says. `touched`: how often work was about the same thing. `session`: the caller's own job.
    """

    prominence: Callable[[Entry], float]
    traits: Callable[[Entry], Traits] = lambda _: Traits(1.0, 1.0)
    is_literal: bool = False
    truth: Callable[[Entry], float] = lambda _: 1.0
    utility: Callable[[Entry], float] = lambda _: NO_FEEDBACK
    touched: Callable[[Entry], int] = lambda _: 0
    session: str | None = None


def rank(matches: Iterable[Match], weights: Weights, relevance: Lane | None = None) -> list[Hit]:
    """Hits, best first: relevance x F(prominence) x age x scope x truth x (0.75 + 0.5 u).

    `relevance` is what the lanes were fused to, by default the share of the best lexical score. Prominence moves a
    score by a factor of 3 at most, age by 2: unbounded, they would make relevance irrelevant. Where prominence is 0 the
    entry is retired, where truth is 0 its code is gone: neither is served. Ties: most touched, last
    reinforced, then by id. A value that is no number counts as the least there is.
    """
    found = list(matches)
    fused = (
        relevance
        if relevance is not None
        else shares({place_of(m.located): m.lexical for m in found})
    )
    hits = (_hit(match, fused[place_of(match.located)], weights) for match in found)

    def order(hit: Hit) -> tuple[float, int, int, str, str, int]:
        place, entry = hit.located, hit.located.entry
        touched, day = weights.touched(entry), entry.last_reinforced.toordinal()
        return -hit.score, -touched, -day, entry.id, place.path, place.line

    return sorted(filter(None, hits), key=order)


def _hit(match: Match, relevance: float, weights: Weights) -> Hit | None:
    entry, scope = match.located.entry, match.located.scope
    prominence, truth = weights.prominence(entry), weights.truth(entry)
    if prominence <= 0 or truth <= 0:
        return None
    age = 1.0
    if weights.is_literal:
        counted = prominence if math.isfinite(prominence) else LEAST_RELEVANCE
    else:
        counted, traits = _bounded(prominence), weights.traits(entry)
        age = _bounded(traits.importance * traits.recency) / _bounded(traits.importance)
    is_own = scope.name == "session" and scope.where == weights.session
    factors = (
        ("relevance", relevance),
        ("prominence", counted),
        ("age", age),
        ("scope", OWN_SESSION_FACTOR if is_own else SCOPE_FACTORS.get(scope.name, 1.0)),
        ("truth", truth),
        ("utility", 0.75 + 0.5 * weights.utility(entry)),
    )
    return Hit(
        match.located,
        math.prod(value for _, value in factors),
        factors,
        (("lexical", match.lexical),),
    )


def _bounded(prominence: float) -> float:
    """0.5 + p / (1 + p), in [0.5, 1.5]: the lower bound for nan, the upper one for infinity."""
    if math.isnan(prominence):
        return 0.5
    return 1.5 - 1 / (1 + prominence)


def put_corrections_first(
    hits: Sequence[Hit], contradicted: Callable[[Entry], Iterable[str]]
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(what is served, what is superseded), of hits with an id each, best first.

    A correction takes the best place among its own and those of what it corrects: the entries it supersedes, also by
    way of others, and, if its type is corrective, those that it contradicts, which stay behind it. Entries that
    supersede one another in a circle all stay: nobody can say which of them holds.
    """
    places = {hit.located.entry.id: place for place, hit in enumerate(hits)}
    entries = [hit.located.entry for hit in hits]
    olders = {
        entry.id: [older for older in entry.supersedes if older in places] for entry in entries
    }
    corrected = {older for ids in olders.values() for older in ids}
    reached = {id_: _reach(id_, olders) for id_ in olders if id_ not in corrected}
    superseded = {older: newest for newest, ids in reached.items() for older in ids}

    def order(hit: Hit) -> tuple[int, int]:
        entry = hit.located.entry
        answered = contradicted(entry) if entry.type == "corrective" else ()
        own = places[entry.id]
        best = min(
            [
                own,
                *(places[id_] for id_ in (*reached.get(entry.id, ()), *answered) if id_ in places),
            ]
        )
        return best, own if best == own else -1

    served = [hit for hit in hits if hit.located.entry.id not in superseded]
    withheld = [(hit, superseded.get(hit.located.entry.id)) for hit in hits]
    return sorted(served, key=order), tuple(
        Withheld(hit, f"superseded by {by[:8]}") for hit, by in withheld if by
    )


def _reach(start: str, olders: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """What `start` supersedes, by whatever way; never itself."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = set(olders[waiting.pop()]) - found - {start}
        found |= fresh
        waiting.extend(fresh)
    return frozenset(found)


REPEAT = 0.4  # What an entry loses that says what a better one said. Measured: quality stays (docs/ranking.md).
NEAR = 0.5  # Likeness from which an entry is pushed down: what shares less is no near-duplicate.
# Copies of one id whose words are no more alike than this are two entries, of which one has the other's id.
ALIKE = 0.8


def diversify(hits: Sequence[Hit]) -> list[Hit]:
    """`hits`, best first, each near-duplicate of a better one pushed down; what stands in two files is served once.

    At each step the next hit is the one with the highest score x novelty, after maximal marginal relevance (Carbonell
    and Goldstein, SIGIR 1998): novelty is 1 - 0.4 x the Jaccard index of content words with the nearest hit already
    chosen, and 1 where that is below a half. It is a factor of the score, so that the order is that of the scores.
    Likeness is carried from step to step instead of being computed anew.
    """
    unique: list[Hit] = []
    texts: list[frozenset[str]] = []
    served: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for hit in hits:
        entry = hit.located.entry
        words = content_words(entry.text)
        if all(words != other and jaccard(words, other) <= ALIKE for other in served[entry.id]):
            unique.append(hit)
            texts.append(words)
        served[entry.id].append(words)
    # Each set of words as one integer, a bit for a word: comparing all pairs is then five times faster.
    vocabulary: dict[str, int] = {}
    bits = [
        sum(1 << vocabulary.setdefault(word, len(vocabulary)) for word in text) for text in texts
    ]
    sizes = [own.bit_count() for own in bits]
    novelty = [1.0] * len(unique)
    left = list(range(len(unique)))
    order: list[Hit] = []
    while left:
        chosen = max(left, key=lambda place: unique[place].score * novelty[place])
        left.remove(chosen)
        hit, share = unique[chosen], novelty[chosen]
        factors = (*hit.factors, ("novelty", share))
        order.append(
            hit if share == 1.0 else replace(hit, score=hit.score * share, factors=factors)
        )
        for place in left:
            shared = (bits[chosen] & bits[place]).bit_count()
            alike = shared / (sizes[chosen] + sizes[place] - shared or 1)
            if alike >= NEAR:
                novelty[place] = min(novelty[place], 1 - REPEAT * alike)
    return order


T = TypeVar("T")
NO_LIMITS: Mapping[EntryType, int] = MappingProxyType({})


def fit(
    hits: Sequence[Hit],
    max_chars: int,
    cost: Callable[[Hit], int],
    by_type: Mapping[EntryType, int] = NO_LIMITS,
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """(kept, dropped), both in the order given. A hit that is too large is passed over: a smaller one may still fit.
    `by_type` bounds what entries of one type may take of `max_chars`."""
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

    def prominence(place: int) -> float:
        value = norms[place].prominence
        return -math.inf if math.isnan(value) else value

    chosen: set[int] = set()
    for place in sorted(range(len(norms)), key=prominence, reverse=True):
        price = cost(norms[place])
        if price <= max_chars:
            chosen.add(place)
            max_chars -= price
    return _parted(norms, chosen)


def _parted(items: Sequence[T], chosen: Set[int]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    kept = tuple(item for place, item in enumerate(items) if place in chosen)
    dropped = tuple(item for place, item in enumerate(items) if place not in chosen)
    return kept, dropped
