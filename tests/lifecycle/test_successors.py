"""Successors: feedback on a removed entry counts for the entries that supersede it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.episodes import find_successors_among, move_to_successors, unique_events
from memory_ci.lifecycle.utility import compute_utilities
from memory_ci.records.episode import Feedback, FeedbackKind
from tests.make import make_entry, make_id

WHEN = datetime(2026, 11, 20, 14, tzinfo=UTC)
GONE = make_id(9)


def say(
    number: int, kind: FeedbackKind = "confirmed", ref: str = "pr:1", hours: int = 0
) -> Feedback:
    return Feedback(id=make_id(number), kind=kind, at=WHEN + timedelta(hours=hours), ref=ref)


def test_an_entry_inherits_from_what_it_supersedes_once_that_is_gone() -> None:
    successor, older = make_entry(1, supersedes=(GONE,)), make_entry(9)
    assert find_successors_among([successor]) == {GONE: (make_id(1),)}
    assert find_successors_among([successor, older]) == {}


def test_each_entry_that_supersedes_one_inherits() -> None:
    successors = find_successors_among(
        [make_entry(1, supersedes=(GONE,)), make_entry(2, supersedes=(GONE,))]
    )
    assert [said.id for said in move_to_successors([say(9)], successors)] == [
        make_id(1),
        make_id(2),
    ]


def test_an_entry_inherits_nothing_from_itself() -> None:
    assert find_successors_among([make_entry(1, supersedes=(make_id(1),))]) == {}


def test_what_one_job_said_of_two_that_became_one_is_one_event() -> None:
    successors = {GONE: (make_id(1),)}
    assert move_to_successors([say(1), say(9, hours=1)], successors) == (say(1),)
    assert len(move_to_successors([say(1), say(9, ref="pr:2")], successors)) == 2


def test_the_price_of_being_ignored_is_shared_as_it_was_when_the_job_ignored_them() -> None:
    told = [say(number, "ignored") for number in (1, 7, 8, 9)]
    utilities = compute_utilities(told, successors={GONE: (make_id(1),)})
    assert utilities[make_id(1)].value == pytest.approx(0.5 - 0.05 / 4)


@given(
    st.lists(
        st.builds(
            say, st.integers(1, 3), ref=st.sampled_from(["pr:1", "pr:2"]), hours=st.integers(0, 3)
        )
    )
)
def test_without_heirs_nothing_changes(told: list[Feedback]) -> None:
    assert move_to_successors(told, {}) == unique_events(told)
