"""The weight of one entry in ranking, and all that it depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial

from msgspec.structs import replace

from memory_ci.commands.retrieve.anchor_verdicts import VerdictsByEntry, judge_cites, weigh_truth
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.ranking import FeedbackWeights, make_weights
from memory_ci.commands.show.records import CountedFeedback, RankExplanation
from memory_ci.errors import UsageError
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle import episodes as lifecycle_episodes
from memory_ci.lifecycle.prominence import effective_importance, prominence
from memory_ci.lifecycle.utility import compute_utilities, list_utility_steps
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.episodes import Episodes, load_episodes, mask_feedback
from memory_ci.memory.index import synced_index
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.past_index import find_moment
from memory_ci.memory.screening import find_unsafe_entry, is_unsafe
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode, EpisodeRecord, UseCount
from memory_ci.records.retrieval import Match
from memory_ci.search.rank import rank
from memory_ci.search.search import list_entries

WITHHELD = "[withheld]"
MAX_NAMED = 5
LOW_UTILITY_NOTE = (
    "Much of its feedback is negative: a person should check whether it still holds. "
    "Negative feedback alone never retires it."
)


def explain_entry(
    workspace: Workspace, prefix: str, today: date, at: str | None = None
) -> RankExplanation:
    """Return all that the rank of an entry depends on, except the words of a task.

    Args:
        workspace: the repository and its configuration.
        prefix: the first characters of the entry's id.
        today: the present day.
        at: a commit or a day, which then counts as today; None: the work tree.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
        UsageError: unknown-entry, ambiguous-entry.
    """
    view = None
    if at is not None:
        moment = find_moment(workspace, at)
        workspace = moment.workspace
        view = moment.commit
        today = moment.today
        if view is None:
            message = f"no entry has an id that starts with {prefix!r}"
            raise UsageError(message, slug="unknown-entry", hint=moment.note)
    return _explain_as_of(workspace, prefix, view, today)


def _explain_as_of(
    workspace: Workspace, prefix: str, view: str | None, today: date
) -> RankExplanation:
    """Return all that the rank of an entry depends on, as of a revision and a day.

    Args:
        workspace: the repository and its configuration.
        prefix: the first characters of the entry's id.
        view: a revision; None is the work tree.
        today: the day that counts as today.
    """
    episodes = load_episodes(workspace, view)
    located, all_located = _find_located(workspace, prefix, view)
    entry = located.entry
    # Feedback on and use of a superseded entry count for the entry that replaced it, its heir.
    successors = lifecycle_episodes.find_successors_among(other.entry for other in all_located)
    all_feedback = lifecycle_episodes.list_feedback(episodes.records)
    utilities = compute_utilities(all_feedback, successors=successors)
    feedback_weights = FeedbackWeights(today, utilities)
    usage = _count_usage(entry, episodes, successors)
    has_low_utility = entry.id in utilities and utilities[entry.id].is_low

    verdicts_by_entry: VerdictsByEntry = {}
    if located.scope.name != "global":  # Global memory cites other repositories.
        verdicts_by_entry = judge_cites(workspace, [located], view)
    entry_verdicts = verdicts_by_entry.get(entry, ())
    rank_factors = _list_rank_factors(located, feedback_weights, verdicts_by_entry)

    notes = [*_note_duplicate_ids(located, all_located)]
    if has_low_utility:
        notes.append(LOW_UTILITY_NOTE)
    notes += _note_absence(located, today, is_ranked=bool(rank_factors))
    notes += _note_check_outcome(workspace, entry, view, today)
    return RankExplanation(
        located=located,
        today=today,
        prominence=prominence(entry, today),
        prominence_factors=_list_prominence_factors(entry, feedback_weights),
        utility=feedback_weights.utility(entry),
        served_count=usage.served_count,
        used_count=usage.used_count,
        related_count=feedback_weights.touched(entry),
        feedback=tuple(_iter_counted_feedback(entry.id, episodes.records, successors)),
        has_low_utility=has_low_utility,
        rank_factors=rank_factors,
        verdicts=add_last_edits(workspace, [(entry, entry_verdicts)], view)[0],
        notes=tuple(notes),
        findings=episodes.findings,
    )


def _find_located(
    workspace: Workspace, prefix: str, view: str | None
) -> tuple[Located, Sequence[Located]]:
    """Return the entry whose id starts with a prefix, and all entries."""
    memory = load_memory(workspace, view)
    all_located = memory.located
    if view is None:
        with synced_index(workspace) as index:  # Only the index has global memory.
            all_located = (*all_located, *list_entries(index, scopes=("global",)))
    return find_entry(all_located, prefix, memory.findings), all_located


def _list_rank_factors(
    located: Located, feedback_weights: FeedbackWeights, verdicts: VerdictsByEntry
) -> tuple[tuple[str, float], ...]:
    """Return the factors by which `retrieve` multiplies an entry's relevance to a task.

    To find them, the entry is ranked alone, as a match of a made-up task with relevance 1.

    Args:
        located: the entry.
        feedback_weights: the weights by feedback and age.
        verdicts: whether the code that the entry cites is unchanged.

    Returns:
        The name and value of each factor; () if `retrieve` does not rank the entry.
    """
    if located.scope.name == "institutional":
        return ()
    weights = make_weights(RetrieveOptions(), feedback_weights)
    weights = replace(weights, truth=partial(weigh_truth, verdicts, serves_stale=False))
    hits = rank([Match(located, 1.0)], weights)
    if not hits:
        return ()
    _relevance, *rank_factors = hits[0].factors
    return tuple(rank_factors)


def _count_usage(
    entry: Entry, episodes: Episodes, successors: lifecycle_episodes.Successors
) -> UseCount:
    combined = lifecycle_episodes.apply_amendments(episodes.records)
    return lifecycle_episodes.count_usage(combined, successors).get(entry.id, UseCount())


def _list_prominence_factors(
    entry: Entry, feedback_weights: FeedbackWeights
) -> tuple[tuple[str, float], ...]:
    """Return the factors of an entry's prominence, its rank without a task, as (name, value)."""
    factors = [
        ("importance", effective_importance(entry)),
        ("recency", feedback_weights.recency(entry)),
        ("reinforcement", 1.0 + entry.reinforcement_count),
    ]
    if entry.status == "retired":
        factors.append(("retired", 0.0))
    return tuple(factors)


