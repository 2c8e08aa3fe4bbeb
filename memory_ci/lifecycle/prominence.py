"""Prominence: how much an entry counts today. Computed at reading, never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

import msgspec

from memory_ci.errors import UsageError
from memory_ci.records.config import Decay
from memory_ci.records.entry import Entry, Priority

HALF_LIFE_DAYS = 90
DEMOTION, IMPORTANCE_FLOOR = 0.7, 0.1
SEED_FLOOR, DECAY_FLOOR = (
    0.1,
    0.01,
)  # A tenth (TeaParty) on the curves of the seed's kind; the default goes on falling.
AGELESS: frozenset[Priority] = frozenset(
    ("pin", "permanent")
)  # They age on the seed's curve alone.
# What a person's priority lifts importance to at least (Crewship's table).
PRIORITY_FLOORS: Mapping[Priority, float] = {"high": 0.85, "pin": 0.80, "permanent": 0.95}
MOST_SAID = 0.9  # Below what a check proved, or a person pinned for good.


class Retention(msgspec.Struct, frozen=True):
    """How well what feedback says of an entry keeps it (FSRS): the days until 90 % are left, since which review."""

    stability: float
    reviewed_on: date
    reviews: int


def recency(
    entry: Entry, today: date, decay: Decay = "hyperbolic", retention: Retention | None = None
) -> float:
    """What is left after the entry's age on the curve `decay`, never below its floor; what is pinned does not age.
    `fsrs` uses the entry's own `retention` where feedback gave it one. Raises UsageError (missing-extra) for `fsrs`
    without its package."""
    if entry.priority in AGELESS and decay not in ("seed", "exp"):
        return 1.0
    if decay == "fsrs" and retention is not None:
        return max(SEED_FLOOR, retrievability(entry, today, retention))
    age = max(
        0, (today - entry.last_reinforced).days
    )  # of one that never was since the merge that brought it
    return max(floor_of(decay), CURVES[decay](age))


def floor_of(decay: Decay) -> float:
    return DECAY_FLOOR if decay == "hyperbolic" else SEED_FLOOR


def retrievability(entry: Entry, today: date, retention: Retention) -> float:
    """What FSRS expects to be left of an entry, by its own stability, since it was last reviewed or reinforced."""
    last = max(retention.reviewed_on, entry.last_reinforced)
    return _fsrs(max(0, (today - last).days), retention.stability)


def effective_importance(entry: Entry) -> float:
    """Importance in [0, 1], lifted to the floor of the entry's priority, and by how many changes said it."""
    count = entry.said_in  # 0.7 said twice, 0.8 three times, 0.9 from four times on
    return max(
        entry.importance,
        priority_floor(entry.priority),
        min(0.5 + count / 10, MOST_SAID) if count > 1 else 0.0,
    )


def priority_floor(priority: Priority | None) -> float:
    """What a priority lifts importance to; 0 for a normal one."""
    return PRIORITY_FLOORS.get(priority, 0.0) if priority else 0.0


def prominence(
    entry: Entry, today: date, decay: Decay = "hyperbolic", retention: Retention | None = None
) -> float:
    """importance x recency x (1 + reinforcement_count); 0 for a retired entry (TeaParty)."""
    if entry.status == "retired":
        return 0.0
    return (
        effective_importance(entry)
        * recency(entry, today, decay, retention)
        * (1 + entry.reinforcement_count)
    )


def ranking_prominence(
    entry: Entry, today: date, decay: Decay = "hyperbolic", retention: Retention | None = None
) -> float:
    """Prominence with a bounded reinforcement: importance x recency x (1 + log2(1 + n) / 8). The form that ranks: with
    the linear one, what was retrieved once is retrieved ever after (docs/ranking.md)."""
    if entry.status == "retired":
        return 0.0
    reinforcement = 1 + math.log2(1 + entry.reinforcement_count) / 8
    return effective_importance(entry) * recency(entry, today, decay, retention) * reinforcement


def _fsrs(age: int, stability: float = HALF_LIFE_DAYS) -> float:
    """The forgetting curve of FSRS-6 for a stability of S, with the default parameters of the `fsrs` package."""
    try:
        from fsrs import Card, Scheduler, State  # an extra: most repositories never ask for it
    except ImportError as error:
        raise missing_fsrs() from error
    start = datetime.min.replace(
        tzinfo=UTC
    )  # any day will do, only the days between the two dates count
    card = Card(card_id=0, state=State.Review, stability=stability, due=start, last_review=start)
    return Scheduler().get_card_retrievability(card, start + timedelta(days=age))


def missing_fsrs() -> UsageError:
    """What who asks for FSRS without its package is told."""
    hint = "Install it: pip install 'memory-ci[fsrs]'. Or set prominence.decay to hyperbolic, seed, linear or t4dm."
    return UsageError(
        "the decay curve fsrs needs the package fsrs", slug="missing-extra", hint=hint
    )


CURVES: Mapping[Decay, Callable[[int], float]] = {
    "hyperbolic": lambda age: 1 / (1 + age / HALF_LIFE_DAYS),  # half after S, a fifth after a year
    "seed": lambda age: math.pow(0.5, age / HALF_LIFE_DAYS),  # exp(-ln 2 / S x t) (TeaParty)
    "exp": lambda age: math.pow(0.5, age / HALF_LIFE_DAYS),  # its older name
    "linear": lambda age: 1 - age / (2 * HALF_LIFE_DAYS),  # half after S, nothing after 2S
    "fsrs": _fsrs,
    # As T4DM writes it: 0.725 at S, although it calls S the time to 90 %.
    "t4dm": lambda age: math.pow(1 + 0.9 * age / HALF_LIFE_DAYS, -0.5),
}
"""What is left after an age t in days. S stands for the half-life."""


def demote(importance: float) -> float:
    """Importance x 0.7, not below 0.1; what is below already stays. Four decimals, as files hold it."""
    return min(importance, max(IMPORTANCE_FLOOR, round(importance * DEMOTION, 4)))


def is_in_force(entry: Entry, today: date) -> bool:
    """Whether an entry counts: it is active, and valid on that day."""
    return entry.status == "active" and (entry.valid_until is None or entry.valid_until > today)
