"""Ranking: the entries that a task's words find, in the order in which they are served.

`eval retrieval` measures it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.commands.retrieve.options import RetrieveOptions, SearchRequest
from memory_ci.lifecycle.prominence import (
    Retention,
    effective_importance,
    prominence,
    ranking_prominence,
    recency,
)
from memory_ci.lifecycle.relations import relations_of
from memory_ci.memory.workspace import Workspace
from memory_ci.records.config import Config, Decay
from memory_ci.records.entry import NO_FEEDBACK, Entry, Located
from memory_ci.records.retrieval import Hit, Match, Mode, Strength, Withheld
from memory_ci.search.database import Index
from memory_ci.search.query import Corpus, build_terms
from memory_ci.search.rank import (
    Lane,
    Place,
    Traits,
    Weights,
    diversify,
    fuse,
    place_of,
    put_corrections_first,
    rank,
    weigh_outcome,
)
from memory_ci.search.search import (
    SHOWN_STATUSES,
    Filters,
    count_entries,
    count_holding,
    list_entries,
    list_feedback,
    list_held,
    list_naming,
    list_session_places,
    search,
)
from memory_ci.search.strength import COSINE_SHIFT, lexical_lane, margin, verdict
from memory_ci.text import NAMES_CODE

if TYPE_CHECKING:
    from memory_ci.lifecycle.episodes import Heirs
    from memory_ci.lifecycle.utility import Utility
    from memory_ci.records.episode import Feedback
    from memory_ci.search.embedders import EmbedderChoice

LEAST_JUDGED = 100
"""Candidates that are judged and diversified at least; also twice as many as are requested."""

NEAR = 0.01
"""The relevance of an entry of a file's team scope beside one that cites the file: it comes after that
one, whatever its age."""


class FeedbackWeights(msgspec.Struct, frozen=True):
    """What feedback says of entries, by id; entries without feedback are missing.

    Attributes:
        today: the day that ages are counted to.
        decay: the curve of recency.
        utilities: the utility of each entry.
        retentions: how long each entry is retained, under the decay `fsrs`.
    """

    today: date
    decay: Decay
    utilities: Mapping[str, Utility] = {}
    retentions: Mapping[str, Retention] = {}

    def utility(self, entry: Entry) -> float:
        """Return the utility of an entry, from 0 to 1."""
        utility = self.utilities.get(entry.id)
        return utility.value if utility else NO_FEEDBACK

    def touched(self, entry: Entry) -> int:
        """Return how often work that was served an entry was about the same thing."""
        utility = self.utilities.get(entry.id)
        return utility.touched if utility else 0

    def recency(self, entry: Entry) -> float:
        """Return the recency of an entry, from 0 to 1."""
        return recency(entry, self.today, self.decay, self.retentions.get(entry.id))

    def traits(self, entry: Entry) -> Traits:
        """Return importance, recency and outcome of an entry."""
        outcome = weigh_outcome(self.utility(entry))
        return Traits(effective_importance(entry), self.recency(entry), outcome)

    def mark(self, hit: Hit) -> Hit:
        """Return a hit with the number of feedback events behind its utility."""
        utility = self.utilities.get(hit.located.entry.id)
        if utility is None:
            return hit
        return replace(hit, events=utility.events, is_low=utility.is_low)


class Ranked(msgspec.Struct, frozen=True):
    """The best matches of a task, ranked before the code that they cite is judged.

    Attributes:
        matches: what the index found.
        weights: what entries are weighed by besides their relevance.
        hits: the candidates, best first.
        verdict: how close the best match is to the task.
        margin: how far the best match is above the floor; below 0 nothing is close enough.
        standing: what feedback says of the matches.
        relevance: the relevance of each match, of words or of words and vectors.
        cosines: the similarity of vectors, where they were searched.
        mode: which searches answered.
        reason: what one of them lacks.
    """

    matches: tuple[Match, ...]
    weights: Weights
    hits: tuple[Hit, ...]
    verdict: Strength
    margin: float
    standing: FeedbackWeights
    relevance: Lane
    cosines: Lane = {}
    mode: Mode = "lexical"
    reason: str = ""


def find_ranked(
    index: Index,
    config: Config,
    task: str,
    asked: SearchRequest,
    options: RetrieveOptions,
    today: date,
    embedder: EmbedderChoice | None = None,
    names: Sequence[str] = (),
) -> Ranked:
    """Return what is found for a task, ranked.

    Twice as many candidates are returned as are requested, so that some can be withheld. Without an
    embedder only words are searched; one that fails, or lacks vectors, leaves the order of the words.

    Args:
        index: the search index.
        config: the configuration.
        task: the task in words.
        asked: filters and limits.
        options: the session, and the paths that the work touches.
        today: the day that ages are counted to.
        embedder: the embedder, or why there is none.
        names: definitions that the work changes, searched for as the words of its paths are.
    """
    depth = max(LEAST_JUDGED, 2 * asked.limit)
    search_depth = max(200, 2 * depth)
    corpus = Corpus(count_entries(index), lru_cache(None)(partial(count_holding, index)))
    terms = build_terms(task, corpus, (*names, *(options.paths or ())))
    matches = search(index, terms, depth=search_depth, **asked.filters)
    strength = verdict(matches, terms, corpus)
    distance = margin(task, matches, terms, corpus)
    relevance = lexical_lane(task, matches, _find_neighbours(index, matches))
    cosines: Lane = {}
    mode: Mode = "lexical"
    reason = ""
    if embedder is not None:
        mode, reason = embedder.mode, embedder.reason
    if embedder is not None and embedder.embedder is not None:
        from memory_ci.evidence.content import redact
        from memory_ci.search.vectors import vector_matches

        words = redact(task).text
        answer = vector_matches(
            index, embedder.embedder, words, depth=search_depth, **asked.filters
        )
        found_by_vectors = [
            Match(located, 0.0)
            for place, located in answer.located.items()
            if place not in relevance
        ]
        matches = [*matches, *found_by_vectors]
        cosines = answer.matches
        mode = "degraded" if answer.reason else "hybrid"
        reason = answer.reason
    located_by_place = {place_of(match.located): match.located for match in matches}
    entries = [located.entry for located in located_by_place.values()]
    standing = find_feedback_weights(index, config, entries, today)
    if cosines:
        distance += max(cosines.values()) - COSINE_SHIFT
        relevance = fuse(
            config.retrieve.fusion,
            relevance,
            cosines,
            lambda place: standing.traits(located_by_place[place].entry),
            weight=config.retrieve.vector_weight,
        )
    weights = weights_of(config, options, standing)
    ranked = Ranked(
        matches=tuple(matches),
        weights=weights,
        hits=(),
        verdict=strength,
        margin=distance,
        standing=standing,
        relevance=relevance,
        cosines=cosines,
        mode=mode,
        reason=reason,
    )
    return replace(ranked, hits=tuple(_rank(ranked, ranked.matches, weights)[:depth]))


def find_about(
    index: Index,
    config: Config,
    path: str,
    asked: SearchRequest,
    options: RetrieveOptions,
    today: date,
) -> Ranked:
    """Return the entries about one file: those that cite it, then those of the nearest team scope."""
    filters: Filters = {"statuses": SHOWN_STATUSES, **asked.filters, "paths": None}
    citing = _list_citing(index, path, filters)
    team_filters: Filters = {**filters, "scopes": ("team",), "paths": (path,)}
    team = list_entries(index, **team_filters)
    nearest = max((len(place.scope.where) for place in team), default=0)
    near = [place for place in team if len(place.scope.where) == nearest and place not in citing]
    relevance = {place_of(place): 1.0 for place in citing}
    relevance |= {place_of(place): NEAR for place in near}
    matches = tuple(Match(place, 1.0) for place in (*citing, *near))
    entries = [match.located.entry for match in matches]
    standing = find_feedback_weights(index, config, entries, today)
    ranked = Ranked(
        matches=matches,
        weights=weights_of(config, options, standing),
        hits=(),
        verdict="HIT",
        margin=0.0,
        standing=standing,
        relevance=relevance,
    )
    return replace(ranked, hits=tuple(_rank(ranked, matches, ranked.weights)[:LEAST_JUDGED]))


def _list_citing(index: Index, path: str, filters: Filters) -> list[Located]:
    """Return the entries that cite a file."""
    # This module takes 3 ms to import, which a task does not need.
    from memory_ci.anchors.anchors import parse_anchor

    citing: dict[Located, None] = {}
    for place in list_naming(index, path, **filters):
        anchors = [parse_anchor(cite) for cite in place.entry.cites]
        if any(anchor is not None and anchor.path == path for anchor in anchors):
            citing[place] = None
    return list(citing)


def _rank(ranked: Ranked, matches: Sequence[Match], weights: Weights) -> list[Hit]:
    """Return the hits with the raw score of each search, and with their number of feedback events."""
    hits: list[Hit] = []
    for hit in rank(matches, weights, ranked.relevance):
        marked = ranked.standing.mark(hit)
        cosine = ranked.cosines.get(place_of(hit.located))
        if cosine is not None:
            marked = replace(marked, lanes=(*marked.lanes, ("vectors", cosine)))
        hits.append(marked)
    return hits


def weigh_again(found: Ranked, truth: Callable[[Entry], float]) -> list[Hit]:
    """Return the candidates ranked by the truth of what they cite as well.

    Args:
        found: the candidates.
        truth: returns the factor of an entry; entries of factor 0 are left out.
    """
    candidates = {place_of(hit.located) for hit in found.hits}
    matches = [match for match in found.matches if place_of(match.located) in candidates]
    return _rank(found, matches, replace(found.weights, truth=truth))


def arrange(hits: Sequence[Hit], limit: int) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Return the best hits, diversified and with corrections first, and those that they supersede."""

    def list_contradicted(entry: Entry) -> list[str]:
        relations = relations_of(entry)
        return [relation.id for relation in relations if relation.kind == "contradicts"]

    served, superseded = put_corrections_first(diversify(hits), list_contradicted)
    return served[:limit], superseded


