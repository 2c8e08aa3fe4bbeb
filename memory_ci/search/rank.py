"""Ranking: lanes fused to one relevance, weighed by factors, diversified and fitted into a budget.

Entries are served whole, and those that are dropped are named.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import NO_FEEDBACK, Entry, Located, ScopeName
from memory_ci.records.retrieval import Hit, Match, Norm, Withheld
from memory_ci.text import content_words, jaccard

Place = tuple[str, int]
"""Path and line of an entry: its id may be in two files."""

Lane = Mapping[Place, float]
"""Scores of the entries that a lane found: higher is better, comparable within the lane only."""

VECTOR_WEIGHT = 0.4
"""For all-MiniLM-L6-v2; static embedders are weaker and do best with 0.3
(benchmarks/results/retrieval.md)."""

LEAST_RELEVANCE = 1e-9  # Of a match whose score is no number: it was found nevertheless.

SMALL_LANE = 20
"""Places. The lowest score of a smaller lane says too little about low scores."""


class Traits(NamedTuple):
    """Properties of an entry that its age is weighed by.

    Attributes:
        importance: its importance.
        recency: its recency decay.
    """

    importance: float
    recency: float


def fuse(lexical: Lane, vectors: Lane) -> Lane:
    """Return the relevance of each entry that a lane found; a lane that is alone is normalised.

    Args:
        lexical: scores of the lexical lane.
        vectors: cosines of the vector lane.
    """
    if not lexical or not vectors:
        return normalize_lane(lexical or vectors)
    return blend(lexical, vectors)


def get_place(located: Located) -> Place:
    """Return the place of an entry, its key in every lane."""
    return located.path, located.line


def normalize_lane(lane: Lane) -> Lane:
    """Return each score as a share of the best one. A score that is no number counts least."""
    finite = [score for score in lane.values() if math.isfinite(score)]
    low = min([0.0, *finite])
    best = max(finite, default=0.0)
    return {
        place: max(_normalize(score, low, best), LEAST_RELEVANCE) for place, score in lane.items()
    }


def blend(lexical: Lane, vectors: Lane, *, weight: float = VECTOR_WEIGHT) -> Lane:
    """Return weight x vectors + (1 - weight) x lexical, each min-max-normalised within its lane.

    An entry that a lane did not find has 0 in it. In a lexical lane of fewer than SMALL_LANE places
    0 is the lowest score: of two entries that words find, the second is not worthless. TeaParty
    blends 0.7 to 0.3; measured, 0.4 to 0.6 wins on every set.
    """
    places = {**lexical, **vectors}
    lexical_shares = _scale_to_range(lexical, is_from_zero=len(places) < SMALL_LANE)
    vector_shares = _scale_to_range(vectors)
    relevance: dict[Place, float] = {}
    for place in places:
        lexical_part = (1 - weight) * lexical_shares.get(place, 0.0)
        vector_part = weight * vector_shares.get(place, 0.0)
        relevance[place] = max(vector_part + lexical_part, LEAST_RELEVANCE)
    return relevance


def _scale_to_range(lane: Lane, *, is_from_zero: bool = False) -> Lane:
    """Return min-max-normalised scores; `is_from_zero` if a low of more than 0 counts as 0."""
    finite = [score for score in lane.values() if math.isfinite(score)]
    low = min(finite, default=0.0)
    best = max(finite, default=0.0)
    if is_from_zero:
        low = min(low, 0.0)
    return {place: _normalize(score, low, best) for place, score in lane.items()}


def _normalize(score: float, low: float, best: float) -> float:
    """Return the position of a score between `low` (0) and `best` (1).

    If all scores are equal each is the best; a score that is no number counts 0. The scores are
    halved so that no difference overflows.
    """
    if not math.isfinite(score):
        return 0.0
    span = best / 2 - low / 2
    return (score / 2 - low / 2) / span if span else 1.0


SCOPE_FACTORS: Mapping[ScopeName, float] = {
    "team": 1.5,
    "project": 1.2,
    "session": 1.0,
    "global": 1.0,
}
"""The nearer, the better (docs/serving.md); institutional memory is not ranked."""

OWN_SESSION_FACTOR = 1.5


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The factors of an entry other than its relevance; each function is called with the entry.

    Attributes:
        prominence: its prominence p, bounded to F(p) = 0.5 + p / (1 + p).
        traits: its importance and recency, for the factor of age, which is
            F(importance x recency) / F(importance).
        truth: 1.0 where the cited code is unchanged or moved, 0.5 where it changed, 0 where it is
            gone.
        utility: its worth according to feedback, in [0, 1].
        touched: how often work was about the same code.
        session: the caller's own job.
    """

    prominence: Callable[[Entry], float]
    traits: Callable[[Entry], Traits] = lambda _: Traits(1.0, 1.0)
    truth: Callable[[Entry], float] = lambda _: 1.0
    utility: Callable[[Entry], float] = lambda _: NO_FEEDBACK
    touched: Callable[[Entry], int] = lambda _: 0
    session: str | None = None


