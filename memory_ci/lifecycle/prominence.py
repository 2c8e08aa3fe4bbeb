"""Prominence: how much an entry counts today. It is computed at each reading and never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

import msgspec

from memory_ci.errors import UsageError
from memory_ci.records.config import Decay
from memory_ci.records.entry import Entry, Priority

HALF_LIFE_DAYS = 90

DEMOTION = 0.7
IMPORTANCE_FLOOR = 0.1

SEED_FLOOR = 0.1
DECAY_FLOOR = 0.01
"""The least recency: a tenth on the curves of the seed (TeaParty), a hundredth on the default curve."""

AGELESS: frozenset[Priority] = frozenset(("pin", "permanent"))
"""Priorities that age on the seed's curve alone."""

PRIORITY_FLOORS: Mapping[Priority, float] = {"high": 0.85, "pin": 0.80, "permanent": 0.95}
"""The least importance that a person's priority gives (Crewship's table)."""

MAX_SAID_IMPORTANCE = 0.9
"""The most that repetition lifts importance to: less than a proof by a check, or a permanent entry."""


class Retention(msgspec.Struct, frozen=True):
    """How long feedback keeps an entry in memory (FSRS).

    Attributes:
        stability: days until 90 % are left.
        reviewed_on: the last review.
        reviews: how many reviews there were.
    """

    stability: float
    reviewed_on: date
    reviews: int


def recency(
    entry: Entry, today: date, decay: Decay = "hyperbolic", retention: Retention | None = None
) -> float:
    """Return what an entry's age leaves of it, from its floor to 1.

    The age counts from the last reinforcement, or from the merge that brought the entry. Pinned
    entries do not age.

    Args:
        entry: the entry.
        today: the day.
        decay: the curve.
        retention: what feedback says, for the curve `fsrs`.

    Raises:
        UsageError: missing-extra for `fsrs` without its package.
    """
    if entry.priority in AGELESS and decay not in ("seed", "exp"):
        return 1.0
    if decay == "fsrs" and retention is not None:
        return max(SEED_FLOOR, retrievability(entry, today, retention))
    age_days = max(0, (today - entry.last_reinforced).days)
    return max(floor_of(decay), CURVES[decay](age_days))


def floor_of(decay: Decay) -> float:
    """Return the least recency on a curve."""
    return DECAY_FLOOR if decay == "hyperbolic" else SEED_FLOOR


def retrievability(entry: Entry, today: date, retention: Retention) -> float:
    """Return what FSRS expects to be left of an entry since its last review or reinforcement."""
    last_day = max(retention.reviewed_on, entry.last_reinforced)
    return _fsrs(max(0, (today - last_day).days), retention.stability)


def effective_importance(entry: Entry) -> float:
    """Return the importance of an entry, lifted by its priority and by how many changes said it.

    Said in two changes it is at least 0.7, in three 0.8, in four or more 0.9.
    """
    count = entry.said_in
    said_importance = min(0.5 + count / 10, MAX_SAID_IMPORTANCE) if count > 1 else 0.0
    return max(entry.importance, priority_floor(entry.priority), said_importance)


def priority_floor(priority: Priority | None) -> float:
    """Return the least importance that a priority gives; 0 for a normal one."""
    return PRIORITY_FLOORS.get(priority, 0.0) if priority else 0.0


def prominence(
    entry: Entry, today: date, decay: Decay = "hyperbolic", retention: Retention | None = None
) -> float:
    """Return importance x recency x (1 + reinforcement_count); 0 for a retired entry (TeaParty)."""
    if entry.status == "retired":
        return 0.0
    reinforcement = 1 + entry.reinforcement_count
    return effective_importance(entry) * recency(entry, today, decay, retention) * reinforcement


def ranking_prominence(
    entry: Entry, today: date, decay: Decay = "hyperbolic", retention: Retention | None = None
) -> float:
    """Return importance x recency x (1 + log2(1 + n) / 8), which ranks entries; 0 for a retired one.

    With the linear reinforcement, what was served once would be served ever after
    (docs/ranking.md).
    """
    if entry.status == "retired":
        return 0.0
    reinforcement = 1 + math.log2(1 + entry.reinforcement_count) / 8
    return effective_importance(entry) * recency(entry, today, decay, retention) * reinforcement


def _fsrs(age: int, stability: float = HALF_LIFE_DAYS) -> float:
    """Return the forgetting curve of FSRS-6, with the default parameters of the `fsrs` package."""
    try:
        from fsrs import Card, Scheduler, State  # an extra that few repositories use
    except ImportError as error:
        raise missing_fsrs() from error
    # Only the days between the two dates count, so any start will do.
    start = datetime.min.replace(tzinfo=UTC)
    card = Card(card_id=0, state=State.Review, stability=stability, due=start, last_review=start)
    return Scheduler().get_card_retrievability(card, start + timedelta(days=age))


def missing_fsrs() -> UsageError:
    """Return the error of a missing `fsrs` package."""
    hint = "Install it: pip install 'memory-ci[fsrs]'. Or set prominence.decay to hyperbolic, seed, linear or t4dm."
    message = "the decay curve fsrs needs the package fsrs"
    return UsageError(message, slug="missing-extra", hint=hint)


def _halve(age: int) -> float:
    """Return exp(-ln 2 / S x t): half after S (TeaParty)."""
    return math.pow(0.5, age / HALF_LIFE_DAYS)


def _decay_hyperbolically(age: int) -> float:
    """Return half after S, a fifth after a year."""
    return 1 / (1 + age / HALF_LIFE_DAYS)


def _decay_linearly(age: int) -> float:
    """Return half after S, nothing after 2S."""
    return 1 - age / (2 * HALF_LIFE_DAYS)


def _decay_as_t4dm(age: int) -> float:
    """Return the curve as T4DM writes it: 0.725 at S, although it calls S the time to 90 %."""
    return math.pow(1 + 0.9 * age / HALF_LIFE_DAYS, -0.5)


CURVES: Mapping[Decay, Callable[[int], float]] = {
    "hyperbolic": _decay_hyperbolically,
    "seed": _halve,
    "exp": _halve,  # the older name of `seed`
    "linear": _decay_linearly,
    "fsrs": _fsrs,
    "t4dm": _decay_as_t4dm,
}
"""What is left after an age in days; S is the half-life."""


def demote(importance: float) -> float:
    """Return importance x 0.7, not below 0.1; four decimals, as files hold it.

    An importance that is lower already stays.
    """
    return min(importance, max(IMPORTANCE_FLOOR, round(importance * DEMOTION, 4)))


def is_in_force(entry: Entry, today: date) -> bool:
    """Return whether an entry is active, and valid on a day."""
    return entry.status == "active" and (entry.valid_until is None or entry.valid_until > today)
