"""Stability by FSRS: which review an event is, that nothing is left to chance, and what it does to recency."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import UsageError
from memory_ci.lifecycle.prominence import Retention, prominence, recency, retrievability
from memory_ci.lifecycle.utility import find_retentions, list_reviews
from memory_ci.records.episode import Feedback, FeedbackKind
from tests.make import make_entry, make_id

LEARNED = date(2026, 9, 1)
START = datetime(2026, 9, 11, 9, tzinfo=UTC)
TODAY = date(2026, 11, 21)


def said(
    kind: FeedbackKind, days: int = 0, ref: str = "", number: int = 1, hours: int = 0
) -> Feedback:
    return Feedback(
        id=make_id(number),
        kind=kind,
        at=START + timedelta(days=days, hours=hours),
        by="ada",
        ref=ref,
    )


def retention(*feedback: Feedback, learned: date = LEARNED) -> Retention:
    return find_retentions([make_entry(1, created_at=learned)], feedback)[make_id(1)]


@pytest.mark.parametrize(
    ("kind", "grade"),
    [("undone", "Again"), ("rejected", "Again"), ("corrected", "Hard"), ("confirmed", "Good")],
)
def test_each_kind_of_feedback_is_a_review_of_one_grade(kind: FeedbackKind, grade: str) -> None:
    assert [review.grade for review in list_reviews([said(kind)])] == [grade]


def test_to_be_ignored_is_no_review() -> None:
    assert list_reviews([said("ignored")]) == ()
    assert find_retentions([make_entry(1)], [said("ignored")]) == {}


def test_a_confirmation_is_easy_from_the_second_job_on() -> None:
    told = [
        said("confirmed", 0, "pr:1"),
        said("confirmed", 1),
        said("confirmed", 2, "pr:2"),
        said("confirmed", 3),
    ]
    assert [review.grade for review in list_reviews(told)] == ["Good", "Good", "Easy", "Easy"]


def test_who_tells_one_job_twice_proves_nothing() -> None:
    told = [said("confirmed", 0, "pr:1"), said("confirmed", 1, "pr:1")]
    assert [review.grade for review in list_reviews(told)] == ["Good"]


def test_an_entry_begins_with_the_stability_of_one_of_which_nothing_was_said() -> None:
    confirmed, corrected, rejected = (
        retention(said(kind)) for kind in ("confirmed", "corrected", "rejected")
    )
    assert confirmed.stability > corrected.stability > 90 > rejected.stability


def test_a_second_review_of_one_day_counts_as_one_of_the_short_term() -> None:
    """The package's own formula for what is reviewed again within a day: it moves stability little."""
    once, twice = (
        retention(said("confirmed")),
        retention(said("confirmed"), said("confirmed", hours=3)),
    )
    later = retention(said("confirmed"), said("confirmed", 30))
    assert once.stability <= twice.stability < later.stability
    assert twice.reviews == 2


def test_days_are_whole_and_in_utc() -> None:
    late = Feedback(
        id=make_id(1), kind="confirmed", at=datetime.fromisoformat("2026-09-12T01:00:00+03:00")
    )
    assert [review.day for review in list_reviews([late])] == [date(2026, 9, 11)]
    assert retention(said("confirmed")) == retention(said("confirmed", hours=10))


def test_a_review_before_the_day_of_learning_makes_the_card_begin_then() -> None:
    assert retention(said("confirmed"), learned=TODAY) == retention(
        said("confirmed"), learned=START.date()
    )


def test_ten_replays_give_one_number() -> None:
    told = [said("confirmed", day, f"pr:{day}") for day in range(0, 60, 7)] + [
        said("corrected", 25)
    ]
    assert len({retention(*told) for _ in range(10)}) == 1


@given(
    st.permutations(
        [
            said("confirmed", 0, "pr:1"),
            said("confirmed", 0, "pr:2"),
            said("rejected", 9),
            said("corrected", 9),
            said("undone", 20, "pr:2"),
            said("confirmed", 0, "pr:1"),
            said("ignored", 3, "pr:3"),
        ]
    )
)
def test_the_order_of_files_changes_nothing(told: list[Feedback]) -> None:
    assert retention(*told) == retention(*sorted(told, key=lambda one: (one.at, one.kind, one.ref)))


def test_entries_do_not_share_their_reviews() -> None:
    told = [said("confirmed"), said("rejected", number=2)]
    for order in permutations(told):
        found = find_retentions([make_entry(1), make_entry(2), make_entry(3)], order)
        assert found.keys() == {make_id(1), make_id(2)}
        assert found[make_id(1)].stability > found[make_id(2)].stability


def test_recency_is_what_is_left_since_the_last_review_or_reinforcement() -> None:
    reviewed = Retention(90.0, TODAY - timedelta(days=90), 1)
    old = make_entry(1, last_reinforced=TODAY - timedelta(days=400))
    assert recency(old, TODAY, "fsrs", reviewed) == pytest.approx(0.9)
    assert retrievability(make_entry(1, last_reinforced=TODAY), TODAY, reviewed) == 1.0
    assert prominence(old, TODAY, "fsrs", reviewed) == pytest.approx(0.5 * 0.9)


def test_equal_entries_part_by_what_was_said_of_them_under_fsrs_alone() -> None:
    confirmed, rejected, silent = (
        make_entry(n, created_at=LEARNED, last_reinforced=LEARNED) for n in (1, 2, 3)
    )
    told = [said("confirmed", day, f"pr:{day}") for day in (0, 10, 20)] + [
        said("rejected", 20, number=2)
    ]
    found = find_retentions([confirmed, rejected, silent], told)
    best, worst, same = (
        recency(e, TODAY, "fsrs", found.get(e.id)) for e in (confirmed, rejected, silent)
    )
    assert best > same > worst
    assert (
        len({recency(e, TODAY, "exp", found.get(e.id)) for e in (confirmed, rejected, silent)}) == 1
    )
    assert same == recency(silent, TODAY, "fsrs")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsrs", None)
    with pytest.raises(UsageError, match="needs the package fsrs"):
        retention(said("confirmed"))