def rank(matches: Iterable[Match], weights: Weights, relevance: Lane | None = None) -> list[Hit]:
    """Return hits, best first: relevance x F(prominence) x age x scope x truth x (0.75 + 0.5 u).

    Prominence moves a score by a factor of 3 at most, age by 2: unbounded, they would make
    relevance irrelevant. An entry whose prominence is 0 is retired, and the code of one whose truth
    is 0 is gone: neither is served. Ties are broken by the most touched, the last reinforced, then
    by id. A value that is no number counts as the least possible.

    Args:
        matches: the entries that were found.
        weights: the factors other than relevance.
        relevance: the fused lanes; by default the lexical scores as shares of the best.
    """
    matches = list(matches)
    if relevance is None:
        relevance = normalize_lane({get_place(match.located): match.lexical for match in matches})
    hits: list[Hit] = []
    for match in matches:
        hit = _make_hit(match, relevance[get_place(match.located)], weights)
        if hit is not None:
            hits.append(hit)

    def sort_key(hit: Hit) -> tuple[float, int, int, str, str, int]:
        located = hit.located
        entry = located.entry
        day = entry.last_reinforced.toordinal()
        return -hit.score, -weights.touched(entry), -day, entry.id, located.path, located.line

    return sorted(hits, key=sort_key)


def _make_hit(match: Match, relevance: float, weights: Weights) -> Hit | None:
    """Return a match with its factors; None if it is not served."""
    entry = match.located.entry
    scope = match.located.scope
    prominence = weights.prominence(entry)
    truth = weights.truth(entry)
    if prominence <= 0 or truth <= 0:
        return None

    traits = weights.traits(entry)
    age = _bound(traits.importance * traits.recency) / _bound(traits.importance)
    is_own_session = scope.name == "session" and scope.where == weights.session
    scope_factor = OWN_SESSION_FACTOR if is_own_session else SCOPE_FACTORS.get(scope.name, 1.0)
    factors = (
        ("relevance", relevance),
        ("prominence", _bound(prominence)),
        ("age", age),
        ("scope", scope_factor),
        ("truth", truth),
        ("utility", 0.75 + 0.5 * weights.utility(entry)),
    )
    score = math.prod(value for _, value in factors)
    return Hit(match.located, score, factors, (("lexical", match.lexical),))


def _bound(prominence: float) -> float:
    """Return 0.5 + p / (1 + p), in [0.5, 1.5]: the lower bound for NaN, the upper for infinity."""
    if math.isnan(prominence):
        return 0.5
    return 1.5 - 1 / (1 + prominence)


