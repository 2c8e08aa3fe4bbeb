"""Ranking: what the words of a task find, in the order in which it is served, and what feedback changes of that.

`eval retrieval` judges this.
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
"""So many of the best candidates are judged and diversified at least, and twice as many as are asked for."""

NEAR = 0.01
"""What an entry of a file's team scope counts beside one that cites the file: it comes after that, whatever its age."""


class Ranked(msgspec.Struct, frozen=True):
    """The best matches of a task, ranked before the code they cite is judged, and how they are weighed.

    `relevance` is what the lanes were fused to, that of the words where only these answered; `cosines` are those of the
    vector lane. `mode` says which lanes answered, `reason` what one of them lacks. `standing`: what feedback says of
    them. Where `margin` is below 0 none is near enough to the task to be given.
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
    """What is found for `task`, ranked: twice as many as are asked for, so that some may be withheld.

    `names` are those of definitions that the work changes, which are asked as the words of its paths are.
    Without an embedder only words are asked. One that fails, or lacks vectors, leaves the order of the words.
    """
    depth = max(LEAST_JUDGED, 2 * asked.limit)
    corpus = Corpus(count_entries(index), lru_cache(None)(partial(count_holding, index)))
    terms = build_terms(task, corpus, (*names, *(options.paths or ())))
    matches = search(index, terms, depth=max(200, 2 * depth), **asked.filters)
    strength, near = verdict(matches, terms, corpus), margin(task, matches, terms, corpus)
    relevance = lexical_lane(task, matches, _find_neighbours(index, matches))
    cosines: Lane = {}
    mode, reason = (embedder.mode, embedder.reason) if embedder else ("lexical", "")
    if embedder is not None and embedder.embedder is not None:
        from memory_ci.evidence.content import redact
        from memory_ci.search.vectors import vector_matches

        words = redact(task).text
        answer = vector_matches(
            index, embedder.embedder, words, depth=max(200, 2 * depth), **asked.filters
        )
        others = [located for place, located in answer.located.items() if place not in relevance]
        matches = [*matches, *(Match(located, 0.0) for located in others)]
        cosines, mode, reason = (
            answer.matches,
            "degraded" if answer.reason else "hybrid",
            answer.reason,
        )
    located = {place_of(match.located): match.located for match in matches}
    standing = find_feedback_weights(
        index, config, [place.entry for place in located.values()], today
    )
    if cosines:
        near += max(cosines.values()) - COSINE_SHIFT
        ways, weight = config.retrieve.fusion, config.retrieve.vector_weight
        relevance = fuse(
            ways,
            relevance,
            cosines,
            lambda place: standing.traits(located[place].entry),
            weight=weight,
        )
    weights = weights_of(config, options, standing)
    found = Ranked(
        tuple(matches), weights, (), strength, near, standing, relevance, cosines, mode, reason
    )
    return replace(found, hits=tuple(_ranked(found, found.matches, weights)[:depth]))


def find_about(
    index: Index,
    config: Config,
    path: str,
    asked: SearchRequest,
    options: RetrieveOptions,
    today: date,
) -> Ranked:
    """What is known of one file: the entries that cite it, then those of the nearest team scope. No words are asked."""
    from memory_ci.anchors.anchors import parse_anchor  # 3 ms that a task spares

    filters: Filters = {"statuses": SHOWN_STATUSES, **asked.filters, "paths": None}
    of_team: Filters = {**filters, "scopes": ("team",), "paths": (path,)}
    naming = list_naming(index, path, **filters)
    anchors = ((place, parse_anchor(cite)) for place in naming for cite in place.entry.cites)
    citing = list(
        dict.fromkeys(
            place for place, anchor in anchors if anchor is not None and anchor.path == path
        )
    )
    team = list_entries(index, **of_team)
    nearest = max((len(place.scope.where) for place in team), default=0)
    near = [place for place in team if len(place.scope.where) == nearest and place not in citing]
    matches = tuple(Match(place, 1.0) for place in (*citing, *near))
    standing = find_feedback_weights(
        index, config, [match.located.entry for match in matches], today
    )
    relevance = {place_of(place): 1.0 for place in citing} | {
        place_of(place): NEAR for place in near
    }
    found = Ranked(
        matches, weights_of(config, options, standing), (), "HIT", 0.0, standing, relevance
    )
    return replace(found, hits=tuple(_ranked(found, matches, found.weights)[:LEAST_JUDGED]))


def _ranked(found: Ranked, matches: Sequence[Match], weights: Weights) -> list[Hit]:
    """Hits with the raw score of each lane that found them, and with their number of feedback events."""
    hits = map(found.standing.mark, rank(matches, weights, found.relevance))
    cosines = ((hit, found.cosines.get(place_of(hit.located))) for hit in hits)
    return [
        hit if cosine is None else replace(hit, lanes=(*hit.lanes, ("vectors", cosine)))
        for hit, cosine in cosines
    ]


def weigh_again(found: Ranked, truth: Callable[[Entry], float]) -> list[Hit]:
    """The candidates ranked by the truth of what they cite as well; those of truth 0 are left out."""
    chosen = {place_of(hit.located) for hit in found.hits}
    matches = [match for match in found.matches if place_of(match.located) in chosen]
    return _ranked(found, matches, replace(found.weights, truth=truth))


def arrange(hits: Sequence[Hit], limit: int) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(the best `limit`, what others of them supersede): diversified, corrections first."""

    def contradicted(entry: Entry) -> list[str]:
        return [relation.id for relation in relations_of(entry) if relation.kind == "contradicts"]

    served, superseded = put_corrections_first(diversify(hits), contradicted)
    return served[:limit], superseded


