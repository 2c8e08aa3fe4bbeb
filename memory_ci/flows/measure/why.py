"""Why: what an entry counts on a day, and everything that made it so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.flows.edits import name_edits
from memory_ci.flows.episodes import load_episodes
from memory_ci.flows.feedback_index import mask_feedback
from memory_ci.flows.index import synced_index
from memory_ci.flows.lookup import find_entry
from memory_ci.flows.past_index import find_moment
from memory_ci.flows.screening import find_unsafe, is_unsafe
from memory_ci.flows.serve.anchor_verdicts import judge_located, weigh_truth
from memory_ci.flows.serve.options import RetrieveOptions
from memory_ci.flows.serve.ranking import FeedbackWeights, make_standing, weights_of
from memory_ci.flows.workspace import Workspace, load_memory
from memory_ci.index.search import list_entries
from memory_ci.lifecycle.episodes import (
    Heirs,
    combine,
    count_usage,
    event_key,
    find_heirs_among,
    list_feedback,
    pass_on,
)
from memory_ci.lifecycle.prominence import Retention, effective_importance, prominence, retrievability
from memory_ci.lifecycle.utility import UtilityStep, find_retentions, list_turns, replay
from memory_ci.records.config import Config
from memory_ci.records.entry import Located
from memory_ci.records.episode import Episode, Feedback, Telling, UseCount
from memory_ci.records.overview import CountedFeedback, Retrievability, Why
from memory_ci.records.retrieval import Match
from memory_ci.retrieval.rank import rank

WITHHELD = "[withheld]"
MAX_NAMED = 5
NO_FSRS = "How much of it is left to memory is told by the package fsrs: pip install 'memory-ci[fsrs]'."
LOW = "Much was said against it: a person should look whether it still holds. It is never retired for that alone."

Factors = tuple[tuple[str, float], ...]


class _Case(msgspec.Struct, frozen=True):
    """Where and when it is asked: the view (None: the work tree), its day, and all that its episodes tell."""

    workspace: Workspace
    view: str | None
    today: date
    tellings: tuple[Telling, ...]

    @property
    def config(self) -> Config:
        return self.workspace.config


def explain_entry(workspace: Workspace, prefix: str, today: date, at: str | None = None) -> Why:
    """Why the entry whose id begins with `prefix` ranks as it does; `at` a commit or day, with that day as today.

    Raises UsageError (unknown-entry, ambiguous-entry), RepositoryError (unknown-revision, shallow-clone).
    """
    if at is None:
        return _explain(workspace, prefix, None, today)
    moment = find_moment(workspace, at)
    if moment.commit is None:
        raise UsageError(f"no entry has an id that starts with {prefix!r}", slug="unknown-entry", hint=moment.note)
    return _explain(moment.workspace, prefix, moment.commit, moment.today)


def _explain(workspace: Workspace, prefix: str, view: str | None, today: date) -> Why:
    memory = load_memory(workspace, view)
    located = (*memory.located, *(_list_global(workspace) if view is None else ()))
    place = find_entry(located, prefix, memory.findings)
    told = load_episodes(workspace, view)
    case = _Case(workspace, view, today, told.tellings)
    heirs = find_heirs_among(one.entry for one in located)
    heard = _hear(case, place.entry.id, heirs)
    said = list_feedback(told.tellings)
    feedback = pass_on(said, heirs)
    usage = count_usage(combine(told.tellings), heirs).get(place.entry.id, UseCount())
    utilities = replay(said, case.config.episodes.ignored_policy, heirs=heirs)
    standing = make_standing([place.entry], feedback, utilities, case.config, today)
    retention, lacking = _find_retention(place, feedback)
    truth = judge_located(workspace, [place], view) if place.scope.name != "global" else {}
    weights = replace(
        weights_of(case.config, RetrieveOptions(), standing), truth=partial(weigh_truth, truth, stale=False)
    )
    ranked = [] if place.scope.name == "institutional" else rank([Match(place, 1.0)], weights)
    utility = standing.utilities.get(place.entry.id)
    is_low = utility is not None and utility.is_low
    return Why(
        located=place,
        today=today,
        prominence=prominence(
            place.entry, today, case.config.prominence.decay, standing.retentions.get(place.entry.id)
        ),
        parts=_parts(place, standing),
        decay=case.config.prominence.decay,
        utility=standing.utility(place.entry),
        given=usage.given,
        used=usage.used,
        touched=utility.touched if utility else 0,
        heard=heard,
        is_low=is_low,
        memory=_memory(place, today, retention),
        factors=ranked[0].factors[1:] if ranked else (),
        verdicts=name_edits(workspace, [(place.entry, truth.get(place.entry, ()))], view)[0],
        notes=(
            *_note_twins(place, located),
            *((LOW,) if is_low else ()),
            *lacking,
            *_why_not_ranked(place, today, is_ranked=bool(ranked)),
        ),
        findings=told.findings,
    )


def _list_global(workspace: Workspace) -> list[Located]:
    """Global memory, which the index of the work tree alone has; it cites other repositories, so nothing is judged."""
    with synced_index(workspace) as index:
        return list_entries(index, scopes=("global",))


def _note_twins(place: Located, located: Iterable[Located]) -> Iterator[str]:
    """A note on other places of the same id: the first place counts."""
    twins = sorted((other.path, other.line) for other in located if other.entry.id == place.entry.id)
    others = [f"{path}:{line}" for path, line in twins if (path, line) != (place.path, place.line)]
    if others:
        yield f"Its id stands at {', '.join(others[:MAX_NAMED])} as well; this is the first place."


def _parts(place: Located, standing: FeedbackWeights) -> Factors:
    """What the seed's prominence is made of; a retired entry has none, whatever they are."""
    entry = place.entry
    return (
        ("importance", effective_importance(entry)),
        ("recency", standing.recency(entry)),
        ("reinforcement", 1.0 + entry.reinforcement_count),
        *((("retired", 0.0),) if entry.status == "retired" else ()),
    )


