"""Rank entries: fuse the scores of two searches, weigh them, and fit the best into a budget.

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

EntryPlace = tuple[str, int]
"""Path and line of an entry: its id may be in two files."""

EntryScores = Mapping[EntryPlace, float]
"""Scores of the entries that one search found, by words or by vectors.

Higher is better. They can be compared with scores of the same search only.
"""

VECTOR_WEIGHT = 0.4
"""For all-MiniLM-L6-v2; static embedders are weaker and do best with 0.3
(benchmarks/results/retrieval.md)."""

MIN_RELEVANCE = 1e-9
"""Least relevance of an entry that was found. With 0 its other factors would not count."""

FEW_SCORES = 20
"""The lowest of fewer scores says too little about low scores."""


class Traits(msgspec.Struct, frozen=True):
    """Properties of an entry that its age is weighed by.

    Attributes:
        importance: its importance.
        recency: its recency decay.
    """

    importance: float
    recency: float


def fuse_scores(lexical: EntryScores, vectors: EntryScores) -> EntryScores:
    """Return the relevance of each entry that the search by words or by vectors found.

    The scores of both are blended. If one search found nothing, the other scores are normalised.

    Args:
        lexical: the scores of the search by words.
        vectors: the cosines of the search by vectors.
    """
    if not lexical or not vectors:
        return normalize_scores(lexical or vectors)
    return blend_scores(lexical, vectors)


def get_entry_place(located: Located) -> EntryPlace:
    """Return the place of an entry, its key among the scores of a search."""
    return located.path, located.line


def normalize_scores(scores: EntryScores) -> EntryScores:
    """Return each score as a share of the best one.

    The least share is MIN_RELEVANCE, which NaN and infinity get, too. If there are scores below
    zero, the lowest counts as 0.
    """
    finite_scores = [score for score in scores.values() if math.isfinite(score)]
    low = min([0.0, *finite_scores])
    best = max(finite_scores, default=0.0)
    shares: dict[EntryPlace, float] = {}
    for place, score in scores.items():
        shares[place] = max(_normalize(score, low, best), MIN_RELEVANCE)
    return shares


def blend_scores(
    lexical: EntryScores, vectors: EntryScores, *, weight: float = VECTOR_WEIGHT
) -> EntryScores:
    """Return weight x vectors + (1 - weight) x lexical, each normalised to [0, 1].

    Within each search the best score becomes 1 and the lowest 0; an entry that a search did not
    find has 0 in it. If there are fewer than FEW_SCORES entries, a lexical score of 0 becomes 0
    instead of the lowest: of two entries that words find, the second is not worthless. TeaParty
    weighs vectors 0.7; by our measurements 0.4 is best on every set
    (benchmarks/results/retrieval.md).

    Args:
        lexical: scores of the search by words.
        vectors: cosines of the search by vectors.
        weight: the share of the vectors.
    """
    places = {**lexical, **vectors}
    lexical_shares = _scale_to_range(lexical, is_from_zero=len(places) < FEW_SCORES)
    vector_shares = _scale_to_range(vectors)
    relevance: dict[EntryPlace, float] = {}
    for place in places:
        lexical_part = (1 - weight) * lexical_shares.get(place, 0.0)
        vector_part = weight * vector_shares.get(place, 0.0)
        relevance[place] = max(vector_part + lexical_part, MIN_RELEVANCE)
    return relevance


def _scale_to_range(scores: EntryScores, *, is_from_zero: bool = False) -> EntryScores:
    """Return scores scaled so that the best is 1 and the lowest 0.

    Args:
        scores: the scores.
        is_from_zero: whether 0 is scaled to 0 instead, if all scores are above it.
    """
    finite_scores = [score for score in scores.values() if math.isfinite(score)]
    low = min(finite_scores, default=0.0)
    best = max(finite_scores, default=0.0)
    if is_from_zero:
        low = min(low, 0.0)
    return {place: _normalize(score, low, best) for place, score in scores.items()}


def _normalize(score: float, low: float, best: float) -> float:
    """Return the position of a score between `low` (0) and `best` (1).

    If all scores are equal each is the best; a score that is no number counts 0.
    """
    if not math.isfinite(score):
        return 0.0
    # Halves, so that no difference overflows.
    half_span = best / 2 - low / 2
    return (score / 2 - low / 2) / half_span if half_span else 1.0


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
        prominence: its prominence p. It becomes the factor F(p) = 0.5 + p / (1 + p), which is
            between 0.5 and 1.5.
        traits: its importance and recency, from which the factor of age is computed.
        truth: 1.0 where the cited code is unchanged or moved, 0.5 where it changed, 0 where it is
            gone.
        utility: its worth according to feedback, in [0, 1].
        touch_count: how often work was about the same code.
        session: the caller's own job.
    """

    prominence: Callable[[Entry], float]
    traits: Callable[[Entry], Traits] = lambda _: Traits(1.0, 1.0)
    truth: Callable[[Entry], float] = lambda _: 1.0
    utility: Callable[[Entry], float] = lambda _: NO_FEEDBACK
    touch_count: Callable[[Entry], int] = lambda _: 0
    session: str | None = None