def weights_of(config: Config, options: RetrieveOptions, standing: FeedbackWeights) -> Weights:
    """What entries count for besides their relevance, and before what they cite is judged."""
    settings, decay = config.retrieve, config.prominence.decay
    is_literal = settings.prominence == "seed"
    formula = prominence if is_literal or settings.reinforcement == "linear" else ranking_prominence

    def weigh(entry: Entry) -> float:
        # Who asks for retired entries gets them ranked by what they counted before.
        alive = replace(entry, status="active") if "retired" in options.statuses else entry
        return formula(alive, standing.today, decay, standing.retentions.get(entry.id))

    return Weights(
        prominence=weigh,
        traits=standing.traits,
        is_literal=is_literal,
        utility=standing.utility,
        touched=standing.touched,
        session=options.session,
    )


class FeedbackWeights(msgspec.Struct, frozen=True):
    """The utilities of entries, and under the decay `fsrs` their retentions, by id; none of those nobody spoke of."""

    today: date
    decay: Decay
    utilities: Mapping[str, Utility] = {}
    retentions: Mapping[str, Retention] = {}

    def utility(self, entry: Entry) -> float:
        """What feedback says of an entry, in [0, 1]."""
        known = self.utilities.get(entry.id)
        return known.value if known else NO_FEEDBACK

    def touched(self, entry: Entry) -> int:
        """How often work that was given an entry was about the same thing."""
        known = self.utilities.get(entry.id)
        return known.touched if known else 0

    def recency(self, entry: Entry) -> float:
        """What its age leaves of an entry."""
        return recency(entry, self.today, self.decay, self.retentions.get(entry.id))

    def traits(self, entry: Entry) -> Traits:
        """Importance, recency and outcome of an entry."""
        return Traits(
            effective_importance(entry), self.recency(entry), weigh_outcome(self.utility(entry))
        )

    def mark(self, hit: Hit) -> Hit:
        """The hit with the number of events behind its utility."""
        known = self.utilities.get(hit.located.entry.id)
        return replace(hit, events=known.events, is_low=known.is_low) if known else hit


def find_feedback_weights(
    index: Index, config: Config, entries: Iterable[Entry], today: date
) -> FeedbackWeights:
    """The feedback on `entries` in the index, by one query, and one more if some supersede others. Raises UsageError
    (missing-extra) for `fsrs`."""
    chosen = {entry.id: entry for entry in entries}
    heirs: Heirs = {}  # Of feedback on entries that no file has any more.
    if merged := [entry for entry in chosen.values() if entry.supersedes]:
        from memory_ci.lifecycle.episodes import find_heirs

        heirs = find_heirs(
            merged, list_held(index, (older for entry in merged for older in entry.supersedes))
        )
    with_ignored = config.episodes.ignored_policy == "split"
    told = list_feedback(index, {*chosen, *heirs}, with_ignored=with_ignored) if chosen else []
    if not told:
        return FeedbackWeights(today, config.prominence.decay)
    # Nobody pays for these of whose entries nothing was said.
    from memory_ci.lifecycle.episodes import pass_on
    from memory_ci.lifecycle.utility import job_of, replay_some

    feedback = [said for said, _ in told]
    shares: dict[object, int] = {
        job_of(said): count for said, count in told if said.kind == "ignored"
    }
    utilities = replay_some(feedback, shares, heirs)
    return make_standing(chosen.values(), pass_on(feedback, heirs), utilities, config, today)


def make_standing(
    entries: Iterable[Entry],
    feedback: Iterable[Feedback],
    utilities: Mapping[str, Utility],
    config: Config,
    today: date,
) -> FeedbackWeights:
    """The standing of entries after their `feedback`, of which `utilities` were replayed."""
    decay = config.prominence.decay
    if decay != "fsrs":
        return FeedbackWeights(today, decay, utilities)
    from memory_ci.lifecycle.utility import find_retentions  # for those who choose it

    return FeedbackWeights(today, decay, utilities, find_retentions(entries, feedback))


def _find_neighbours(index: Index, matches: Iterable[Match]) -> Mapping[Place, Sequence[Place]]:
    """The notes beside each match in its session, as far as they match; what speaks of code stands alone."""
    notes = {
        place_of(m.located)
        for m in matches
        if m.located.entry.session and not may_be_judged(m.located)
    }
    beside: defaultdict[Place, list[Place]] = defaultdict(list)
    for one, other in pairwise(list_session_places(index)) if len(notes) > 1 else ():
        if {one[1:], other[1:]} <= notes and one[:2] == other[:2]:
            beside[one[1:]].append(other[1:])
            beside[other[1:]].append(one[1:])
    return beside


def may_be_judged(place: Located) -> bool:
    """Whether the tree can tell anything of an entry: it is of this repository, and has cites or seems to name code."""
    entry, is_own = place.entry, place.scope.name != "global"
    return is_own and (bool(entry.cites) or NAMES_CODE.search(entry.text) is not None)


def judge_hits(
    workspace: Workspace,
    hits: Sequence[Hit],
    tree: str | None,
    weigh: Callable[[Callable[[Entry], float]], list[Hit]],
    *,
    stale: bool,
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(the hits as `weigh` has them by the truth of what they cite in `tree`, those withheld because it is gone).
    Global memory cites other repositories: it is not judged here."""
    citing = [hit.located for hit in hits if may_be_judged(hit.located)]
    if not citing:
        return list(hits), ()
    from memory_ci.commands.retrieve.anchor_verdicts import (  # 10 ms that others spare
        judge_located,
        list_gone,
        weigh_truth,
    )

    truth = judge_located(workspace, citing, tree)
    weighed = weigh(partial(weigh_truth, truth, stale=stale))
    judged = [replace(hit, verdicts=truth.get(hit.located.entry, ())) for hit in weighed]
    return judged, () if stale else list_gone(hits, truth)
