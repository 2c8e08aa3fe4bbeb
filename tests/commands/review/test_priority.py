"""Tests of the review queue: the questions of a week, and the lines that record them."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from memory_ci.commands.review.priority import (
    Week,
    choose_week,
    estimate_acceptance,
    record_questions,
)
from memory_ci.records.candidate import Question

MONDAY = date(2026, 11, 16)
DAY = MONDAY + timedelta(days=4)


def question(number: int, use: float = 0.5, doubt: float = 0.5) -> Question:
    return Question(
        kind="changed", key=f"{number:032x}", title=f"Q{number}", why="", use=use, doubt=doubt
    )


EIGHT = [question(number, use=number / 10) for number in range(1, 9)]


def titles(week: Week) -> str:
    return " ".join(each_question.title for each_question in week.questions)


def test_the_best_by_use_and_doubt_are_asked_and_the_rest_waits() -> None:
    week = choose_week([*EIGHT, question(9, use=1.0, doubt=0.1)], [], DAY, 5)
    assert (titles(week), week.waiting_count) == ("Q8 Q7 Q6 Q5 Q4", 4)
    assert estimate_acceptance(0.25) < estimate_acceptance(3) < 1


def test_a_week_asks_no_more_however_often_it_is_looked_at_or_answered() -> None:
    lines = record_questions([], choose_week(EIGHT, [], DAY, 5).questions, {EIGHT[7].key}, MONDAY)
    assert titles(choose_week(EIGHT, lines, DAY, 5)) == "Q7 Q6 Q5 Q4"
    assert titles(choose_week(EIGHT[:4], lines, MONDAY, 5)) == "Q4", (
        "what was settled makes no room"
    )
    assert titles(choose_week(EIGHT, lines, DAY, 6)) == "Q7 Q6 Q5 Q4 Q3"
    assert titles(choose_week(EIGHT, lines, MONDAY + timedelta(days=7), 5)) == "Q3 Q2 Q1"
    assert titles(choose_week(EIGHT, [], DAY, 0)) == ""


@pytest.mark.parametrize(("days", "asked"), [(89, ""), (90, "Q1")])
def test_a_question_is_asked_again_after_ninety_days(days: int, asked: str) -> None:
    lines = record_questions(["# A remark", "0123 A title"], [question(1)], set(), MONDAY)
    assert lines == ["# A remark", "0123 A title", f"asked:2026-11-16:{question(1).key}"]
    later = MONDAY + timedelta(days=days)
    assert titles(choose_week([question(1)], lines, later, 5)) == asked
    assert len(record_questions(lines, [], set(), later)) == (2 if asked else 3), (
        "a line that holds no more goes"
    )


def test_of_two_branches_the_answer_and_the_later_day_count() -> None:
    key = question(1).key
    lines = [
        f"answered:2026-11-17:{key}",
        f"asked:2026-11-17:{key}",
        f"asked:2026-08-03:{key}",
        f"asked:2026-13-40:{key}",
    ]
    assert choose_week([question(1)], lines, DAY, 5) == Week((), 0)
    assert record_questions(lines[:3], [], set(), DAY) == [f"answered:2026-11-17:{key}"]
