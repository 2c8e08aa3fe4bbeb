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
    fuse_scores,
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
    from memory_ci.lifecycle.episodes import Successors
    from memory_ci.lifecycle.utility import Utility
    from memory_ci.search.embedders import EmbedderChoice

MIN_JUDGED = 100
"""Candidates that are judged and diversified at least; more if the limit is over half of it."""

MIN_MATCHES = 200  # Matches that each of the two searches returns at least.

TEAM_RELEVANCE = 0.01
"""Relevance of a team's entry to a file; so low that each entry that cites the file precedes it."""

TruthOf = Callable[[Entry], float]  # The truth factor of an entry, 0 if all its code is gone.


class Ranked(msgspec.Struct, frozen=True):
    """The best matches of a task, ranked before the code that they cite is judged.

    Entries are searched by words and by vectors. Each search gives a score for each entry that it
    finds; the two scores of an entry are fused into its relevance.

    Attributes:
        matches: all entries that were found.
        weights: the factors of their score other than relevance.
        hits: the best of them, best first.
        strength: how well the best matches answer the task, as a word for the caller.
        margin: by how much the best match is closer to the task than the least that is served;
            below 0 no match is close enough.
        feedback: the utilities of the matches.
        relevance: the fused scores, or those of the search by words if only that answered.
        cosines: the scores of the search by vectors.
        mode: which searches answered.
        reason: why the search by vectors did not answer fully.
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


class _VectorMatches(msgspec.Struct, frozen=True):
    """The result of the search by vectors.

    Attributes:
        cosines: the cosine of each entry that was found, by its path and line.
        new_matches: the entries that the search by words did not find.
        mode: whether the search answered.
        reason: why it did not, or not fully.
    """

    cosines: EntryScores = {}
    new_matches: tuple[Match, ...] = ()
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

    Twice the requested number of hits is returned, because some may be withheld. Without an
    embedder, or if it fails, entries are ranked by words alone.

    Args:
        index: the index.
        task: the task, in the words of a person.
        request: the number of entries and the filters.
        options: have the paths that the work touches.
        today: the day that counts as today.
        embedder: makes the vector of the task.
        names: definitions that the work changes; their words join those of the task, as paths do.
    """
    hit_count = max(MIN_JUDGED, 2 * request.limit)
    match_count = max(MIN_MATCHES, 2 * hit_count)
    corpus = Corpus(count_entries(index), lru_cache(None)(partial(count_entries_with_term, index)))
    terms = build_terms(task, corpus, (*names, *(options.paths or ())))
    matches = search(index, terms, depth=match_count, **request.filters)
    strength = measure_strength(matches, terms, corpus)
    margin = measure_margin(task, matches, terms, corpus)
    relevance = score_lexically(task, matches, _find_session_neighbours(index, matches))

    vectors = _search_vectors(
        index, task, relevance, request.filters, embedder=embedder, depth=match_count
    )
    if vectors.cosines:
        # A cosine above COSINE_SHIFT says that the task is nearer than its words say.
        margin += max(vectors.cosines.values()) - COSINE_SHIFT
        relevance = fuse_scores(relevance, vectors.cosines)

    all_matches = (*matches, *vectors.new_matches)
    entries = {get_entry_place(match.located): match.located.entry for match in all_matches}
    feedback_weights = find_feedback_weights(index, entries.values(), today)
    weights = make_weights(options, feedback_weights)
    hits = _rank_matches(all_matches, weights, relevance, vectors.cosines, feedback_weights)
    return Ranked(
        matches=all_matches,
        weights=weights,
        hits=tuple(hits[:hit_count]),
        strength=strength,
        margin=margin,
        feedback=feedback_weights,
        relevance=relevance,
        cosines=vectors.cosines,
        mode=vectors.mode,
        reason=vectors.reason,
    )


def _search_vectors(
    index: Index,
    task: str,
    scores_by_words: EntryScores,
    filters: Filters,
    *,
    embedder: EmbedderChoice | None,
    depth: int,
) -> _VectorMatches:
    """Return the entries that are nearest to a task by vectors, if there is an embedder.

    Args:
        index: the index, which has the vectors of entries.
        task: the task; secrets in it are not sent to the embedder.
        scores_by_words: the scores of the entries that the search by words found.
        filters: conditions on entries, as for `search`.
        embedder: the embedder, or the reason why it is missing.
        depth: how many entries are returned at most.
    """
    if embedder is None:
        return _VectorMatches()
    if embedder.embedder is None:
        return _VectorMatches(mode=embedder.mode, reason=embedder.reason)
    from memory_ci.evidence.content import redact
    from memory_ci.search.vectors import search_vectors

    answer = search_vectors(index, embedder.embedder, redact(task).text, depth=depth, **filters)
    new_matches = [
        Match(located, lexical=0.0)
        for place, located in answer.located.items()
        if place not in scores_by_words
    ]
    mode: Mode = "degraded" if answer.reason else "hybrid"
    return _VectorMatches(answer.matches, tuple(new_matches), mode, answer.reason)


