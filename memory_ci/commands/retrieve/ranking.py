"""The entries that match a task, in the order in which they are served.

`eval retrieval` measures this order.
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
    effective_importance,
    ranking_prominence,
    recency,
)
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import NO_FEEDBACK, Entry, Located
from memory_ci.records.retrieval import Hit, Match, Mode, Strength, Withheld
from memory_ci.search.database import Index
from memory_ci.search.query import Corpus, build_terms
from memory_ci.search.rank import (
    EntryPlace,
    EntryScores,
    Traits,
    Weights,
    diversify,
    fuse,
    get_entry_place,
    order_corrections,
    rank,
)
from memory_ci.search.search import (
    SEARCHED_STATUSES,
    Filters,
    count_entries,
    count_entries_with_term,
    list_entries,
    list_entries_naming_path,
    list_existing_ids,
    list_feedback,
    list_session_places,
    search,
)
from memory_ci.search.strength import (
    COSINE_SHIFT,
    measure_margin,
    measure_strength,
    score_lexically,
)
from memory_ci.text import NAMES_CODE

if TYPE_CHECKING:
    from memory_ci.lifecycle.episodes import Heirs
    from memory_ci.lifecycle.utility import Utility
    from memory_ci.search.embedders import EmbedderChoice

MIN_JUDGED = 100
"""Candidates that are judged and diversified at least; more if the limit is over half of it."""

MIN_MATCHES = 200  # Matches that each lane returns at least.

TEAM_RELEVANCE = 0.01
"""Relevance of a team's entry to a file; so low that each entry that cites the file precedes it."""

TruthOf = Callable[[Entry], float]  # The truth factor of an entry, 0 if all its code is gone.


class Ranked(msgspec.Struct, frozen=True):
    """The best matches of a task, ranked before the code that they cite is judged.

    Attributes:
        strength: how close the best matches come to the task.
        margin: by how much the best match is closer than the floor; below 0 none is served.
        feedback: the utilities of the matches.
        relevance: the fused lanes, or the lexical lane if only that answered.
        cosines: the vector lane.
        mode: which lanes answered.
        reason: why a lane did not answer fully.
    """

    matches: tuple[Match, ...]
    weights: Weights
    hits: tuple[Hit, ...]
    strength: Strength
    margin: float
    feedback: FeedbackWeights
    relevance: EntryScores
    cosines: EntryScores = {}
    mode: Mode = "lexical"
    reason: str = ""


class _VectorLane(msgspec.Struct, frozen=True):
    """Cosines by place, the entries that only vectors match, and how the lane answered."""

    cosines: EntryScores = {}
    matches: tuple[Match, ...] = ()
    mode: Mode = "lexical"
    reason: str = ""


def rank_task(
    index: Index,
    task: str,
    request: SearchRequest,
    options: RetrieveOptions,
    today: date,
    *,
    embedder: EmbedderChoice | None = None,
    names: Sequence[str] = (),
) -> Ranked:
    """Rank the entries that match a task, by words and by vectors.

    Twice the requested number is ranked, because some may be withheld. Without an embedder, or if
    it fails, entries are ranked by words alone.

    Args:
        index: the index.
        task: the task, in the words of a person.
        request: the number of entries and the filters.
        options: have the paths that the work touches.
        today: the day that counts as today.
        embedder: makes the vector of the task.
        names: definitions that the work changes; their words join those of the task, as paths do.
    """
    depth = max(MIN_JUDGED, 2 * request.limit)
    match_depth = max(MIN_MATCHES, 2 * depth)
    corpus = Corpus(count_entries(index), lru_cache(None)(partial(count_entries_with_term, index)))
    terms = build_terms(task, corpus, (*names, *(options.paths or ())))
    matches = search(index, terms, depth=match_depth, **request.filters)
    strength = measure_strength(matches, terms, corpus)
    margin = measure_margin(task, matches, terms, corpus)
    relevance = score_lexically(task, matches, _find_session_neighbours(index, matches))

    vectors = _search_vectors(
        index, task, relevance, request.filters, embedder=embedder, depth=match_depth
    )
    matches = [*matches, *vectors.matches]
    entries = {get_entry_place(match.located): match.located.entry for match in matches}
    feedback_weights = find_feedback_weights(index, entries.values(), today)
    if vectors.cosines:
        margin += max(vectors.cosines.values()) - COSINE_SHIFT
        relevance = fuse(relevance, vectors.cosines)

    ranked = Ranked(
        matches=tuple(matches),
        weights=make_weights(options, feedback_weights),
        hits=(),
        strength=strength,
        margin=margin,
        feedback=feedback_weights,
        relevance=relevance,
        cosines=vectors.cosines,
        mode=vectors.mode,
        reason=vectors.reason,
    )
    hits = _rank_matches(ranked, ranked.matches, ranked.weights)
    return replace(ranked, hits=tuple(hits[:depth]))