def _iter_counted_feedback(
    entry_id: str,
    records: Sequence[EpisodeRecord],
    successors: lifecycle_episodes.Successors,
) -> Iterator[CountedFeedback]:
    """Yield each feedback on an entry with its effect on the utility, in the order of time.

    Args:
        entry_id: the id of the entry.
        records: all episodes, which have feedback, and their amendments.
        successors: which entry replaced which: feedback on the old one counts for the new one.
    """
    episodes_by_event = _map_episodes_by_event(records, successors)
    all_feedback = lifecycle_episodes.list_feedback(records)
    for step in list_utility_steps(all_feedback, successors=successors):
        feedback = step.event
        if feedback.id != entry_id:
            continue
        safe_feedback = mask_feedback(feedback)
        counted = CountedFeedback(
            at=safe_feedback.at,
            kind=safe_feedback.kind,
            delta=step.delta,
            value=step.utility.value,
            by=safe_feedback.by,
            ref=safe_feedback.ref,
        )
        episode = episodes_by_event.get(lifecycle_episodes.event_key(feedback))
        if episode is not None:
            summary = episode.situation.summary or episode.text
            counted = replace(
                counted,
                episode=episode.id,
                outcome=episode.outcome,
                summary=WITHHELD if is_unsafe(summary) else summary,
            )
        yield counted


def _map_episodes_by_event(
    records: Sequence[EpisodeRecord], successors: lifecycle_episodes.Successors
) -> dict[object, Episode]:
    """Return the episode that each feedback event came with, by the key of the event.

    If several episodes have the same event, the first of them counts.

    Args:
        records: the episodes (records of work), and their amendments.
        successors: which entry replaced which; an event on the old one gets the key of the new one.
    """
    episodes_by_event: dict[object, Episode] = {}
    for episode in lifecycle_episodes.apply_amendments(records):  # with their amendments
        for event in lifecycle_episodes.move_to_successors(episode.feedback, successors):
            episodes_by_event.setdefault(lifecycle_episodes.event_key(event), episode)
    return episodes_by_event


def _note_check_outcome(
    workspace: Workspace, entry: Entry, view: str | None, today: date
) -> Iterator[str]:
    """Yield a sentence on how often merged changes broke the check that an entry has."""
    commit = find_commit(workspace.repo, view or "HEAD")
    if entry.check is None or commit is None:
        return
    from memory_ci.memory.check_outcomes import count_check_outcomes
    from memory_ci.sessions.backtest_text import describe_check_outcome

    for outcome in count_check_outcomes(workspace.at(commit), today, entry.id):
        yield f"Its check: {describe_check_outcome(outcome)}."


def _note_duplicate_ids(located: Located, all_located: Sequence[Located]) -> Iterator[str]:
    """Yield a sentence if other places in memory have the same id; only the first place counts."""
    other_places = []
    for other_located in all_located:
        place = (other_located.path, other_located.line)
        if other_located.entry.id == located.entry.id and place != (located.path, located.line):
            other_places.append(place)
    if other_places:
        names = [f"{path}:{line}" for path, line in sorted(other_places)]
        yield f"Its id is also at {', '.join(names[:MAX_NAMED])}; this is the first place."


def _note_absence(located: Located, today: date, *, is_ranked: bool) -> Iterator[str]:
    """Yield reasons why `retrieve` does not serve an entry, or not by its rank."""
    entry = located.entry
    if located.scope.name == "institutional":
        yield "Institutional memory is served whole and never ranked."
    elif entry.status == "retired":
        yield "It is retired: retrieve does not give it."
    elif not is_ranked:
        yield "Nothing is left of the code that it cites: retrieve withholds it."
    if entry.valid_until is not None and entry.valid_until <= today:
        yield f"It is not valid any more since {entry.valid_until}: retrieve does not give it."
    for finding in find_unsafe_entry(located):
        yield f"It {finding.message} [{finding.code}]: retrieve does not give it."
