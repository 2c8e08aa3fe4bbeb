"""Prominence: how much an entry counts today. It is computed at each reading and never stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date

from memory_ci.records.entry import Entry, Priority

HALF_LIFE_DAYS = 90

DEMOTION = 0.7
IMPORTANCE_FLOOR = 0.1

DECAY_FLOOR = 0.01  # The least recency.

AGELESS: frozenset[Priority] = frozenset(("pin", "permanent"))
"""Priorities of entries that do not age."""

PRIORITY_FLOORS: Mapping[Priority, float] = {"high": 0.85, "pin": 0.80, "permanent": 0.95}
"""The least importance that a person's priority gives (Crewship's table)."""

MAX_SAID_IMPORTANCE = 0.9
"""The most that repetition lifts importance to: less than a proof, or a permanent entry."""


def recency(entry: Entry, today: date) -> float:
    """Return the hyperbolic decay of an entry, 1 / (1 + age / S), at least `DECAY_FLOOR`.

    It is a half after S = 90 days and a fifth after a year. The age counts from the last
    reinforcement, or from the merge that the entry was learned from. Pinned entries do not age.
    """
    if entry.priority in AGELESS:
        return 1.0
    age_days = max(0, (today - entry.last_reinforced).days)
    return max(DECAY_FLOOR, 1 / (1 + age_days / HALF_LIFE_DAYS))


def effective_importance(entry: Entry) -> float:
    """Return the importance of an entry, raised by its priority and by repetition.

    If two merged changes or sessions say it, it is at least 0.7; three 0.8; four or more 0.9.
    """
    importance = max(entry.importance, priority_floor(entry.priority))
    if entry.mention_count <= 1:
        return importance
    return max(importance, min(0.5 + entry.mention_count / 10, MAX_SAID_IMPORTANCE))


def priority_floor(priority: Priority | None) -> float:
    """Return the least importance that a priority gives; 0 for a normal one."""
    return PRIORITY_FLOORS.get(priority, 0.0) if priority else 0.0


def prominence(entry: Entry, today: date) -> float:
    """Return importance x recency x (1 + reinforcement_count); 0 for a retired entry (TeaParty)."""
    if entry.status == "retired":
        return 0.0
    reinforcement = 1 + entry.reinforcement_count
    return effective_importance(entry) * recency(entry, today) * reinforcement


def ranking_prominence(entry: Entry, today: date) -> float:
    """Return the factor of an entry in ranking: importance x recency x (1 + log2(1 + n) / 8).

    n is the reinforcement count. It is damped by the logarithm because with `prominence` an entry
    that was served once would be served ever after (benchmarks/results/retrieval.md). A retired
    entry has 0.
    """
    if entry.status == "retired":
        return 0.0
    reinforcement = 1 + math.log2(1 + entry.reinforcement_count) / 8
    return effective_importance(entry) * recency(entry, today) * reinforcement


def lower_importance(importance: float) -> float:
    """Return importance x 0.7, not below 0.1; four decimals, as files hold it.

    An importance that is lower already stays.
    """
    return min(importance, max(IMPORTANCE_FLOOR, round(importance * DEMOTION, 4)))


def is_in_force(entry: Entry, today: date) -> bool:
    """Return whether an entry is active, and valid on a day."""
    return entry.status == "active" and (entry.valid_until is None or entry.valid_until > today)