def rank(
    matches: Iterable[Match], weights: Weights, relevance: EntryScores | None = None
) -> list[Hit]:
    """Return hits by their score, best first.

    The score is the product of the factors in `_make_hit`. An entry whose prominence is 0 is
    retired, and the code of one whose truth is 0 is gone: neither is returned. Of equal scores the
    most touched entry comes first, then the last reinforced.

    Args:
        matches: the entries that were found.
        weights: the factors other than relevance.
        relevance: the fused scores of the searches; by default the lexical scores as shares of the
            best.
    """
    matches = list(matches)
    if relevance is None:
        lexical = {get_entry_place(match.located): match.lexical for match in matches}
        relevance = normalize_scores(lexical)
    hits: list[Hit] = []
    for match in matches:
        hit = _make_hit(match, relevance[get_entry_place(match.located)], weights)
        if hit is not None:
            hits.append(hit)
    return sorted(hits, key=lambda hit: _get_rank_key(hit, weights.touch_count(hit.located.entry)))


def _get_rank_key(hit: Hit, touch_count: int) -> tuple[float, int, int, str, str, int]:
    """Return the key that sorts the best hit first: score, touches, last reinforcement, place."""
    located = hit.located
    entry = located.entry
    last_day = entry.last_reinforced.toordinal()
    return -hit.score, -touch_count, -last_day, entry.id, located.path, located.line


def _make_hit(match: Match, relevance: float, weights: Weights) -> Hit | None:
    """Return a match as a hit, with the factors whose product is its score.

    The factors are relevance x F(prominence) x age x scope x truth x utility, where F is the
    function `_bound_factor`. Age is F(importance x recency) / F(importance), which is 1 for a new
    entry and falls to a half at most. Utility is 1 for an entry without feedback. Prominence
    changes a score by a factor of 3 at most, age by 2: unbounded, they would make relevance
    irrelevant.

    Args:
        match: an entry that was found.
        relevance: how well it matches the task, in [0, 1].
        weights: the other factors.

    Returns:
        The hit; None if the entry is retired (prominence 0) or its code is gone (truth 0).
    """
    entry = match.located.entry
    scope = match.located.scope
    prominence = weights.prominence(entry)
    truth = weights.truth(entry)
    if prominence <= 0 or truth <= 0:
        return None

    traits = weights.traits(entry)
    age = _bound_factor(traits.importance * traits.recency) / _bound_factor(traits.importance)
    is_own_session = scope.name == "session" and scope.where == weights.session
    scope_factor = OWN_SESSION_FACTOR if is_own_session else SCOPE_FACTORS.get(scope.name, 1.0)
    factors = (
        ("relevance", relevance),
        ("prominence", _bound_factor(prominence)),
        ("age", age),
        ("scope", scope_factor),
        ("truth", truth),
        ("utility", 0.75 + 0.5 * weights.utility(entry)),  # From 0.75 to 1.25.
    )
    score = math.prod(value for _, value in factors)
    return Hit(match.located, score, factors, (("lexical", match.lexical),))


def _bound_factor(prominence: float) -> float:
    """Return 0.5 + p / (1 + p), in [0.5, 1.5]: the lower bound for NaN, the upper for infinity."""
    if math.isnan(prominence):
        return 0.5
    return 1.5 - 1 / (1 + prominence)


