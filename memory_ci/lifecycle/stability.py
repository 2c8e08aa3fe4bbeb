"""Stability: how long what was learned holds, by the reviews that feedback is (FSRS-6, the package `fsrs`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

import msgspec

from memory_ci.lifecycle.episodes import unique_events
from memory_ci.lifecycle.prominence import HALF_LIFE_DAYS, Retention, missing_fsrs
from memory_ci.records.entry import Entry
from memory_ci.records.episode import EventKind, Feedback

if TYPE_CHECKING:
    from fsrs import Card, Scheduler

GRADES: Mapping[EventKind, str] = {"undone": "Again", "rejected": "Again", "corrected": "Hard", "confirmed": "Good"}
"""How a review went, in FSRS's words; to be ignored is no review."""

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
    """The retention of each entry that was reviewed, by id. Raises UsageError (missing-extra)."""
    by_entry: defaultdict[str, list[Feedback]] = defaultdict(list)
    for said in feedback:
        by_entry[said.id].append(said)
    reviews = {entry.id: (entry, list_reviews(by_entry.get(entry.id, ()))) for entry in entries}
    return {entry_id: _retention(entry, found) for entry_id, (entry, found) in reviews.items() if found}


def _retention(entry: Entry, reviews: Sequence[FsrsReview]) -> Retention:
    """The card of an entry after its reviews.

    It begins on the day of learning with a stability of S = 90 days, so that an entry of which nothing was said yet has
    the curve that it has today; a review from before that day makes it begin then.
    """
    try:
        from fsrs import Rating, Scheduler  # an extra: most repositories never ask for it
    except ImportError as error:
        raise missing_fsrs() from error
    # No steps of minutes, so that the card stays in review; no chance in the intervals, which nobody reads.
    scheduler = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    # The day on which an entry was learned; where it does not say so, the last on which it was reinforced.
    card = _new_card(scheduler, min(entry.created_at or entry.last_reinforced, reviews[0].day))
    for review in reviews:
        card, _ = scheduler.review_card(card, Rating[review.grade], _midnight(review.day))
    return Retention(card.stability or HALF_LIFE_DAYS, reviews[-1].day, len(reviews))


def _new_card(scheduler: Scheduler, day: date) -> Card:
    """A card with S = 90 and the difficulty that FSRS gives to what went well at first."""
    from fsrs import Card, Rating

    card, _ = scheduler.review_card(Card(card_id=0, due=_midnight(day)), Rating.Good, _midnight(day))
    card.stability = HALF_LIFE_DAYS
    return card


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
