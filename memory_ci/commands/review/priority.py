"""The review queue: what a week asks of people, by expected use x doubt, and the lines that say what was asked.

A line is `asked:2026-11-16:<key>`, or `answered:…` where somebody answered. It holds for 90 days.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Set
from datetime import date, timedelta
from typing import NamedTuple

from memory_ci.records.candidate import Question, QuestionKind

ASKED = re.compile(
    r"(?P<state>asked|answered):(?P<day>\d{4}-\d\d-\d\d):(?P<key>[0-9a-f]+)", re.ASCII
)
PAUSE_DAYS = 90
DOUBT: Mapping[QuestionKind, float] = {
    "contradiction": 0.75, "changed": 0.5, "unused": 0.5, "promotion": 0.5, "gone": 0.25, "quarantined": 0.1
}  # fmt: skip
"""How likely an answer changes what agents are given, where nothing was counted. What is gone is withheld already."""


class Week(NamedTuple):
    """What is asked in one week, the best first, and how many more may be asked later."""

    shown: tuple[Question, ...] = ()
    waiting: int = 0


def expected_use(importance: float, count: int) -> float:
    """How much agents would be given it: its importance, and how often it was given, or said in one more change.

    >>> expected_use(0.5, 0), expected_use(0.5, 3)
    (0.5, 1.5)
    """
    return importance * (1 + math.log2(1 + count))


def doubt_of(weight: float) -> float:
    """The doubt of a candidate, by what speaks for it: the more, the likelier somebody accepts it."""
    return weight / (1 + weight)


def choose_week(
    questions: Iterable[Question], lines: Iterable[str], today: date, per_week: int
) -> Week:
    """The questions that this week asked and nobody answered, and new ones while fewer than `per_week` were asked."""
    asked, begin = _parse(lines), today - timedelta(days=today.weekday())
    ordered = sorted(questions, key=lambda one: (-one.score, one.key))
    pending = [
        one
        for one in ordered
        if (line := asked.get(one.key)) and line[0] >= begin and line[1] == "asked"
    ]
    due = [
        one
        for one in ordered
        if one.key not in asked or (today - asked[one.key][0]).days >= PAUSE_DAYS
    ]
    room = max(0, per_week - sum(day >= begin for day, _ in asked.values()))
    return Week((*pending, *due[:room]), len(due[room:]))


def note_week(
    lines: Collection[str], asked: Iterable[Question], answered: Set[str], today: date
) -> list[str]:
    """The lines with those of the week's questions; what was asked longer ago than the pause needs none any more."""
    known = {
        key: line for key, line in _parse(lines).items() if (today - line[0]).days < PAUSE_DAYS
    }
    for one in asked:
        day, state = known.get(one.key, (today, "asked"))
        known[one.key] = day, "answered" if one.key in answered else state
    others = [line for line in lines if not ASKED.fullmatch(line)]
    return [*others, *sorted(f"{state}:{day}:{key}" for key, (day, state) in known.items())]


def _parse(lines: Iterable[str]) -> dict[str, tuple[date, str]]:
    """When each was asked last, and whether somebody answered, by key; a line that is no date is none."""
    found: dict[str, tuple[date, str]] = {}
    for match in filter(None, map(ASKED.fullmatch, lines)):
        try:
            day = date.fromisoformat(match["day"])
        except ValueError:
            continue
        known = found.get(match["key"], (date.min, ""))
        if day > known[0] or (day == known[0] and match["state"] == "answered"):
            found[match["key"]] = day, match["state"]
    return found
