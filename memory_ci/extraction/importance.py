"""Importance: what a learning counts because of the event that it comes from, where nobody says what it counts.

A start of 0.5, something for the kind of event and something for its severity, added up to 1 at most: Crewship's
table, in which an escalation or a regression weighs more than routine. Ours has the events of merged work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from memory_ci.extraction.scopes import Selector
from memory_ci.records.event import Evidence, Severity

ROUTINE = 0.5  # What an event counts that is of no kind below.
BY_SEVERITY: dict[Severity, float] = {"info": 0.0, "warn": 0.15, "error": 0.25}


class Grave(NamedTuple):
    """A kind of event: what Crewship calls it, what that adds to routine, and how severe it is here."""

    event: Selector
    its_name: str
    adds: float
    severity: Severity

    @property
    def importance(self) -> float:
        return round(min(1.0, ROUTINE + self.adds + BY_SEVERITY[self.severity]), 2)


REVERT = r"(?i)\A(?:[a-z]+(?:\([^)\n]{0,80}\))?!?:\s*)?revert\b"
"""A commit whose subject says that it takes another one back."""

TABLE: tuple[Grave, ...] = (
    Grave(Selector(("check",), label=("outcome", "failed-then-passed")), "eval.regression_detected", 0.3, "error"),
    Grave(Selector(("interrupt", "intervention")), "peer.escalation", 0.2, "warn"),
    Grave(Selector(("rejection",)), "approval.denied", 0.15, "warn"),
    Grave(Selector(("pr",), label=("outcome", "closed-unmerged")), "approval.denied", 0.15, "warn"),
    Grave(Selector(("commit",), words=REVERT), "mission.status_change", 0.05, "error"),
    Grave(Selector(("review",), label=("state", "changes_requested")), "keeper.decision", 0.1, "warn"),
    Grave(Selector(("review",), label=("outcome", "requested-then-made")), "keeper.decision", 0.1, "warn"),
    Grave(Selector(("compaction",)), "summary.generated", 0.15, "info"),
)
"""An event is of the first kind that fits."""


def base_importance(pieces: Iterable[Evidence]) -> float:
    """What the gravest of the events counts from which a learning comes; 0.5 for routine."""
    return max((_weigh(piece) for piece in pieces), default=ROUTINE)


def _weigh(piece: Evidence) -> float:
    return next((row.importance for row in TABLE if row.event.takes(piece)), ROUTINE)