def _search_vectors(
    index: Index,
    task: str,
    lexical: EntryScores,
    filters: Filters,
    *,
    embedder: EmbedderChoice | None,
    depth: int,
) -> _VectorLane:
    """Return the entries that are nearest to a task by vectors, if there is an embedder.

    Args:
        index: the index, which has the vectors of entries.
        task: the task; secrets in it are not sent to the embedder.
        lexical: the scores of the entries that words found.
        filters: conditions on entries, as for `search`.
        embedder: the embedder, or the reason why it is missing.
        depth: how many entries are returned at most.
    """
    if embedder is None:
        return _VectorLane()
    if embedder.embedder is None:
        return _VectorLane(mode=embedder.mode, reason=embedder.reason)
    from memory_ci.evidence.content import redact
    from memory_ci.search.vectors import search_vectors

    answer = search_vectors(index, embedder.embedder, redact(task).text, depth=depth, **filters)
    matches = tuple(
        Match(located, 0.0) for place, located in answer.located.items() if place not in lexical
    )
    mode: Mode = "degraded" if answer.reason else "hybrid"
    return _VectorLane(answer.matches, matches, mode, answer.reason)


def rank_about(
    index: Index,
    path: str,
    request: SearchRequest,
    options: RetrieveOptions,
    today: date,
) -> Ranked:
    """Rank the entries that cite a file, then those of the team whose directory it is in.

    No words are searched. Of several team directories the innermost counts.

    Args:
        index: the index.
        path: the path of the file.
        request: the filters.
        options: the options that weights depend on.
        today: the day that counts as today.
    """
    filters: Filters = {"statuses": SEARCHED_STATUSES, **request.filters, "paths": None}
    citing_entries = _list_citing(index, path, filters)
    team_filters: Filters = {**filters, "scopes": ("team",), "paths": (path,)}
    team_entries = [
        located
        for located in _list_nearest_team(index, team_filters)
        if located not in citing_entries
    ]

    matches = tuple(Match(located, 1.0) for located in (*citing_entries, *team_entries))
    relevance = {get_entry_place(located): 1.0 for located in citing_entries}
    for located in team_entries:
        relevance[get_entry_place(located)] = TEAM_RELEVANCE
    entries = [match.located.entry for match in matches]
    feedback_weights = find_feedback_weights(index, entries, today)
    ranked = Ranked(
        matches=matches,
        weights=make_weights(options, feedback_weights),
        hits=(),
        strength="HIT",
        margin=0.0,
        feedback=feedback_weights,
        relevance=relevance,
    )
    hits = _rank_matches(ranked, matches, ranked.weights)
    return replace(ranked, hits=tuple(hits[:MIN_JUDGED]))


def _list_citing(index: Index, path: str, filters: Filters) -> list[Located]:
    """Return the entries that cite a path, each once."""
    from memory_ci.anchors.anchors import parse_anchor  # Here, for it takes 3 ms.

    citing_entries: dict[Located, None] = {}
    for located in list_entries_naming_path(index, path, **filters):
        for cite in located.entry.cites:
            anchor = parse_anchor(cite)
            if anchor is not None and anchor.path == path:
                citing_entries[located] = None
    return list(citing_entries)