def weights_of(config: Config, options: RetrieveOptions, standing: FeedbackWeights) -> Weights:
    """Return what entries are weighed by besides their relevance, before their cites are judged."""
    settings, decay = config.retrieve, config.prominence.decay
    is_literal = settings.prominence == "seed"
    is_linear = is_literal or settings.reinforcement == "linear"
    formula = prominence if is_linear else ranking_prominence

    def weigh(entry: Entry) -> float:
        # Retired entries that the caller wants are ranked as they were before they retired.
        if "retired" in options.statuses:
            entry = replace(entry, status="active")
        return formula(entry, standing.today, decay, standing.retentions.get(entry.id))

    return Weights(
        prominence=weigh,
        traits=standing.traits,
        is_literal=is_literal,
        utility=standing.utility,
        touched=standing.touched,
        session=options.session,
    )


def find_feedback_weights(
    index: Index, config: Config, entries: Iterable[Entry], today: date
) -> FeedbackWeights:
    """Return what feedback in the index says of entries.

    It takes one query, and one more if some entries supersede others, whose feedback they inherit.

    Raises:
        UsageError: missing-extra for the decay `fsrs`.
    """
    entry_by_id = {entry.id: entry for entry in entries}
    no_feedback = FeedbackWeights(today, config.prominence.decay)
    if not entry_by_id:
        return no_feedback
    heirs: Heirs = {}
    merged = [entry for entry in entry_by_id.values() if entry.supersedes]
    if merged:
        from memory_ci.lifecycle.episodes import find_heirs

        older_ids = [older_id for entry in merged for older_id in entry.supersedes]
        heirs = find_heirs(merged, list_held(index, older_ids))
    with_ignored = config.episodes.ignored_policy == "split"
    rows = list_feedback(index, {*entry_by_id, *heirs}, with_ignored=with_ignored)
    if not rows:
        return no_feedback
    # These modules are imported only for entries that have feedback.
    from memory_ci.lifecycle.episodes import pass_on
    from memory_ci.lifecycle.utility import job_of, replay_some

    feedback = [event for event, _ in rows]
    shares: dict[object, int] = {
        job_of(event): count for event, count in rows if event.kind == "ignored"
    }
    utilities = replay_some(feedback, shares, heirs)
    inherited = pass_on(feedback, heirs)
    return make_standing(entry_by_id.values(), inherited, utilities, config, today)


