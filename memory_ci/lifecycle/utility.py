"""Utility: how much an entry has helped, replayed from all feedback at each reading and never stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from typing import Literal

import msgspec

from memory_ci.errors import UsageError
from memory_ci.lifecycle.episodes import NO_HEIRS, Heirs, move_to_heirs, unique_events
from memory_ci.lifecycle.prominence import HALF_LIFE_DAYS, Retention, missing_fsrs
from memory_ci.records.entry import NO_FEEDBACK, Entry
from memory_ci.records.episode import EventKind, Feedback, UseCount

DELTAS: Mapping[str, float] = {
    "confirmed": 0.2,
    "corrected": -0.1,
    "rejected": -0.3,
    "undone": -0.4,
    "ignored": -0.05,
    "touched": 0.0,
}
"""What one event of each kind adds to the utility of an entry."""

LOW_UTILITY = 0.2
MIN_EVENTS = 3
"""Below this utility, after so many events, a person should look at an entry. It is never retired for it."""

OFTEN = 10
"""An entry that was served so many times and never used is proposed for review."""

GRADES: Mapping[EventKind, str] = {
    "undone": "Again",
    "rejected": "Again",
    "corrected": "Hard",
    "confirmed": "Good",
}
"""How a review went, in FSRS's words; to be ignored is no review."""

PROVEN_BY = 2
"""From so many different jobs on, a confirmation is graded Easy."""


class Utility(msgspec.Struct, frozen=True):
    """How much an entry has helped.

    Attributes:
        value: from 0 to 1.
        events: how many events it is made of.
        touched: how often work was about the same thing.
    """

    value: float
    events: int
    touched: int = 0

    @property
    def is_low(self) -> bool:
        """Whether a person should look at the entry."""
        # Sums of tenths miss 0.2 by a last digit, on either side.
        return round(self.value, 9) < LOW_UTILITY and self.events >= MIN_EVENTS


class UtilityStep(msgspec.Struct, frozen=True):
    """One event as it was replayed.

    Attributes:
        said: the event.
        delta: what it adds.
        utility: the utility of the entry after it, kept within [0, 1].
    """

    said: Feedback
    delta: float
    utility: Utility


class FsrsReview(msgspec.Struct, frozen=True):
    """One event as a review: the day (UTC), and how it went."""

    day: date
    grade: str


def replay(
    feedback: Iterable[Feedback],
    policy: Literal["split", "full"],
    start: float = NO_FEEDBACK,
    heirs: Heirs = NO_HEIRS,
) -> dict[str, Utility]:
    """Return the utility of each entry that has feedback; each event counts once.

    Args:
        feedback: all feedback, in any order.
        policy: how the price of being ignored is taken, as in `list_turns`.
        start: the utility without feedback.
        heirs: which entries inherit the feedback of entries that are gone.

    Raises:
        UsageError: unknown-feedback.
    """
    steps = list_turns(feedback, policy, start, heirs)
    return {step.said.id: step.utility for step in steps}


def replay_some(
    feedback: Iterable[Feedback], shares: Mapping[object, int], heirs: Heirs = NO_HEIRS
) -> dict[str, Utility]:
    """Return the utility of some entries, without the feedback of the others.

    Args:
        feedback: the feedback on these entries.
        shares: among how many entries the price of being ignored is split, by `job_of`.
        heirs: which entries inherit the feedback of entries that are gone.
    """
    steps = _replay(move_to_heirs(feedback, heirs), shares, NO_FEEDBACK)
    return {step.said.id: step.utility for step in steps}


def list_turns(
    feedback: Iterable[Feedback],
    policy: Literal["split", "full"],
    start: float = NO_FEEDBACK,
    heirs: Heirs = NO_HEIRS,
) -> Iterator[UtilityStep]:
    """Yield each event with what it makes of its entry, or of the heirs of one that is gone.

    The order of events matters, because the utility is kept within [0, 1] after each of them.

    Args:
        feedback: all feedback, in any order.
        policy: `split` shares the price of being ignored among all entries that a job ignored,
            `full` takes it from each.
        start: the utility without feedback.
        heirs: which entries inherit the feedback of entries that are gone.

    Raises:
        UsageError: unknown-feedback.
    """
    events = unique_events(feedback)
    shares: Counter[object] = Counter()
    if policy == "split":
        ignored = {(job_of(event), event.id) for event in events if event.kind == "ignored"}
        shares.update(job for job, _ in ignored)
    return _replay(move_to_heirs(events, heirs), shares, start)


