"""Ranking: lanes fused to one relevance, weighed by factors, diversified and fitted into a budget.

Entries are served whole, and those that are dropped are named.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TypeVar

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


class Traits(msgspec.Struct, frozen=True):
    """Properties of an entry that its age is weighed by.

    Attributes:
        importance: its importance.
        recency: its recency decay.
    """

    importance: float
    recency: float


def fuse(lexical: Lane, vectors: Lane) -> Lane:
    """Return the relevance of each entry that the search by words or by vectors found.

    A lane is the result of one search: scores by the path and line of entries. Both lanes are
    blended; if one of them is empty, the scores of the other are normalised.

    Args:
        lexical: the scores of the search by words.
        vectors: the cosines of the search by vectors.
    """
    if not lexical or not vectors:
        return normalize_lane(lexical or vectors)
    return blend(lexical, vectors)


def get_place(located: Located) -> Place:
    """Return the place of an entry, its key in every lane."""
    return located.path, located.line


def normalize_lane(lane: Lane) -> Lane:
    """Return each score as a share of the best one; NaN and infinity count as the lowest."""
    finite = [score for score in lane.values() if math.isfinite(score)]
    low = min([0.0, *finite])
    best = max(finite, default=0.0)
    return {
        place: max(_normalize(score, low, best), LEAST_RELEVANCE) for place, score in lane.items()
    }


def blend(lexical: Lane, vectors: Lane, *, weight: float = VECTOR_WEIGHT) -> Lane:
    """Return weight x vectors + (1 - weight) x lexical, each min-max-normalised within its lane.

    An entry that a lane did not find has 0 in it. With fewer than SMALL_LANE entries the lexical
    scores are normalised from 0 instead of from the lowest: of two entries that words find, the
    second is not worthless. TeaParty blends 0.7 to 0.3; measured, 0.4 to 0.6 wins on every set.

    Args:
        lexical: scores of the search by words.
        vectors: cosines of the search by vectors.
        weight: the share of the vectors.
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
    """Return hits by their score, best first.

    The score is relevance x F(prominence) x age x scope x truth x (0.75 + 0.5 x utility), as
    `Weights` explains them. Prominence changes a score by a factor of 3 at most, age by 2:
    unbounded, they would make relevance irrelevant. An entry whose prominence is 0 is retired, and
    the code of one whose truth is 0 is gone: neither is returned. Of equal scores the most touched
    entry comes first, then the last reinforced. NaN counts as the least possible value.

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
        last_day = entry.last_reinforced.toordinal()
        return -hit.score, -weights.touched(entry), -last_day, entry.id, located.path, located.line

    return sorted(hits, key=sort_key)


def _make_hit(match: Match, relevance: float, weights: Weights) -> Hit | None:
    """Return a match with its score and the factors of it; None if it is not served."""
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
    """Move corrections before the entries that they correct, and withhold superseded entries.

    A correction takes the best position among its own and those of the entries that it corrects. An
    entry corrects those that it supersedes, directly or through others, and, if its type is
    corrective, those that it contradicts, which are served after it. Entries that supersede one
    another in a circle are all served: nobody can say which of them holds.

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
        corrected_ids = set(superseded_ids.get(entry.id, ()))
        if entry.type == "corrective":
            corrected_ids.update(contradicted(entry))
        own_position = positions[entry.id]
        best_position = own_position
        for corrected_id in corrected_ids:
            best_position = min(best_position, positions.get(corrected_id, own_position))
        # -1 sorts a correction before the entry whose position it takes.
        is_moved = best_position < own_position
        return best_position, -1 if is_moved else own_position

    served: list[Hit] = []
    withheld: list[Withheld] = []
    for hit in hits:
        superseding_id = superseded_by.get(hit.located.entry.id)
        if superseding_id is None:
            served.append(hit)
        else:
            withheld.append(Withheld(hit, f"superseded by {superseding_id[:8]}"))
    return sorted(served, key=sort_key), tuple(withheld)


def _find_superseded(entries: Sequence[Entry]) -> dict[str, frozenset[str]]:
    """Return for each entry that no other supersedes the ids that it supersedes.

    It supersedes them directly or through others. Ids of other entries do not count.
    """
    ids = {entry.id for entry in entries}
    older_ids_by_id: dict[str, list[str]] = {}
    for entry in entries:
        older_ids_by_id[entry.id] = [older_id for older_id in entry.supersedes if older_id in ids]
    all_older_ids = set().union(*older_ids_by_id.values())
    newest_ids = [entry_id for entry_id in older_ids_by_id if entry_id not in all_older_ids]
    return {entry_id: _list_reachable(entry_id, older_ids_by_id) for entry_id in newest_ids}


