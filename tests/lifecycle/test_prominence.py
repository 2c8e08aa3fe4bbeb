"""Tests of prominence: importance x decay x (1 + reinforcement)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.prominence import (
    DECAY_FLOOR,
    prominence,
    ranking_prominence,
    recency,
)
from memory_ci.records.entry import Entry, Priority
from tests.make import make_entry

TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 1.0), (90, 0.5), (180, 1 / 3), (-5, 1.0), (36500, 0.01)]
)
def test_recency_halves_in_ninety_days_and_goes_on_falling(age: int, expected: float) -> None:
    assert recency(make_entry(last_reinforced=TODAY - timedelta(days=age)), TODAY) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("priority", ["pin", "permanent"])
def test_a_pinned_entry_does_not_age(priority: Priority) -> None:
    old = make_entry(
        priority=priority, importance=0.1, last_reinforced=TODAY - timedelta(days=3000)
    )
    assert recency(old, TODAY) == 1.0


def test_prominence_is_the_documented_product() -> None:
    entry = make_entry(
        importance=0.8, reinforcement_count=3, last_reinforced=TODAY - timedelta(days=90)
    )
    assert prominence(entry, TODAY) == pytest.approx(0.8 * 0.5 * 4)


def test_a_retired_entry_has_no_prominence() -> None:
    entry = make_entry(
        status="retired", importance=1.0, reinforcement_count=99, priority="permanent"
    )
    assert (prominence(entry, TODAY), ranking_prominence(entry, TODAY)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("priority", "floor"), [("normal", 0.1), ("high", 0.85), ("pin", 0.8), ("permanent", 0.95)]
)
def test_a_priority_lifts_importance_to_its_floor(priority: Priority, floor: float) -> None:
    assert prominence(
        make_entry(importance=0.1, priority=priority, last_reinforced=TODAY), TODAY
    ) == pytest.approx(floor)


@given(st.integers(0, 10**6))
def test_the_ranking_factor_grows_with_reinforcement_up_to_a_bound(count: int) -> None:
    once = ranking_prominence(make_entry(reinforcement_count=count, last_reinforced=TODAY), TODAY)
    higher = ranking_prominence(
        make_entry(reinforcement_count=count + 1, last_reinforced=TODAY), TODAY
    )
    assert once < higher < 0.5 * 3.6


def entry_of_age(days: int) -> Entry:
    return make_entry(
        importance=0.8, reinforcement_count=3, last_reinforced=TODAY - timedelta(days=days)
    )


@given(age=st.integers(-1000, 700_000), step=st.integers(0, 1000))
def test_recency_starts_at_one_never_rises_and_keeps_its_floor(age: int, step: int) -> None:
    earlier = recency(entry_of_age(age), TODAY)
    later = recency(entry_of_age(age + step), TODAY)
    assert DECAY_FLOOR <= later <= earlier <= recency(entry_of_age(0), TODAY) == 1.0