def order_corrections(
    hits: Sequence[Hit], contradicted: Callable[[Entry], Iterable[str]]
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Move corrections before the corrected entries, and withhold superseded entries.

    A correction takes the best position among its own and those of the entries it corrects. These
    are the entries that it supersedes, directly or through others, and, if its type is corrective,
    those that it contradicts, which are served after it. Entries that supersede one another in a
    circle are all served: nobody can say which of them holds.

    Args:
        hits: hits of different ids, best first.
        contradicted: returns the ids of the entries that an entry contradicts.

    Returns:
        The hits to serve, in order, and the superseded ones.
    """
    positions = {hit.located.entry.id: position for position, hit in enumerate(hits)}
    superseded_by: dict[str, str] = {}
    superseded_ids = _find_superseded([hit.located.entry for hit in hits])
    for newest_id, older_ids in superseded_ids.items():
        superseded_by.update(dict.fromkeys(older_ids, newest_id))

    def sort_key(hit: Hit) -> tuple[int, int]:
        entry = hit.located.entry
        corrected = set(superseded_ids.get(entry.id, ()))
        if entry.type == "corrective":
            corrected.update(contradicted(entry))
        position = positions[entry.id]
        best = min([position, *(positions[id_] for id_ in corrected if id_ in positions)])
        # A correction comes before the entry whose position it takes.
        return best, position if best == position else -1

    served: list[Hit] = []
    withheld: list[Withheld] = []
    for hit in hits:
        newest = superseded_by.get(hit.located.entry.id)
        if newest is None:
            served.append(hit)
        else:
            withheld.append(Withheld(hit, f"superseded by {newest[:8]}"))
    return sorted(served, key=sort_key), tuple(withheld)


def _find_superseded(entries: Sequence[Entry]) -> dict[str, frozenset[str]]:
    """Return the ids that each entry supersedes which none supersedes itself."""
    ids = {entry.id for entry in entries}
    older_ids = {
        entry.id: [older for older in entry.supersedes if older in ids] for entry in entries
    }
    all_older_ids = set().union(*older_ids.values())
    return {
        entry_id: _follow(entry_id, older_ids)
        for entry_id in older_ids
        if entry_id not in all_older_ids
    }


def _follow(start: str, older_ids: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return all ids that `start` supersedes, directly or through others; never itself."""
    reached: set[str] = set()
    pending = [start]
    while pending:
        new_ids = set(older_ids[pending.pop()]) - reached - {start}
        reached |= new_ids
        pending.extend(new_ids)
    return frozenset(reached)


NOVELTY_LOSS = 0.4
"""Share of its score that an exact repetition loses. Measured: quality stays
(benchmarks/results/retrieval.md)."""

NEAR_DUPLICATE = 0.5
"""Jaccard index from which an entry is a near duplicate and is pushed down."""

SAME_ENTRY = 0.8
"""Jaccard index above which entries of one id are copies; less similar ones are two entries, one of
which has the other's id."""


def diversify(hits: Sequence[Hit]) -> list[Hit]:
    """Push down near duplicates of better hits, and drop copies of an entry in other files.

    At each step the next hit is the one with the highest score x novelty, after maximal marginal
    relevance (Carbonell and Goldstein, SIGIR 1998). Novelty is 1 - 0.4 x the Jaccard index of
    content words with the nearest hit already chosen, and 1 where that is below a half. It becomes
    a factor of the score, so that the order is that of the scores.

    Args:
        hits: hits, best first.
    """
    unique, texts = _drop_copies(hits)
    similarities = _find_near_duplicates(texts)
    if not similarities:
        return sorted(unique, key=lambda hit: -hit.score)

    novelty = [1.0] * len(unique)
    scores = [hit.score for hit in unique]
    remaining = list(range(len(unique)))
    diversified: list[Hit] = []
    while remaining:
        chosen = max(remaining, key=scores.__getitem__)
        remaining.remove(chosen)
        diversified.append(_apply_novelty(unique[chosen], novelty[chosen]))
        for index, similarity in similarities.get(chosen, ()):
            novelty[index] = min(novelty[index], 1 - NOVELTY_LOSS * similarity)
            scores[index] = unique[index].score * novelty[index]
    return diversified


def _find_near_duplicates(texts: Sequence[frozenset[str]]) -> dict[int, list[tuple[int, float]]]:
    """Return for each text with near duplicates their indices and Jaccard indices."""
    word_bits = _encode_as_bits(texts)
    sizes = [bits.bit_count() for bits in word_bits]
    similarities: dict[int, list[tuple[int, float]]] = {}
    for first, bits in enumerate(word_bits):
        for second in range(first):
            shared = (bits & word_bits[second]).bit_count()
            size = sizes[first] + sizes[second]
            # A Jaccard index below NEAR_DUPLICATE, without a division: most pairs end here.
            if not shared or (1 + NEAR_DUPLICATE) * shared < NEAR_DUPLICATE * size:
                continue
            similarity = shared / (size - shared)
            similarities.setdefault(first, []).append((second, similarity))
            similarities.setdefault(second, []).append((first, similarity))
    return similarities


def _drop_copies(hits: Sequence[Hit]) -> tuple[list[Hit], list[frozenset[str]]]:
    """Return hits without copies of a better one, and the content words of each."""
    unique: list[Hit] = []
    texts: list[frozenset[str]] = []
    texts_by_id: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for hit in hits:
        entry = hit.located.entry
        text = content_words(entry.text)
        copies = texts_by_id[entry.id]
        if all(text != copy and jaccard(text, copy) <= SAME_ENTRY for copy in copies):
            unique.append(hit)
            texts.append(text)
        copies.append(text)
    return unique, texts


def _encode_as_bits(texts: Iterable[frozenset[str]]) -> list[int]:
    """Return each set of words as an integer with a bit for each word.

    To compare all pairs of integers is five times faster than to compare the sets.
    """
    vocabulary: dict[str, int] = {}
    encoded: list[int] = []
    for text in texts:
        bits = (1 << vocabulary.setdefault(word, len(vocabulary)) for word in text)
        encoded.append(sum(bits))
    return encoded


def _apply_novelty(hit: Hit, novelty: float) -> Hit:
    if novelty == 1.0:
        return hit
    factors = (*hit.factors, ("novelty", novelty))
    return replace(hit, score=hit.score * novelty, factors=factors)


T = TypeVar("T")


def fit(
    hits: Sequence[Hit],
    max_chars: int,
    cost: Callable[[Hit], int],
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """Choose the hits that fit into a budget.

    A hit that is too large is passed over: a smaller one may still fit.

    Args:
        hits: hits, best first.
        max_chars: the budget in characters.
        cost: returns how many characters a hit takes.

    Returns:
        The chosen and the dropped hits, both in their order.
    """
    remaining = max_chars
    chosen: set[int] = set()
    for index, hit in enumerate(hits):
        price = cost(hit)
        if price > remaining:
            continue
        chosen.add(index)
        remaining -= price
    return _split_by_index(hits, chosen)


def fit_norms(
    norms: Sequence[Norm], max_chars: int, cost: Callable[[Norm], int]
) -> tuple[tuple[Norm, ...], tuple[Norm, ...]]:
    """Choose the norms that fit into a budget, the most prominent first.

    Returns:
        The chosen and the dropped norms, both in their order.
    """

    def prominence(index: int) -> float:
        value = norms[index].prominence
        return -math.inf if math.isnan(value) else value

    chosen: set[int] = set()
    for index in sorted(range(len(norms)), key=prominence, reverse=True):
        price = cost(norms[index])
        if price <= max_chars:
            chosen.add(index)
            max_chars -= price
    return _split_by_index(norms, chosen)


def _split_by_index(items: Sequence[T], chosen: Set[int]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the chosen items and the others."""
    chosen_items = tuple(item for index, item in enumerate(items) if index in chosen)
    dropped_items = tuple(item for index, item in enumerate(items) if index not in chosen)
    return chosen_items, dropped_items