def _list_nearest_team(index: Index, filters: Filters) -> list[Located]:
    """Return the entries of the innermost team directory among those that the filters match."""
    team = list_entries(index, **filters)
    longest = max((len(located.scope.where) for located in team), default=0)
    return [located for located in team if len(located.scope.where) == longest]


def _rank_matches(ranked: Ranked, matches: Sequence[Match], weights: Weights) -> list[Hit]:
    """Return matches as hits, best first, with their cosine and their number of feedback events.

    Args:
        ranked: the relevance, the cosines and the feedback of all matches.
        matches: the matches to rank.
        weights: the factors other than relevance.
    """
    hits = []
    for hit in rank(matches, weights, ranked.relevance):
        cosine = ranked.cosines.get(get_entry_place(hit.located))
        if cosine is not None:
            hit = replace(hit, lanes=(*hit.lanes, ("vectors", cosine)))
        hits.append(ranked.feedback.mark(hit))
    return hits


def weigh_again(ranked: Ranked, truth_of: TruthOf) -> list[Hit]:
    """Rank the candidates again with their truth factor, and drop those whose factor is 0."""
    places = {get_entry_place(hit.located) for hit in ranked.hits}
    matches = [match for match in ranked.matches if get_entry_place(match.located) in places]
    return _rank_matches(ranked, matches, replace(ranked.weights, truth=truth_of))


