"""Utility: how much an entry has helped, replayed from all feedback at each reading and never stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from typing import Literal

import msgspec

from memory_ci.errors import UsageError
from memory_ci.lifecycle.episodes import NO_HEIRS, Heirs, pass_on, unique_events
from memory_ci.lifecycle.prominence import HALF_LIFE_DAYS, Retention, missing_fsrs
from memory_ci.records.entry import NO_FEEDBACK, Entry
from memory_ci.records.episode import EventKind, Feedback, UseCount

DELTAS: Mapping[str, float] = {
    "confirmed": 0.2, "corrected": -0.1, "rejected": -0.3, "undone": -0.4, "ignored": -0.05, "touched": 0.0
}  # fmt: skip
LOW_UTILITY = 0.2
LEAST_EVENTS = 3  # Below this utility, by so many events, a person should look at an entry. It is never retired for it.


class Utility(msgspec.Struct, frozen=True):
    """The worth of an entry in [0, 1], of how many events that is made, and how often work touched what it is about."""

    value: float
    events: int
    touched: int = 0

    @property
    def is_low(self) -> bool:
        # Sums of tenths miss 0.2 by a last digit, on either side.
        return round(self.value, 9) < LOW_UTILITY and self.events >= LEAST_EVENTS


class UtilityStep(msgspec.Struct, frozen=True):
    """One event as it was replayed: what it adds, and what the entry is worth after it, kept within [0, 1]."""

    said: Feedback
    delta: float
    utility: Utility


def replay(
    feedback: Iterable[Feedback],
    policy: Literal["split", "full"],
    start: float = NO_FEEDBACK,
    heirs: Heirs = NO_HEIRS,
) -> dict[str, Utility]:
    """The utility of each entry of which something was said, whatever order that comes in; each event counts once.
    Raises UsageError (unknown-feedback)."""
    return {turn.said.id: turn.utility for turn in list_turns(feedback, policy, start, heirs)}


def replay_some(
    feedback: Iterable[Feedback], shares: Mapping[object, int], heirs: Heirs = NO_HEIRS
) -> dict[str, Utility]:
    """The utility of each entry that `feedback` speaks of, where that is not all: `shares` says what is not in it. That
    is among how many entries the price of being ignored is split, by `job_of`."""
    return {
        turn.said.id: turn.utility for turn in _turns(pass_on(feedback, heirs), shares, NO_FEEDBACK)
    }


def list_turns(
    feedback: Iterable[Feedback],
    policy: Literal["split", "full"],
    start: float = NO_FEEDBACK,
    heirs: Heirs = NO_HEIRS,
) -> Iterator[UtilityStep]:
    """Each event and what it made of its entry, or of the `heirs` of one that is gone, in the order of replay. `split`
    shares the price of being ignored among all that one job ignored, `full` takes it from each. The order of events
    matters, for the value is kept within [0, 1] at each of them. Raises UsageError (unknown-feedback)."""
    events = unique_events(feedback)
    ignored = {
        (job_of(said), said.id) for said in events if said.kind == "ignored" and policy == "split"
    }
    return _turns(pass_on(events, heirs), Counter(job for job, _ in ignored), start)


def _turns(
    events: Iterable[Feedback], shares: Mapping[object, int], start: float
) -> Iterator[UtilityStep]:
    found: dict[str, Utility] = {}
    for said in events:
        before = found.get(said.id, Utility(start, 0))
        delta = delta_of(said.kind)
        if said.kind == "ignored":
            delta /= shares.get(job_of(said), 1)
        is_touch = said.kind == "touched"
        value = min(1.0, max(0.0, before.value + delta))
        found[said.id] = Utility(value, before.events + (not is_touch), before.touched + is_touch)
        yield UtilityStep(said, delta, found[said.id])


def delta_of(kind: str) -> float:
    """What one event of a kind adds to a utility. Raises UsageError (unknown-feedback)."""
    if kind not in DELTAS:
        hint = f"Feedback is one of {', '.join(DELTAS)}."
        raise UsageError(f"{kind!r} is not a kind of feedback", slug="unknown-feedback", hint=hint)
    return DELTAS[kind]


def job_of(said: Feedback) -> object:
    """The piece of work that an event came from, as far as it can be told."""
    return said.ref or (said.by, said.at)


# How a review went, in FSRS's words; to be ignored is no review.
GRADES: Mapping[EventKind, str] = {
    "undone": "Again",
    "rejected": "Again",
    "corrected": "Hard",
    "confirmed": "Good",
}
PROVEN_BY = 2  # From so many different jobs on, a confirmation is Easy.


class FsrsReview(msgspec.Struct, frozen=True):
    """What one event is as a review: the day (UTC), and how it went."""

    day: date
    grade: str


def list_reviews(feedback: Iterable[Feedback]) -> tuple[FsrsReview, ...]:
    """The reviews of one entry, each event once, in the order of their times; two of one day stay in that order."""
    found: list[FsrsReview] = []
    jobs: set[str] = set()
    for said in unique_events(feedback):
        grade = GRADES.get(said.kind)
        if said.kind == "confirmed" and said.ref:
            jobs.add(said.ref)
        if grade is not None:
            is_proven = said.kind == "confirmed" and len(jobs) >= PROVEN_BY
            found.append(FsrsReview(said.at.astimezone(UTC).date(), "Easy" if is_proven else grade))
    return tuple(found)


def find_retentions(entries: Iterable[Entry], feedback: Iterable[Feedback]) -> dict[str, Retention]:
    """The retention of each entry that was reviewed, by id. Raises UsageError (missing-extra).
    The card of an entry begins on the day of learning with a stability of S = 90 days, so that one of which nothing was
    said yet has the curve that it has today; a review from before that day makes it begin then."""
    by_entry: defaultdict[str, list[Feedback]] = defaultdict(list)
    for said in feedback:
        by_entry[said.id].append(said)
    reviewed = [
        (entry, found) for entry in entries if (found := list_reviews(by_entry.get(entry.id, ())))
    ]
    if not reviewed:
        return {}
    try:
        from fsrs import Card, Rating, Scheduler  # an extra: most repositories never ask for it
    except ImportError as error:
        raise missing_fsrs() from error
    # No steps of minutes, so that the card stays in review; no chance in the intervals, which nobody reads.
    scheduler = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    kept: dict[str, Retention] = {}
    for entry, reviews in reviewed:
        # The day on which an entry was learned; where it does not say so, the last on which it was reinforced.
        day = _midnight(min(entry.created_at or entry.last_reinforced, reviews[0].day))
        # The difficulty is the one that FSRS gives to what went well at first.
        card, _ = scheduler.review_card(Card(card_id=0, due=day), Rating.Good, day)
        card.stability = HALF_LIFE_DAYS
        for review in reviews:
            card, _ = scheduler.review_card(card, Rating[review.grade], _midnight(review.day))
        kept[entry.id] = Retention(card.stability or HALF_LIFE_DAYS, reviews[-1].day, len(reviews))
    return kept


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


OFTEN = 10  # An entry that was given so many times and never used is proposed for review.


def is_idle(count: UseCount | None) -> bool:
    """Whether an entry was given often and never used."""
    return count is not None and count.given >= OFTEN and not count.used
