"""The choice of a week's questions to people, and the lines of a file that record them.

The questions with the highest product of expected use and doubt are asked first. A line is
`asked:2026-11-16:<key>`, or `answered:…` if somebody answered. It holds for 90 days.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Set
from datetime import date, timedelta
from typing import NamedTuple

from memory_ci.records.candidate import Question, QuestionKind
from memory_ci.regex import Regex

ASKED_LINE = Regex(
    r"(?P<state>asked|answered):(?P<day>\d{4}-\d\d-\d\d):(?P<key>[0-9a-f]+)", re.ASCII
)
"""The record of one question: `asked:2026-11-16:3f2ab91c`."""

PAUSE_DAYS = 90
"""Days after which a question may be asked again."""

CHANGE_PROBABILITY: Mapping[QuestionKind, float] = {
    "contradiction": 0.75,
    "changed": 0.5,
    "unused": 0.5,
    "promotion": 0.5,
    "gone": 0.25,
    "quarantined": 0.1,
}
"""The probability that an answer changes what agents are served, by the kind of question.

The values were chosen by hand. The code of an entry that is "gone" has the entry withheld already,
and words that are "quarantined" mostly deserve it.
"""


class Week(NamedTuple):
    """The questions of one week.

    Attributes:
        questions: the questions, the most useful first.
        waiting_count: how many more may be asked later.
    """

    questions: tuple[Question, ...] = ()
    waiting_count: int = 0


class AskedLine(NamedTuple):
    """The day on which a question was last asked, and whether somebody answered."""

    day: date
    state: str


def estimate_use(importance: float, count: int) -> float:
    """Return how often agents are expected to be shown an entry, in relation to other entries.

    Args:
        importance: its importance, from 0 to 1.
        count: how often it was served, or in how many more changes it was said.

    >>> estimate_use(0.5, 0), estimate_use(0.5, 3)
    (0.5, 1.5)
    """
    return importance * (1 + math.log2(1 + count))


def estimate_acceptance(weight: float) -> float:
    """Return the probability that a person accepts a candidate, which grows with its weight.

    The weight measures the evidence for the candidate.
    """
    return weight / (1 + weight)


def choose_week(
    questions: Iterable[Question], lines: Iterable[str], today: date, per_week: int
) -> Week:
    """Return the questions of this week.

    These are the questions that were asked this week and not answered, and new ones while fewer
    than `per_week` were asked. A question that was asked before counts as new again after
    `PAUSE_DAYS`.

    Args:
        questions: all questions.
        lines: the records of earlier questions.
        today: the day.
        per_week: how many questions a week asks.
    """
    record_by_key = _parse_asked_lines(lines)
    week_start = today - timedelta(days=today.weekday())
    unanswered_questions: list[Question] = []
    new_questions: list[Question] = []

    def by_urgency(question: Question) -> tuple[float, str]:
        return -question.score, question.key

    for question in sorted(questions, key=by_urgency):
        record = record_by_key.get(question.key)
        if record is None or (today - record.day).days >= PAUSE_DAYS:
            new_questions.append(question)
        elif record.day >= week_start and record.state == "asked":
            unanswered_questions.append(question)
    asked_this_week = [record for record in record_by_key.values() if record.day >= week_start]
    free_count = max(0, per_week - len(asked_this_week))
    return Week(
        questions=(*unanswered_questions, *new_questions[:free_count]),
        waiting_count=len(new_questions[free_count:]),
    )


def record_questions(
    lines: Collection[str],
    asked_questions: Iterable[Question],
    answered_keys: Set[str],
    today: date,
) -> list[str]:
    """Return the lines of the file with the records of the questions asked and answered today.

    The file has other lines as well, which are kept. Records that are older than `PAUSE_DAYS` are
    dropped.

    Args:
        lines: the lines of the file.
        asked_questions: the questions that were asked.
        answered_keys: the keys of the questions among them that somebody answered.
        today: the day.
    """
    record_by_key: dict[str, AskedLine] = {}
    for key, record in _parse_asked_lines(lines).items():
        if (today - record.day).days < PAUSE_DAYS:
            record_by_key[key] = record
    for question in asked_questions:
        record = record_by_key.get(question.key, AskedLine(today, "asked"))
        if question.key in answered_keys:
            record = record._replace(state="answered")
        record_by_key[question.key] = record
    other_lines = [line for line in lines if not ASKED_LINE.fullmatch(line)]
    asked_lines = sorted(
        f"{record.state}:{record.day}:{key}" for key, record in record_by_key.items()
    )
    return other_lines + asked_lines


def _parse_asked_lines(lines: Iterable[str]) -> dict[str, AskedLine]:
    """Return the last record of each question, by its key.

    Lines that are no record, or whose date does not exist, are skipped.
    """
    last_records: dict[str, AskedLine] = {}
    for text in lines:
        match = ASKED_LINE.fullmatch(text)
        if match is None:
            continue
        try:
            day = date.fromisoformat(match["day"])
        except ValueError:
            continue
        key, state = match["key"], match["state"]
        previous = last_records.get(key)
        is_later = previous is None or day > previous.day
        is_answer = previous is not None and day == previous.day and state == "answered"
        if is_later or is_answer:
            last_records[key] = AskedLine(day, state)
    return last_records