def _list_reachable(start_id: str, older_ids_by_id: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return all ids that an entry supersedes, directly or through others; never its own."""
    reached_ids: set[str] = set()
    pending_ids = [start_id]
    while pending_ids:
        older_ids = older_ids_by_id[pending_ids.pop()]
        new_ids = set(older_ids) - reached_ids - {start_id}
        reached_ids |= new_ids
        pending_ids.extend(new_ids)
    return frozenset(reached_ids)


NOVELTY_LOSS = 0.4
"""Share of its score that an exact repetition loses. Measured: quality stays
(benchmarks/results/retrieval.md)."""

NEAR_DUPLICATE = 0.5
"""Jaccard index from which an entry is a near duplicate and is pushed down."""

SAME_ENTRY = 0.8
"""Jaccard index above which entries of one id are copies; less similar ones are two entries, one of
which has the other's id."""


def diversify(hits: Sequence[Hit]) -> list[Hit]:
    """Lower the scores of near duplicates of better hits, and drop copies of an entry.

    The hits are chosen one by one, each time the one with the highest score x novelty, after
    maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998). Novelty is
    1 - 0.4 x the Jaccard index of content words with the most similar hit chosen before, and 1
    where that index is below a half. It becomes a factor of the score, so that the order is that of
    the scores.

    Args:
        hits: hits, best first.
    """
    unique_hits, word_sets = _drop_copies(hits)
    similarities = _find_near_duplicates(word_sets)
    if not similarities:
        return sorted(unique_hits, key=lambda hit: -hit.score)

    novelty = [1.0] * len(unique_hits)
    scores = [hit.score for hit in unique_hits]
    remaining = list(range(len(unique_hits)))
    diversified: list[Hit] = []
    while remaining:
        chosen = max(remaining, key=scores.__getitem__)
        remaining.remove(chosen)
        diversified.append(_apply_novelty(unique_hits[chosen], novelty[chosen]))
        # The novelty of the others is updated instead of being computed again from all chosen.
        for index, similarity in similarities.get(chosen, ()):
            novelty[index] = min(novelty[index], 1 - NOVELTY_LOSS * similarity)
            scores[index] = unique_hits[index].score * novelty[index]
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
    """Return hits without copies of a better hit, and the content words of each.

    Copies have the same id and nearly the same words: one entry in two files.
    """
    unique_hits: list[Hit] = []
    word_sets: list[frozenset[str]] = []
    word_sets_by_id: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for hit in hits:
        entry = hit.located.entry
        words = content_words(entry.text)
        better_word_sets = word_sets_by_id[entry.id]
        is_copy = any(
            words == better_words or jaccard(words, better_words) > SAME_ENTRY
            for better_words in better_word_sets
        )
        if not is_copy:
            unique_hits.append(hit)
            word_sets.append(words)
        better_word_sets.append(words)
    return unique_hits, word_sets


def _encode_as_bits(word_sets: Iterable[frozenset[str]]) -> list[int]:
    """Return each set of words as an integer with a bit for each word.

    To compare all pairs of integers is five times faster than to compare the sets.
    """
    bit_numbers: dict[str, int] = {}
    encoded: list[int] = []
    for words in word_sets:
        bits = (1 << bit_numbers.setdefault(word, len(bit_numbers)) for word in words)
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
    """Choose the hits that fit into a budget of characters, the best first.

    A hit that is too large is passed over: a smaller one may still fit.

    Args:
        hits: hits, best first.
        max_chars: the budget in characters.
        cost: returns how many characters a hit takes.

    Returns:
        The chosen and the dropped hits, both in their order.
    """
    remaining_chars = max_chars
    chosen_indices: set[int] = set()
    for index, hit in enumerate(hits):
        hit_chars = cost(hit)
        if hit_chars <= remaining_chars:
            chosen_indices.add(index)
            remaining_chars -= hit_chars
    return _split_by_index(hits, chosen_indices)


def fit_norms(
    norms: Sequence[Norm], max_chars: int, cost: Callable[[Norm], int]
) -> tuple[tuple[Norm, ...], tuple[Norm, ...]]:
    """Choose the norms, served whatever the task, that fit into a budget of characters.

    The most prominent are chosen first.

    Args:
        norms: the norms.
        max_chars: the budget in characters.
        cost: returns how many characters a norm takes.

    Returns:
        The chosen and the dropped norms, both in their order.
    """

    def prominence(index: int) -> float:
        value = norms[index].prominence
        return -math.inf if math.isnan(value) else value

    remaining_chars = max_chars
    chosen_indices: set[int] = set()
    for index in sorted(range(len(norms)), key=prominence, reverse=True):
        norm_chars = cost(norms[index])
        if norm_chars <= remaining_chars:
            chosen_indices.add(index)
            remaining_chars -= norm_chars
    return _split_by_index(norms, chosen_indices)


def _split_by_index(
    items: Sequence[T], chosen_indices: Set[int]
) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the items with the chosen indices, and the others."""
    chosen_items = tuple(item for index, item in enumerate(items) if index in chosen_indices)
    dropped_items = tuple(item for index, item in enumerate(items) if index not in chosen_indices)
    return chosen_items, dropped_items
