"""Utility: how much an entry has helped, computed from all feedback and never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from memory_ci.errors import UsageError
from memory_ci.lifecycle.episodes import (
    NO_SUCCESSORS,
    Successors,
    move_to_successors,
    unique_events,
)
from memory_ci.records.entry import NO_FEEDBACK
from memory_ci.records.episode import Feedback, UseCount

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
"""Below this utility, after so many events, a person should look at an entry.

It is never retired for that.
"""

OFTEN = 10
"""An entry that was served so many times and never used is proposed for review."""


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
    """One event, and its effect on the utility of its entry.

    Attributes:
        event: the event.
        delta: the weight that it adds.
        utility: the utility of the entry after it, kept within [0, 1].
    """

    event: Feedback
    delta: float
    utility: Utility


def compute_utilities(
    feedback: Iterable[Feedback],
    start: float = NO_FEEDBACK,
    successors: Successors = NO_SUCCESSORS,
) -> dict[str, Utility]:
    """Return the utility of each entry that has feedback; each event counts once.

    Args:
        feedback: all feedback, in any order.
        start: the utility without feedback.
        successors: which entries inherit the feedback of entries that are gone.

    Raises:
        UsageError: unknown-feedback.
    """
    steps = list_utility_steps(feedback, start, successors)
    return {step.event.id: step.utility for step in steps}


def compute_utilities_of_entries(
    feedback: Iterable[Feedback],
    ignored_counts: Mapping[object, int],
    successors: Successors = NO_SUCCESSORS,
) -> dict[str, Utility]:
    """Return the utility of some entries, from the feedback on these entries alone.

    An entry that was served and not used was ignored, and loses utility. The loss is shared by all
    entries that the same work ignored. As the feedback on the others is missing here, the caller
    has to count them.

    Args:
        feedback: the feedback on these entries.
        ignored_counts: how many entries each piece of work ignored, by its key from
            `make_work_key`.
        successors: which entries inherit the feedback of entries that are gone.
    """
    steps = _apply_events(move_to_successors(feedback, successors), ignored_counts, NO_FEEDBACK)
    return {step.event.id: step.utility for step in steps}


def list_utility_steps(
    feedback: Iterable[Feedback],
    start: float = NO_FEEDBACK,
    successors: Successors = NO_SUCCESSORS,
) -> Iterator[UtilityStep]:
    """Yield each event with its effect on its entry, or on the successors of a removed entry.

    What an ignored entry loses is divided by the number of entries that the job ignored. The order
    of events matters, because the utility is kept within [0, 1] after each of them.

    Args:
        feedback: all feedback, in any order.
        start: the utility without feedback.
        successors: which entries inherit the feedback of entries that are gone.

    Raises:
        UsageError: unknown-feedback.
    """
    events = unique_events(feedback)
    ignored = {(make_work_key(event), event.id) for event in events if event.kind == "ignored"}
    ignored_counts = Counter(job for job, _ in ignored)
    return _apply_events(move_to_successors(events, successors), ignored_counts, start)


def _apply_events(
    events: Iterable[Feedback], ignored_counts: Mapping[object, int], start: float
) -> Iterator[UtilityStep]:
    """Yield the effect of each event on the utility of its entry.

    Args:
        events: the events, oldest first.
        ignored_counts: how many entries each piece of work ignored, by its key from
            `make_work_key`. They share the loss of utility.
        start: the utility of an entry before its first event.
    """
    utilities: dict[str, Utility] = {}
    for event in events:
        before = utilities.get(event.id, Utility(start, 0))
        delta = get_utility_delta(event.kind)
        if event.kind == "ignored":
            delta /= ignored_counts.get(make_work_key(event), 1)
        value = min(1.0, max(0.0, before.value + delta))
        if event.kind == "touched":
            # Work was about the same code. This does not change the utility, so it is counted
            # separately.
            after = Utility(value, before.events, before.touched + 1)
        else:
            after = Utility(value, before.events + 1, before.touched)
        utilities[event.id] = after
        yield UtilityStep(event, delta, after)


def get_utility_delta(kind: str) -> float:
    """Return what one event of a kind adds to a utility.

    Raises:
        UsageError: unknown-feedback.
    """
    if kind not in DELTAS:
        hint = f"Feedback is one of {', '.join(DELTAS)}."
        raise UsageError(f"{kind!r} is not a kind of feedback", slug="unknown-feedback", hint=hint)
    return DELTAS[kind]


def make_work_key(event: Feedback) -> object:
    """Return a key of the piece of work that an event came from: its reference, if it has one."""
    return event.ref or (event.by, event.at)


def is_idle(count: UseCount | None) -> bool:
    """Return whether an entry was served often and never used."""
    return count is not None and count.served_count >= OFTEN and not count.used_count