def rank_about(
    index: Index,
    path: str,
    request: SearchRequest,
    options: RetrieveOptions,
    today: date,
) -> Ranked:
    """Rank the entries that cite a file, then the entries of the team whose directory it is in.

    No words are searched, so all hits count as close. Of several team directories the innermost
    counts. The best `MIN_JUDGED` hits are returned; further ones would only cost time.

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

    matches = tuple(Match(located, lexical=1.0) for located in (*citing_entries, *team_entries))
    relevance = {get_entry_place(located): 1.0 for located in citing_entries}
    for located in team_entries:
        relevance[get_entry_place(located)] = TEAM_RELEVANCE
    entries = [match.located.entry for match in matches]
    feedback_weights = find_feedback_weights(index, entries, today)
    weights = make_weights(options, feedback_weights)
    hits = _rank_matches(matches, weights, relevance, {}, feedback_weights)
    return Ranked(
        matches=matches,
        weights=weights,
        hits=tuple(hits[:MIN_JUDGED]),
        strength="HIT",
        margin=0.0,
        feedback=feedback_weights,
        relevance=relevance,
    )


def _list_citing(index: Index, path: str, filters: Filters) -> list[Located]:
    """Return the entries that cite a path, each once."""
    from memory_ci.anchors.anchors import parse_anchor  # Here, for it takes 3 ms.

    citing_entries: list[Located] = []
    for located in list_entries_naming_path(index, path, **filters):  # In any part of a cite.
        anchors = [parse_anchor(cite) for cite in located.entry.cites]
        if any(anchor is not None and anchor.path == path for anchor in anchors):
            citing_entries.append(located)
    return list(dict.fromkeys(citing_entries))


def _list_nearest_team(index: Index, filters: Filters) -> list[Located]:
    """Return the entries of the innermost team directory among those that the filters match."""
    team = list_entries(index, **filters)
    longest = max((len(located.scope.where) for located in team), default=0)
    return [located for located in team if len(located.scope.where) == longest]


def _rank_matches(
    matches: Sequence[Match],
    weights: Weights,
    relevance: EntryScores,
    cosines: EntryScores,
    feedback_weights: FeedbackWeights,
) -> list[Hit]:
    """Return matches as hits, best first, with their cosine and their number of feedback events.

    Args:
        matches: the matches to rank.
        weights: the factors other than relevance.
        relevance: the relevance of each match, by its path and line.
        cosines: the cosines of matches that the search by vectors found.
        feedback_weights: the feedback on the matches.
    """
    hits = []
    for hit in rank(matches, weights, relevance):
        cosine = cosines.get(get_entry_place(hit.located))
        if cosine is not None:
            hit = replace(hit, lanes=(*hit.lanes, ("vectors", cosine)))
        hits.append(feedback_weights.mark(hit))
    return hits


def rank_by_truth(ranked: Ranked, truth_of: TruthOf) -> list[Hit]:
    """Rank the candidates again with their truth factor, and drop those whose factor is 0."""
    places = {get_entry_place(hit.located) for hit in ranked.hits}
    matches = [match for match in ranked.matches if get_entry_place(match.located) in places]
    weights = replace(ranked.weights, truth=truth_of)
    return _rank_matches(matches, weights, ranked.relevance, ranked.cosines, ranked.feedback)


def order_hits(hits: Sequence[Hit], limit: int) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Lower near duplicates, and put corrections before the entries that they correct.

    Args:
        hits: hits, best first.
        limit: how many hits are returned at most.

    Returns:
        The best `limit` hits, and the hits that are withheld because another hit supersedes them.
    """
    ordered_hits, superseded_hits = order_corrections(diversify(hits), _list_contradicted_ids)
    return ordered_hits[:limit], superseded_hits


def _list_contradicted_ids(entry: Entry) -> list[str]:
    """Return the ids of the entries that an entry says it contradicts."""
    from memory_ci.lifecycle.relations import parse_relations  # only corrections need it

    return [relation.id for relation in parse_relations(entry) if relation.kind == "contradicts"]