def make_standing(
    entries: Iterable[Entry],
    feedback: Iterable[Feedback],
    utilities: Mapping[str, Utility],
    config: Config,
    today: date,
) -> FeedbackWeights:
    """Return the feedback weights of entries.

    Args:
        entries: the entries.
        feedback: their feedback.
        utilities: the utilities that it gives.
        config: the configuration.
        today: the day that ages are counted to.
    """
    decay = config.prominence.decay
    if decay != "fsrs":
        return FeedbackWeights(today, decay, utilities)
    from memory_ci.lifecycle.utility import find_retentions

    return FeedbackWeights(today, decay, utilities, find_retentions(entries, feedback))


def _find_neighbours(index: Index, matches: Iterable[Match]) -> Mapping[Place, Sequence[Place]]:
    """Return for each matching note of a session the matching notes beside it.

    A note that names code has none, because it is understood alone.
    """
    notes = {
        place_of(match.located)
        for match in matches
        if match.located.entry.session and not may_be_judged(match.located)
    }
    neighbours: defaultdict[Place, list[Place]] = defaultdict(list)
    if len(notes) < 2:
        return neighbours
    for first, second in pairwise(list_session_places(index)):
        is_same_session = first[:2] == second[:2]
        if is_same_session and {first[1:], second[1:]} <= notes:
            neighbours[first[1:]].append(second[1:])
            neighbours[second[1:]].append(first[1:])
    return neighbours


def may_be_judged(place: Located) -> bool:
    """Return whether the tree can say anything of an entry.

    That is an entry of this repository that has cites or seems to name code.
    """
    if place.scope.name == "global":
        return False
    return bool(place.entry.cites) or NAMES_CODE.search(place.entry.text) is not None


def judge_hits(
    workspace: Workspace,
    hits: Sequence[Hit],
    tree: str | None,
    weigh: Callable[[Callable[[Entry], float]], list[Hit]],
    *,
    stale: bool,
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Return the hits weighed by the truth of what they cite, and those withheld as gone.

    Global memory cites other repositories and is not judged.

    Args:
        workspace: the repository.
        hits: the hits.
        tree: the revision in which code is judged; None for the work tree.
        weigh: returns the hits weighed by a factor for each entry.
        stale: withhold nothing.
    """
    judged_places = [hit.located for hit in hits if may_be_judged(hit.located)]
    if not judged_places:
        return list(hits), ()
    # This module takes 10 ms to import, which other tasks do not need.
    from memory_ci.commands.retrieve.anchor_verdicts import judge_located, list_gone, weigh_truth

    truth = judge_located(workspace, judged_places, tree)
    weighed = weigh(partial(weigh_truth, truth, stale=stale))
    judged = [replace(hit, verdicts=truth.get(hit.located.entry, ())) for hit in weighed]
    return judged, () if stale else list_gone(hits, truth)
