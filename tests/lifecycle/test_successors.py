"""Tests of successors: feedback on a removed entry counts for the entries that supersede it."""

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


def make_feedback(
    number: int, kind: FeedbackKind = "confirmed", ref: str = "pr:1", hours: int = 0
) -> Feedback:
    return Feedback(id=make_id(number), kind=kind, at=WHEN + timedelta(hours=hours), ref=ref)


def test_an_entry_inherits_feedback_from_a_superseded_entry_once_that_is_removed() -> None:
    successor, older = make_entry(1, supersedes=(GONE,)), make_entry(9)
    assert find_successors_among([successor]) == {GONE: (make_id(1),)}
    assert find_successors_among([successor, older]) == {}


def test_each_superseding_entry_inherits_the_feedback() -> None:
    successors = find_successors_among(
        [make_entry(1, supersedes=(GONE,)), make_entry(2, supersedes=(GONE,))]
    )
    assert [event.id for event in move_to_successors([make_feedback(9)], successors)] == [
        make_id(1),
        make_id(2),
    ]


def test_an_entry_inherits_nothing_from_itself() -> None:
    assert find_successors_among([make_entry(1, supersedes=(make_id(1),))]) == {}


def test_feedback_of_one_job_on_two_merged_entries_is_one_event() -> None:
    successors = {GONE: (make_id(1),)}
    assert move_to_successors([make_feedback(1), make_feedback(9, hours=1)], successors) == (
        make_feedback(1),
    )
    assert (
        len(move_to_successors([make_feedback(1), make_feedback(9, ref="pr:2")], successors)) == 2
    )


def test_the_penalty_of_ignored_entries_is_shared_among_the_entries_of_that_time() -> None:
    feedback = [make_feedback(number, "ignored") for number in (1, 7, 8, 9)]
    utilities = compute_utilities(feedback, successors={GONE: (make_id(1),)})
    assert utilities[make_id(1)].value == pytest.approx(0.5 - 0.05 / 4)


@given(
    st.lists(
        st.builds(
            make_feedback,
            st.integers(1, 3),
            ref=st.sampled_from(["pr:1", "pr:2"]),
            hours=st.integers(0, 3),
        )
    )
)
def test_without_heirs_nothing_changes(feedback: list[Feedback]) -> None:
    assert move_to_successors(feedback, {}) == unique_events(feedback)
