"""The weight of one entry in ranking, and all that it depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial

from msgspec.structs import replace

from memory_ci.commands.retrieve.anchor_verdicts import Truth, judge_cites, weigh_truth
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.ranking import FeedbackWeights, make_weights
from memory_ci.commands.show.records import CountedFeedback, Why
from memory_ci.errors import UsageError
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle import episodes as lifecycle_episodes
from memory_ci.lifecycle.prominence import effective_importance, prominence
from memory_ci.lifecycle.utility import list_steps, replay
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.episodes import Episodes, load_episodes, mask_feedback
from memory_ci.memory.index import synced_index
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.past_index import find_moment
from memory_ci.memory.screening import find_unsafe, is_unsafe
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode, EpisodeRecord, UseCount
from memory_ci.records.retrieval import Match
from memory_ci.search.rank import rank
from memory_ci.search.search import list_entries

WITHHELD = "[withheld]"
MAX_NAMED = 5
LOW = (
    "Much was said against it: a person should look whether it still holds. "
    "It is never retired for that alone."
)


def explain_entry(workspace: Workspace, prefix: str, today: date, at: str | None = None) -> Why:
    """Explain why the entry whose id starts with a prefix ranks as it does.

    Args:
        at: a commit or a day, which then counts as today.

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
    return _explain(workspace, prefix, view, today)


def _explain(workspace: Workspace, prefix: str, view: str | None, today: date) -> Why:
    """Explain the rank of an entry of a view on a day."""
    episodes = load_episodes(workspace, view)
    located, all_located = _find_located(workspace, prefix, view)
    entry = located.entry
    heirs = lifecycle_episodes.find_heirs_among(other.entry for other in all_located)
    utilities = replay(lifecycle_episodes.list_feedback(episodes.tellings), heirs=heirs)
    standing = FeedbackWeights(today, utilities)
    usage = _count_usage(entry, episodes, heirs)
    is_low = entry.id in utilities and utilities[entry.id].is_low

    # Global memory cites other repositories.
    truth = {} if located.scope.name == "global" else judge_cites(workspace, [located], view)
    factors = _rank_factors(located, standing, truth)
    notes = [*_note_duplicate_ids(located, all_located)]
    if is_low:
        notes.append(LOW)
    notes += _note_absence(located, today, is_ranked=bool(factors))
    notes += _note_check(workspace, entry, view, today)
    return Why(
        located=located,
        today=today,
        prominence=prominence(entry, today),
        parts=_list_parts(entry, standing),
        utility=standing.utility(entry),
        given=usage.given,
        used=usage.used,
        touched=standing.touched(entry),
        heard=tuple(_list_counted(entry.id, episodes.tellings, heirs)),
        is_low=is_low,
        factors=factors,
        verdicts=add_last_edits(workspace, [(entry, truth.get(entry, ()))], view)[0],
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


def _rank_factors(
    located: Located, standing: FeedbackWeights, truth: Truth
) -> tuple[tuple[str, float], ...]:
    """Return the factors of an entry's score without its relevance; none if it is not ranked."""
    if located.scope.name == "institutional":
        return ()
    weights = make_weights(RetrieveOptions(), standing)
    weights = replace(weights, truth=partial(weigh_truth, truth, stale=False))
    hits = rank([Match(located, 1.0)], weights)
    return hits[0].factors[1:] if hits else ()


def _count_usage(entry: Entry, episodes: Episodes, heirs: lifecycle_episodes.Heirs) -> UseCount:
    combined = lifecycle_episodes.combine(episodes.tellings)
    return lifecycle_episodes.count_usage(combined, heirs).get(entry.id, UseCount())


def _list_parts(entry: Entry, standing: FeedbackWeights) -> tuple[tuple[str, float], ...]:
    """Return the factors of an entry's prominence."""
    parts = [
        ("importance", effective_importance(entry)),
        ("recency", standing.recency(entry)),
        ("reinforcement", 1.0 + entry.reinforcement_count),
    ]
    if entry.status == "retired":
        parts.append(("retired", 0.0))
    return tuple(parts)


def _list_counted(
    entry_id: str,
    tellings: Sequence[EpisodeRecord],
    heirs: lifecycle_episodes.Heirs,
) -> Iterator[CountedFeedback]:
    """Yield the feedback on an entry in the order of replay, each with its episode."""
    episodes = _map_episodes(tellings, heirs)
    events = lifecycle_episodes.list_feedback(tellings)
    for step in list_steps(events, heirs=heirs):
        if step.event.id != entry_id:
            continue
        event = mask_feedback(step.event)
        counted = CountedFeedback(
            event.at, event.kind, step.delta, step.utility.value, event.by, event.ref
        )
        episode = episodes.get(lifecycle_episodes.event_key(step.event))
        if episode is not None:
            summary = episode.situation.summary or episode.text
            counted = replace(
                counted,
                episode=episode.id,
                outcome=episode.outcome,
                summary=WITHHELD if is_unsafe(summary) else summary,
            )
        yield counted


def _map_episodes(
    tellings: Sequence[EpisodeRecord], heirs: lifecycle_episodes.Heirs
) -> dict[object, Episode]:
    """Map the key of each feedback event to its episode, the first of several."""
    episodes: dict[object, Episode] = {}
    for episode in reversed(lifecycle_episodes.combine(tellings)):
        for event in lifecycle_episodes.move_to_heirs(episode.feedback, heirs):
            episodes[lifecycle_episodes.event_key(event)] = episode
    return episodes


def _note_check(workspace: Workspace, entry: Entry, view: str | None, today: date) -> Iterator[str]:
    """Yield what became of the check of an entry in merged changes."""
    commit = find_commit(workspace.repo, view or "HEAD")
    if entry.check is None or commit is None:
        return
    from memory_ci.memory.check_outcomes import count_check_outcomes
    from memory_ci.sessions.backtest_text import describe_check_outcome

    for outcome in count_check_outcomes(workspace.at(commit), today, entry.id):
        yield f"Its check: {describe_check_outcome(outcome)}."


def _note_duplicate_ids(located: Located, all_located: Sequence[Located]) -> Iterator[str]:
    """Note other places of the same id; only the first place counts."""
    places = []
    for other in all_located:
        place = (other.path, other.line)
        if other.entry.id == located.entry.id and place != (located.path, located.line):
            places.append(place)
    if places:
        names = [f"{path}:{line}" for path, line in sorted(places)]
        yield f"Its id stands at {', '.join(names[:MAX_NAMED])} as well; this is the first place."


def _note_absence(located: Located, today: date, *, is_ranked: bool) -> Iterator[str]:
    """Say why `retrieve` does not serve an entry, or not by its rank."""
    entry = located.entry
    if located.scope.name == "institutional":
        yield "Institutional memory is given whole and never ranked."
    elif entry.status == "retired":
        yield "It is retired: retrieve does not give it."
    elif not is_ranked:
        yield "Nothing is left of the code that it cites: retrieve withholds it."
    if entry.valid_until is not None and entry.valid_until <= today:
        yield f"It is not valid any more since {entry.valid_until}: retrieve does not give it."
    for finding in find_unsafe(located):
        yield f"It {finding.message} [{finding.code}]: retrieve does not give it."
