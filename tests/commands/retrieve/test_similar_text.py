"""Tests of the line that describes a past task."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from memory_ci.commands.retrieve.text import (
    context_cost,
    render_context,
    render_similar,
    render_task,
)
from memory_ci.records.retrieval import Hints, Retrieval, SimilarTask, Task


def make_task(**fields: Any) -> Task:
    defaults: dict[str, Any] = {
        "sha": "a" * 40,
        "title": "retry failed charges",
        "merged_on": date(2026, 3, 2),
    }
    return Task(**defaults | fields)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            make_task(number=128, files=4, remaining_count=3),
            "#128 retry failed charges (merged 2026-03-02, still 3 of 4 files; success)",
        ),
        (
            make_task(outcome="failure", why="reverted in #9"),
            "aaaaaaa retry failed charges (merged 2026-03-02; tried, did not work: reverted in #9)",
        ),
        (
            make_task(outcome="partial", why="fixed up in #9"),
            "aaaaaaa retry failed charges (merged 2026-03-02; partial: fixed up in #9)",
        ),
    ],
    ids=["success", "failure", "partial"],
)
def test_a_line_has_the_task_and_its_outcome(task: Task, expected: str) -> None:
    assert render_task(task) == expected


def test_a_title_of_any_length_is_one_line() -> None:
    line = render_task(make_task(title="retry\nfailed\rcharges " * 99))
    assert len(line) < 200
    assert "\n" not in line
    assert "\r" not in line


def test_the_factors_stand_below() -> None:
    similar_tasks_found = [SimilarTask(make_task(), 0.36, (("cosine", 0.3), ("outcome", 1.2)))]
    assert (
        render_similar(similar_tasks_found, explain=True).splitlines()[1]
        == "      0.3600 = cosine 0.300 x outcome 1.200"
    )
    assert render_similar([]) == ""


def test_the_size_of_hints_is_reserved_before_entries_are_chosen() -> None:
    answer = Retrieval(task="", mode="lexical", hints=Hints((SimilarTask(make_task(), 0.36, ()),)))
    assert context_cost(answer) == len(render_context(answer))