def order_corrections(
    hits: Sequence[Hit], find_contradicted: Callable[[Entry], Iterable[str]]
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Move corrections before the entries that they correct, and withhold superseded entries.

    An entry corrects the entries that it supersedes, directly or through others. These are
    withheld. If its type is corrective, it also corrects those that it contradicts. These are
    served after it. A correction takes its own position or, if it is better, the position of an
    entry that it corrects. Entries that supersede one another in a circle are all served: nobody
    can say which of them holds.

    Args:
        hits: hits of different ids, best first.
        find_contradicted: returns the ids of the entries that an entry contradicts.

    Returns:
        The hits to serve, in order, and the superseded ones.
    """
    positions = {hit.located.entry.id: position for position, hit in enumerate(hits)}
    superseded_ids = _find_superseded([hit.located.entry for hit in hits])
    superseded_by: dict[str, str] = {}
    for newest_id, older_ids in superseded_ids.items():
        superseded_by.update(dict.fromkeys(older_ids, newest_id))

    served: list[Hit] = []
    withheld: list[Withheld] = []
    sort_keys: dict[str, tuple[int, bool]] = {}  # By id of the entry.
    for hit in hits:
        entry = hit.located.entry
        superseding_id = superseded_by.get(entry.id)
        if superseding_id is not None:
            withheld.append(Withheld(hit, f"superseded by {superseding_id[:8]}"))
            continue
        corrected_ids = set(superseded_ids.get(entry.id, ()))
        if entry.type == "corrective":
            corrected_ids.update(find_contradicted(entry))
        served.append(hit)
        sort_keys[entry.id] = _find_correction_position(entry.id, corrected_ids, positions)
    served.sort(key=lambda hit: sort_keys[hit.located.entry.id])
    return served, tuple(withheld)


def _find_correction_position(
    entry_id: str, corrected_ids: Iterable[str], positions: Mapping[str, int]
) -> tuple[int, bool]:
    """Return the position at which an entry is served, and whether this is its own position.

    Sorted by both, a correction comes before the entry whose position it takes.

    Args:
        entry_id: the id of the entry.
        corrected_ids: the ids of the entries that it corrects.
        positions: the positions of entries by their scores.
    """
    own_position = positions[entry_id]
    corrected_positions = [positions[item] for item in corrected_ids if item in positions]
    best_position = min([own_position, *corrected_positions])
    return best_position, best_position == own_position


def _find_superseded(entries: Sequence[Entry]) -> dict[str, frozenset[str]]:
    """Return the ids that each newest entry supersedes, directly or through others, by its id.

    The newest entries are those that no other of the entries supersedes. Ids of which there is no
    entry do not count.
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
    where that index is below a half. It becomes a factor of the score, so that the hits are in
    the order of their scores.

    Args:
        hits: hits, best first.
    """
    unique_hits, word_sets = _drop_copies(hits)
    similarities = _find_near_duplicates(word_sets)
    if not similarities:
        return sorted(unique_hits, key=lambda hit: -hit.score)

    novelty = [1.0] * len(unique_hits)
    scores = [hit.score for hit in unique_hits]
    remaining_indices = list(range(len(unique_hits)))
    diversified: list[Hit] = []
    while remaining_indices:
        chosen_index = max(remaining_indices, key=scores.__getitem__)
        remaining_indices.remove(chosen_index)
        diversified.append(_apply_novelty(unique_hits[chosen_index], novelty[chosen_index]))
        # The novelty of the others is updated instead of being computed again from all chosen.
        for index, similarity in similarities.get(chosen_index, ()):
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


def fit_hits(
    hits: Sequence[Hit],
    max_chars: int,
    count_chars: Callable[[Hit], int],
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """Choose the hits that fit into a budget of characters, the best first.

    A hit that is too large is passed over: a smaller one may still fit.

    Args:
        hits: hits, best first.
        max_chars: the budget in characters.
        count_chars: returns how many characters a hit takes.

    Returns:
        The chosen and the dropped hits, both in their order.
    """
    remaining_chars = max_chars
    chosen_indices: set[int] = set()
    for index, hit in enumerate(hits):
        hit_chars = count_chars(hit)
        if hit_chars <= remaining_chars:
            chosen_indices.add(index)
            remaining_chars -= hit_chars
    return _split_by_index(hits, chosen_indices)


def fit_norms(
    norms: Sequence[Norm], max_chars: int, count_chars: Callable[[Norm], int]
) -> tuple[tuple[Norm, ...], tuple[Norm, ...]]:
    """Choose the norms that fit into a budget of characters, the most prominent first.

    A norm is a part of institutional memory, which is served whatever the task is.

    Args:
        norms: the norms.
        max_chars: the budget in characters.
        count_chars: returns how many characters a norm takes.

    Returns:
        The chosen and the dropped norms, both in their order.
    """

    def prominence(index: int) -> float:
        value = norms[index].prominence
        return -math.inf if math.isnan(value) else value

    remaining_chars = max_chars
    chosen_indices: set[int] = set()
    for index in sorted(range(len(norms)), key=prominence, reverse=True):
        norm_chars = count_chars(norms[index])
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