def make_weights(options: RetrieveOptions, feedback_weights: FeedbackWeights) -> Weights:
    """Return the factors of an entry's score other than its relevance to a task.

    The factor of truth (whether cited code is unchanged) is left at 1; `judge_hits` adds it.

    Args:
        options: the options; the session's own entries count more.
        feedback_weights: the factors that depend on feedback and age.
    """
    includes_retired = "retired" in options.statuses

    def weigh_prominence(entry: Entry) -> float:
        if includes_retired:  # Rank retired entries by their weight before retirement.
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
    superseded entry counts for the entries that replaced it.
    """
    entries_by_id = {entry.id: entry for entry in entries}
    successors = _find_successors(index, entries_by_id.values())
    if not entries_by_id:
        return FeedbackWeights(today)

    feedback_with_counts = list_feedback(index, {*entries_by_id, *successors})
    if not feedback_with_counts:
        return FeedbackWeights(today)
    # Loaded only for entries that have feedback.
    from memory_ci.lifecycle.utility import compute_utilities_of_entries, make_work_key

    feedback = [event for event, _count in feedback_with_counts]
    # The index counts for each event of kind "ignored" all entries that its job ignored, so each
    # event of a job has the same count.
    ignored_count_by_job: dict[object, int] = {}
    for event, count in feedback_with_counts:
        if event.kind == "ignored":
            ignored_count_by_job[make_work_key(event)] = count
    utilities = compute_utilities_of_entries(feedback, ignored_count_by_job, successors)
    return FeedbackWeights(today, utilities)


def _find_successors(index: Index, entries: Iterable[Entry]) -> Successors:
    """Return by the id of a superseded entry the ids of the entries that replaced it.

    Only superseded entries that no file has any more are listed: feedback on them counts for the
    entries that replaced them.
    """
    superseding_entries = [entry for entry in entries if entry.supersedes]
    if not superseding_entries:
        return {}
    from memory_ci.lifecycle.episodes import find_successors

    superseded_ids: list[str] = []
    for entry in superseding_entries:
        superseded_ids += entry.supersedes
    return find_successors(superseding_entries, list_existing_ids(index, superseded_ids))


def _find_session_neighbours(
    index: Index, matches: Iterable[Match]
) -> Mapping[EntryPlace, Sequence[EntryPlace]]:
    """Return for each matching note of a session the matching notes before and after it.

    A place is the path and line of a note. Notes about code stand for themselves: they have no
    neighbours.
    """
    matching_places = set()
    for match in matches:
        names_code = can_be_compared_with_code(match.located)
        if match.located.entry.session and not names_code:
            matching_places.add(get_entry_place(match.located))
    neighbours: defaultdict[EntryPlace, list[EntryPlace]] = defaultdict(list)
    if len(matching_places) < 2:
        return neighbours

    # The index lists all notes, by session, path and line.
    all_notes = list_session_places(index)
    for (session, path, line), (next_session, next_path, next_line) in pairwise(all_notes):
        place = path, line
        next_place = next_path, next_line
        is_same_file = (session, path) == (next_session, next_path)
        if is_same_file and place in matching_places and next_place in matching_places:
            neighbours[place].append(next_place)
            neighbours[next_place].append(place)
    return neighbours


def can_be_compared_with_code(located: Located) -> bool:
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
    serves_stale: bool,
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """Compare the code that hits cite with a tree, and rank the hits again by the result.

    Global memory cites other repositories and is not compared.

    Args:
        workspace: the repository and its configuration.
        hits: the hits, best first.
        tree: the revision to compare with; None is the work tree.
        rerank: called with a function that returns the truth factor of an entry (0.5 if its code
            changed, 0 if it is gone); returns the hits, ranked by scores with this factor.
        serves_stale: keep hits whose code is all gone.

    Returns:
        The hits with their verdicts, and the hits that are withheld because their code is gone.
    """
    comparable = [hit.located for hit in hits if can_be_compared_with_code(hit.located)]
    if not comparable:
        return list(hits), ()
    # Imported here, for it takes 10 ms.
    from memory_ci.commands.retrieve.anchor_verdicts import judge_cites, list_gone, weigh_truth

    verdicts_by_entry = judge_cites(workspace, comparable, tree)
    has_verdicts = any(verdicts_by_entry.values())
    if not has_verdicts:
        return list(hits), ()
    reranked = rerank(partial(weigh_truth, verdicts_by_entry, serves_stale=serves_stale))
    judged_hits: list[Hit] = []
    for hit in reranked:
        verdicts = verdicts_by_entry.get(hit.located.entry, ())
        judged_hits.append(replace(hit, verdicts=verdicts))
    withheld_hits = () if serves_stale else list_gone(hits, verdicts_by_entry)
    return judged_hits, withheld_hits