def order_hits(hits: Sequence[Hit], limit: int) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Lower near duplicates, and put corrections before the entries that they correct.

    Args:
        hits: hits, best first.
        limit: how many hits are returned at most.

    Returns:
        The best `limit` hits, and the hits that others of them supersede.
    """
    served, superseded = order_corrections(diversify(hits), _list_contradicted)
    return served[:limit], superseded


def _list_contradicted(entry: Entry) -> list[str]:
    from memory_ci.lifecycle.relations import relations_of  # only corrections need it

    return [relation.id for relation in relations_of(entry) if relation.kind == "contradicts"]


def make_weights(options: RetrieveOptions, feedback_weights: FeedbackWeights) -> Weights:
    """Return the factors of entries other than their relevance to a task.

    The factor of truth, whether cited code is unchanged, is not judged yet.
    """
    with_retired = "retired" in options.statuses

    def weigh_prominence(entry: Entry) -> float:
        if with_retired:  # Rank retired entries by their weight before retirement.
            entry = replace(entry, status="active")
        return ranking_prominence(entry, feedback_weights.today)

    return Weights(
        prominence=weigh_prominence,
        traits=feedback_weights.traits,
        utility=feedback_weights.utility,
        touch_count=feedback_weights.touched,
        session=options.session,
    )


class FeedbackWeights(msgspec.Struct, frozen=True):
    """The utilities of entries, as feedback makes them.

    Attributes:
        utilities: utilities by id, without entries that have no feedback.
    """

    today: date
    utilities: Mapping[str, Utility] = {}

    def utility(self, entry: Entry) -> float:
        """Return the utility of an entry, in [0, 1]."""
        utility = self.utilities.get(entry.id)
        return utility.value if utility else NO_FEEDBACK

    def touched(self, entry: Entry) -> int:
        """Count the work that was served an entry and was about the same thing."""
        utility = self.utilities.get(entry.id)
        return utility.touched if utility else 0

    def recency(self, entry: Entry) -> float:
        """Return the recency decay of an entry."""
        return recency(entry, self.today)

    def traits(self, entry: Entry) -> Traits:
        """Return importance and recency of an entry."""
        return Traits(effective_importance(entry), self.recency(entry))

    def mark(self, hit: Hit) -> Hit:
        """Return the hit with the number of events behind its utility."""
        utility = self.utilities.get(hit.located.entry.id)
        if utility is None:
            return hit
        return replace(hit, events=utility.events, is_low=utility.is_low)


def find_feedback_weights(index: Index, entries: Iterable[Entry], today: date) -> FeedbackWeights:
    """Read the feedback on entries from the index, and return their utilities.

    It takes one query, and one more if some of the entries supersede others: feedback on a
    superseded entry counts for its heir, the entry that replaced it.
    """
    entries_by_id = {entry.id: entry for entry in entries}
    heirs = _find_heirs(index, entries_by_id.values())
    if not entries_by_id:
        return FeedbackWeights(today)

    counted_feedback = list_feedback(index, {*entries_by_id, *heirs})
    if not counted_feedback:
        return FeedbackWeights(today)
    # Loaded only for entries that have feedback.
    from memory_ci.lifecycle.utility import compute_some_utilities, job_of

    feedback = [event for event, _count in counted_feedback]
    ignored_counts: dict[object, int] = {}  # How many entries each job ignored.
    for event, count in counted_feedback:
        if event.kind == "ignored":
            ignored_counts[job_of(event)] = count
    utilities = compute_some_utilities(feedback, ignored_counts, heirs)
    return FeedbackWeights(today, utilities)


def _find_heirs(index: Index, entries: Iterable[Entry]) -> Heirs:
    """Return which entries inherit the feedback on superseded entries that no file has any more."""
    superseding = [entry for entry in entries if entry.supersedes]
    if not superseding:
        return {}
    from memory_ci.lifecycle.episodes import find_heirs

    superseded_ids: list[str] = []
    for entry in superseding:
        superseded_ids += entry.supersedes
    return find_heirs(superseding, list_existing_ids(index, superseded_ids))


def _find_session_neighbours(
    index: Index, matches: Iterable[Match]
) -> Mapping[EntryPlace, Sequence[EntryPlace]]:
    """Return for each matching note of a session the matching notes before and after it.

    Notes are named by their path and line. A note that names code has no neighbours.
    """
    note_places = set()
    for match in matches:
        if match.located.entry.session and not may_be_judged(match.located):
            note_places.add(get_entry_place(match.located))
    neighbours: defaultdict[EntryPlace, list[EntryPlace]] = defaultdict(list)
    if len(note_places) < 2:
        return neighbours

    for (session, path, line), (next_session, next_path, next_line) in pairwise(
        list_session_places(index)
    ):
        note = path, line
        next_note = next_path, next_line
        is_same_file = (session, path) == (next_session, next_path)
        if is_same_file and note in note_places and next_note in note_places:
            neighbours[note].append(next_note)
            neighbours[next_note].append(note)
    return neighbours


def may_be_judged(located: Located) -> bool:
    """Return whether an entry can be compared with the code of this repository.

    It can if it is of this repository, and cites code or seems to name code in its text.
    """
    if located.scope.name == "global":
        return False
    entry = located.entry
    return bool(entry.cites) or NAMES_CODE.search(entry.text) is not None


def judge_hits(
    workspace: Workspace,
    hits: Sequence[Hit],
    tree: str | None,
    rerank: Callable[[TruthOf], list[Hit]],
    *,
    stale: bool,
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Compare the code that hits cite with a tree, and rank the hits again by the result.

    Global memory cites other repositories and is not compared.

    Args:
        workspace: the repository and its configuration.
        hits: the hits, best first.
        tree: the revision to compare with; None is the work tree.
        rerank: returns the hits in the order that a truth factor of each entry makes.
        stale: keep hits whose code is all gone.

    Returns:
        The hits with their verdicts, and the hits that are withheld because their code is gone.
    """
    judgeable = [hit.located for hit in hits if may_be_judged(hit.located)]
    if not judgeable:
        return list(hits), ()
    # Imported here, for it takes 10 ms.
    from memory_ci.commands.retrieve.anchor_verdicts import judge_cites, list_gone, weigh_truth

    verdicts = judge_cites(workspace, judgeable, tree)
    if not any(verdicts.values()):
        return list(hits), ()  # Nothing was judged, so that the order stays.
    reranked = rerank(partial(weigh_truth, verdicts, stale=stale))
    judged = [replace(hit, verdicts=verdicts.get(hit.located.entry, ())) for hit in reranked]
    withheld = () if stale else list_gone(hits, verdicts)
    return judged, withheld
