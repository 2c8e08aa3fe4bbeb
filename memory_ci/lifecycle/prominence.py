"""Prominence: how much an entry counts today. Computed at reading, never stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date

from memory_ci.records.entry import Entry, Priority

HALF_LIFE_DAYS = 90
DECAY_FLOOR = 0.1
PRIORITY_FLOORS: Mapping[Priority, float] = {"high": 0.85, "pin": 0.80, "permanent": 0.95}
"""What a person's priority lifts importance to at least (Crewship's table)."""


def age_days(entry: Entry, today: date) -> int:
    """Days since the entry was last reinforced; a date in the future counts as age 0."""
    return max(0, (today - entry.last_reinforced).days)


def recency(entry: Entry, today: date) -> float:
    """max(0.1, 0.5 ^ (age / 90)): half after 90 days, never below a tenth (TeaParty)."""
    return max(DECAY_FLOOR, math.pow(0.5, age_days(entry, today) / HALF_LIFE_DAYS))


def effective_importance(entry: Entry) -> float:
    """Importance in [0, 1], lifted to the floor of the entry's priority."""
    floor = PRIORITY_FLOORS.get(entry.priority, 0.0) if entry.priority else 0.0
    return max(entry.importance, floor)


def prominence(entry: Entry, today: date) -> float:
    """importance x recency x (1 + reinforcement_count); 0 for a retired entry (TeaParty)."""
    if entry.status == "retired":
        return 0.0
    return effective_importance(entry) * recency(entry, today) * (1 + entry.reinforcement_count)


def ranking_prominence(entry: Entry, today: date) -> float:
    """Prominence with a bounded reinforcement: importance x recency x (1 + log2(1 + n) / 8).

    The form that ranks: with the linear one, what was retrieved once is retrieved ever after (docs/ranking.md).
    """
    if entry.status == "retired":
        return 0.0
    return effective_importance(entry) * recency(entry, today) * (1 + math.log2(1 + entry.reinforcement_count) / 8)
