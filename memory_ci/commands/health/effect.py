"""The effect of memory: a comparison of sessions that are served memory with those held out.

The option `retrieve.holdout` says which share of sessions is held out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Set
from datetime import UTC, date, datetime
from typing import NamedTuple

from memory_ci.commands.health.records import ArmComparison, EffectReport
from memory_ci.extraction.suspects import find_steering
from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.memory.episodes import load_written
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.entry import Entry
from memory_ci.records.episode import Episode
from memory_ci.records.event import Session
from memory_ci.records.proportion import compute_share, newcombe_interval
from memory_ci.sessions.captured_sessions import CapturedSessions
from memory_ci.sessions.session_note import (
    HELD_OUT_LINE,
    hash_session_id,
    is_held_out,
    list_served_fingerprints,
)
from memory_ci.text import content_words

REPEATED_SHARE = 0.5  # Least share of a correction's content words that an entry holds already.
LEAST_COMPARED_WORDS = 3  # Content words of a correction that can be compared with entries.
DETECTED_REDUCTION = 1 / 3  # The relative reduction of a rate that is to be detected.
Z_BOTH = 1.959964  # The normal deviate of a two-sided test at 5 %.
Z_POWER = 0.841621  # The normal deviate of a power of 80 %.
WEEK_SECONDS = 604_800


class HoldoutPeriod(NamedTuple):
    """The time since the first session that is known to have been held out.

    Attributes:
        holdout: the share of sessions that is held out now.
        start: when that first session began.
        weeks: the length of the period, at least one.
        marks: the marks of the sessions that are known to have been held out.
    """

    holdout: float
    start: datetime
    weeks: float
    marks: Set[str]


class ArmOutcome(NamedTuple):
    """Whether a session or change was held out, and whether an outcome occurred in it.

    The two arms of the comparison are the sessions (or changes) that were served memory, and those
    that were held out.
    """

    is_held_out: bool
    has_occurred: bool


def measure_effect(workspace: Workspace, today: date) -> EffectReport:
    """Compare sessions and changes that were served memory with those that were held out.

    The comparison begins with the first session that was held out: served nothing, by chance.
    """
    episodes = apply_amendments(load_written(workspace, None).records)
    captured = CapturedSessions(workspace)
    sessions: list[Session] = []
    if workspace.config.sessions.read:
        sessions = [session for session in captured.headers if session.started]

    period = _find_period(workspace, today, episodes, sessions)
    if period is None:
        return EffectReport(workspace.config.retrieve.holdout)
    entries = [located.entry for located in load_memory(workspace, None).located]
    effects = (
        *_compare_sessions(period, sessions, captured, entries),
        *_compare_changes(period, episodes),
    )
    return EffectReport(period.holdout, period.start.date(), effects)


def _find_period(
    workspace: Workspace, today: date, episodes: Iterable[Episode], sessions: Iterable[Session]
) -> HoldoutPeriod | None:
    """Return the period that is compared; None if no session is known to have been held out."""
    # A mark is a hash of a session's id. Episodes, the records of merged work, have the marks of
    # sessions that were held out; sessions on this machine have a note of it.
    episode_marks: set[str] = set()
    starts = []
    for episode in episodes:
        marks = _list_held_out_marks(episode)
        if marks:
            episode_marks.update(marks)
            starts.append(episode.occurred_at)

    noted_marks: set[str] = set()
    for session in sessions:
        mark = hash_session_id(session.id)
        is_held = mark in episode_marks or HELD_OUT_LINE in list_served_fingerprints(
            workspace, session.id
        )
        if is_held and session.started:
            noted_marks.add(mark)
            starts.append(session.started)

    if not starts:
        return None
    start = min(starts)
    elapsed = datetime(today.year, today.month, today.day, tzinfo=UTC) - start
    weeks = max(elapsed.total_seconds() / WEEK_SECONDS, 1.0)
    return HoldoutPeriod(
        holdout=workspace.config.retrieve.holdout,
        start=start,
        weeks=weeks,
        marks=episode_marks | noted_marks,
    )


def _compare_sessions(
    period: HoldoutPeriod,
    sessions: Iterable[Session],
    captured: CapturedSessions,
    entries: Collection[Entry],
) -> tuple[ArmComparison, ...]:
    """Compare how often a person corrected the agent, and how often with what memory says already.

    The two arms are the sessions that were served memory, and those that were held out: served
    nothing, by a choice that depends on a hash of the session's id, its mark.

    Args:
        period: the time that is compared, and which sessions were held out.
        sessions: the sessions; those before the period do not count.
        captured: loads the events of a session.
        entries: the entries of memory.
    """
    correction_outcomes = []
    repetition_outcomes = []
    for session in sessions:
        if session.started is None or session.started < period.start:
            continue
        mark = hash_session_id(session.id)
        is_held = mark in period.marks or is_held_out(mark, period.holdout)
        corrections = list(_iter_corrections(captured.load_events(session)))
        is_in_memory = _has_entry_before(corrections, session.started.date(), entries)
        correction_outcomes.append(ArmOutcome(is_held, has_occurred=bool(corrections)))
        repetition_outcomes.append(ArmOutcome(is_held, has_occurred=is_in_memory))
    return (
        compare_arms("steered", correction_outcomes, period.weeks, period.holdout),
        compare_arms("corrected again", repetition_outcomes, period.weeks, period.holdout),
    )


def _compare_changes(
    period: HoldoutPeriod, episodes: Iterable[Episode]
) -> tuple[ArmComparison, ...]:
    """Compare how often reviewers requested changes, and how often work was reverted.

    The two arms are the changes of sessions that were served memory, and of sessions that were
    held out: served nothing. Changes that no agent session made do not count.

    Args:
        period: the time that is compared.
        episodes: the records of changes, with their outcome.
    """
    request_outcomes = []
    revert_outcomes = []
    for episode in episodes:
        is_held = bool(_list_held_out_marks(episode))
        has_session = bool(episode.retrieved or episode.context.get("sessions"))
        is_of_session = is_held or has_session
        if not is_of_session or episode.occurred_at < period.start:
            continue
        were_changes_requested = episode.outcome == "partial"
        request_outcomes.append(ArmOutcome(is_held, has_occurred=were_changes_requested))
        if episode.action.commit:  # Only what was merged can be reverted.
            was_reverted = episode.outcome == "failure"
            revert_outcomes.append(ArmOutcome(is_held, has_occurred=was_reverted))
    return (
        compare_arms("changes requested", request_outcomes, period.weeks, period.holdout),
        compare_arms("reverted", revert_outcomes, period.weeks, period.holdout),
    )


def compare_arms(
    name: str, outcomes: Iterable[ArmOutcome], weeks: float, holdout: float
) -> ArmComparison:
    """Compare how often an outcome occurred with memory and without it.

    The arms are the sessions or changes that were served memory, and those that were held out.

    Args:
        name: the outcome.
        outcomes: the outcome of each session or change.
        weeks: the length of the time in which they were counted.
        holdout: the share of sessions that is held out now; 0: the share among the outcomes counts.
    """
    served_outcomes: list[bool] = []
    held_outcomes: list[bool] = []
    for outcome in outcomes:
        arm = held_outcomes if outcome.is_held_out else served_outcomes
        arm.append(outcome.has_occurred)
    served_share = compute_share(sum(served_outcomes), len(served_outcomes))
    held_share = compute_share(sum(held_outcomes), len(held_outcomes))
    total = served_share.total + held_share.total

    low = None
    high = None
    if served_share.total and held_share.total:
        low, high = newcombe_interval(served_share, held_share)

    needed_count = None
    needed_weeks = None
    occurred = served_share.hits + held_share.hits
    if 0 < occurred < total and held_share.total:
        holdout_share = holdout or held_share.total / total
        needed_count = find_sample_size(occurred / total, holdout_share)
        needed_weeks = round(needed_count * weeks / total, 1)
    return ArmComparison(name, served_share, held_share, low, high, needed_count, needed_weeks)


def find_sample_size(rate: float, holdout: float) -> int:
    """Return how many both arms need together to detect that memory lowers a rate by a third.

    The test is two-sided at 5 %, with a power of 80 % (Fleiss, Levin and Paik, Statistical
    Methods for Rates and Proportions, 2003).

    Args:
        rate: the rate without memory.
        holdout: the share of the smaller arm.
    """
    lowered_rate = rate * (1 - DETECTED_REDUCTION)
    variance = rate * (1 - rate) / holdout + lowered_rate * (1 - lowered_rate) / (1 - holdout)
    return math.ceil((Z_BOTH + Z_POWER) ** 2 * variance / (rate - lowered_rate) ** 2)


def _list_held_out_marks(episode: Episode) -> list[str]:
    """Return the marks (hashed ids) of the sessions of an episode that were held out."""
    return [mark for mark in episode.context.get("holdout", "").split(", ") if mark]


def _iter_corrections(session: Session) -> Iterator[str]:
    """Yield the sentences with which a person corrects the agent of a session.

    A rejected tool call and an interrupt are corrections without a text, "". The first text of a
    person is the task, and no correction.
    """
    has_task = False
    for event in session.events:
        if event.actor != "human":
            continue
        if event.kind == "text" and not has_task:
            has_task = True
            continue
        if event.kind in ("rejection", "interrupt"):
            yield ""
        for sentence in find_steering(event.text):
            yield sentence.text


def _has_entry_before(corrections: Iterable[str], day: date, entries: Iterable[Entry]) -> bool:
    """Return whether an entry written before a day has at least half the words of a correction."""
    corrections_words = []
    for text in corrections:
        words = content_words(text)
        if len(words) >= LEAST_COMPARED_WORDS:
            corrections_words.append(words)
    if not corrections_words:
        return False

    for entry in entries:
        if entry.created_at is None or entry.created_at >= day:
            continue
        entry_words = content_words(entry.text)
        for words in corrections_words:
            if len(words & entry_words) >= REPEATED_SHARE * len(words):
                return True
    return False