def _replay(
    events: Iterable[Feedback], shares: Mapping[object, int], start: float
) -> Iterator[UtilityStep]:
    utilities: dict[str, Utility] = {}
    for event in events:
        before = utilities.get(event.id, Utility(start, 0))
        delta = delta_of(event.kind)
        if event.kind == "ignored":
            delta /= shares.get(job_of(event), 1)
        is_touch = event.kind == "touched"
        value = min(1.0, max(0.0, before.value + delta))
        after = Utility(value, before.events + (not is_touch), before.touched + is_touch)
        utilities[event.id] = after
        yield UtilityStep(event, delta, after)


def delta_of(kind: str) -> float:
    """Return what one event of a kind adds to a utility.

    Raises:
        UsageError: unknown-feedback.
    """
    if kind not in DELTAS:
        hint = f"Feedback is one of {', '.join(DELTAS)}."
        raise UsageError(f"{kind!r} is not a kind of feedback", slug="unknown-feedback", hint=hint)
    return DELTAS[kind]


def job_of(said: Feedback) -> object:
    """Return the piece of work that an event came from, as far as it is known."""
    return said.ref or (said.by, said.at)


def list_reviews(feedback: Iterable[Feedback]) -> tuple[FsrsReview, ...]:
    """Return the reviews of one entry, each event once, in the order of their times."""
    reviews: list[FsrsReview] = []
    confirming_jobs: set[str] = set()
    for event in unique_events(feedback):
        grade = GRADES.get(event.kind)
        if event.kind == "confirmed" and event.ref:
            confirming_jobs.add(event.ref)
        if grade is None:
            continue
        if event.kind == "confirmed" and len(confirming_jobs) >= PROVEN_BY:
            grade = "Easy"
        reviews.append(FsrsReview(event.at.astimezone(UTC).date(), grade))
    return tuple(reviews)


def find_retentions(entries: Iterable[Entry], feedback: Iterable[Feedback]) -> dict[str, Retention]:
    """Return the retention of each entry that was reviewed, by id.

    The card of an entry begins on the day of learning with a stability of S = 90 days, so that an
    entry without reviews has the curve that it has without FSRS. A review before that day makes the
    card begin then.

    Raises:
        UsageError: missing-extra.
    """
    feedback_by_id: defaultdict[str, list[Feedback]] = defaultdict(list)
    for event in feedback:
        feedback_by_id[event.id].append(event)
    reviewed: list[tuple[Entry, tuple[FsrsReview, ...]]] = []
    for entry in entries:
        reviews = list_reviews(feedback_by_id.get(entry.id, ()))
        if reviews:
            reviewed.append((entry, reviews))
    if not reviewed:
        return {}
    try:
        from fsrs import Card, Rating, Scheduler  # an extra that few repositories use
    except ImportError as error:
        raise missing_fsrs() from error
    # Without steps of minutes the card stays in review; intervals, which nobody reads, have no chance.
    scheduler = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    retentions: dict[str, Retention] = {}
    for entry, reviews in reviewed:
        learned_on = entry.created_at or entry.last_reinforced
        start = _midnight(min(learned_on, reviews[0].day))
        # The difficulty is the one that FSRS gives to a first review that went well.
        card, _ = scheduler.review_card(Card(card_id=0, due=start), Rating.Good, start)
        card.stability = HALF_LIFE_DAYS
        for review in reviews:
            card, _ = scheduler.review_card(card, Rating[review.grade], _midnight(review.day))
        stability = card.stability or HALF_LIFE_DAYS
        retentions[entry.id] = Retention(stability, reviews[-1].day, len(reviews))
    return retentions


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def is_idle(count: UseCount | None) -> bool:
    """Return whether an entry was served often and never used."""
    return count is not None and count.given >= OFTEN and not count.used
