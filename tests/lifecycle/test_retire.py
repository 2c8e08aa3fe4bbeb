"""Tests of retirement at the end of a stage."""

from __future__ import annotations

from datetime import date

import pytest

from memory_ci.lifecycle.compaction import plan_stage_retirement
from memory_ci.records.entry import Located
from tests.make import make_located

TODAY = date(2026, 11, 21)


def test_task_entries_of_the_ended_phase_retire_in_every_scope() -> None:
    places = [
        make_located(1, phase="design"),
        make_located(2, "src/MEMORY.md", "team", "src", phase="design"),
        make_located(4, phase="design", status="compacted"),
        make_located(
            3, ".teaparty/jobs/7/institutional.md", "session", "7", phase="design", priority="high"
        ),
    ]
    changes = plan_stage_retirement(places, "design", TODAY)
    assert [(c.step, c.kind, c.path, c.entry.status) for c in changes] == [
        ("retire", "update", place.path, "retired") for place in places
    ]
    assert all("design" in change.why for change in changes)


@pytest.mark.parametrize(
    "place",
    [
        make_located(phase="implementation"),
        make_located(phase=None),
        make_located(phase="design", domain="team"),
        make_located(phase="design", priority="pin"),
        make_located(phase="design", priority="permanent"),
        make_located(phase="design", status="retired"),
    ],
)
def test_other_entries_are_unchanged(place: Located) -> None:
    assert plan_stage_retirement([place], "design", TODAY) == ()


def test_a_retired_entry_is_not_retired_again() -> None:
    (change,) = plan_stage_retirement([make_located(phase="design")], "design", TODAY)
    retired = Located(change.entry, change.path, 1, make_located().scope)
    assert plan_stage_retirement([retired], "design", TODAY) == ()