def _why_not_ranked(place: Located, today: date, *, is_ranked: bool) -> Iterator[str]:
    entry = place.entry
    if place.scope.name == "institutional":
        yield "Institutional memory is given whole and never ranked."
    elif entry.status == "retired":
        yield "It is retired: retrieve does not give it."
    elif not is_ranked:
        yield "Nothing is left of the code that it cites: retrieve withholds it."
    if entry.valid_until is not None and entry.valid_until <= today:
        yield f"It is not valid any more since {entry.valid_until}: retrieve does not give it."
    for finding in find_unsafe(place):
        yield f"It {finding.message} [{finding.code}]: retrieve does not give it."


# -- feedback


def _hear(case: _Case, entry_id: str, heirs: Heirs) -> tuple[CountedFeedback, ...]:
    """Each event of an entry in the order of replay, with the episode that it belongs to."""
    episodes = combine(case.tellings)
    told = {event_key(said): episode for episode in reversed(episodes) for said in pass_on(episode.feedback, heirs)}
    turns = list_turns(list_feedback(case.tellings), case.config.episodes.ignored_policy, heirs=heirs)
    return tuple(_heard(turn, told) for turn in turns if turn.said.id == entry_id)


def _heard(turn: UtilityStep, told: Mapping[tuple[object, ...], Episode]) -> CountedFeedback:
    said, episode = mask_feedback(turn.said), told.get(event_key(turn.said))
    known = CountedFeedback(said.at, said.kind, turn.delta, turn.utility.value, said.by, said.ref)
    if episode is None:
        return known
    summary = episode.situation.summary or episode.text
    return replace(
        known, episode=episode.id, outcome=episode.outcome, summary=WITHHELD if is_unsafe(summary) else summary
    )


def _find_retention(place: Located, feedback: Sequence[Feedback]) -> tuple[Retention | None, tuple[str, ...]]:
    """(what FSRS makes of the reviews, what is to be said where its package is not there)."""
    try:
        return find_retentions([place.entry], feedback).get(place.entry.id), ()
    except UsageError:
        return None, (NO_FSRS,)


def _memory(place: Located, today: date, retention: Retention | None) -> Retrievability | None:
    if retention is None:
        return None
    left = retrievability(place.entry, today, retention)
    return Retrievability(retention.stability, left, retention.reviews, retention.reviewed_on)
