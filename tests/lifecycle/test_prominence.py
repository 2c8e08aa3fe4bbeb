"""Prominence, exactly as in the seed: importance x decay x (1 + reinforcement)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.prominence import prominence, ranking_prominence, recency
from memory_ci.records.entry import Priority
from tests.make import make_entry

TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(("age", "expected"), [(0, 1.0), (90, 0.5), (180, 0.25), (-5, 1.0), (36500, 0.1)])
def test_recency_halves_in_ninety_days_and_stops_at_a_tenth(age: int, expected: float) -> None:
    assert recency(make_entry(last_reinforced=TODAY - timedelta(days=age)), TODAY) == pytest.approx(expected)


def test_prominence_is_the_product_of_the_seed() -> None:
    entry = make_entry(importance=0.8, reinforcement_count=3, last_reinforced=TODAY - timedelta(days=90))
    assert prominence(entry, TODAY) == pytest.approx(0.8 * 0.5 * 4)


def test_an_old_important_entry_stays_above_an_old_unimportant_one() -> None:
    old = TODAY - timedelta(days=5000)
    assert prominence(make_entry(importance=0.9, last_reinforced=old), TODAY) == pytest.approx(0.09)
    assert prominence(make_entry(importance=0.2, last_reinforced=old), TODAY) == pytest.approx(0.02)


def test_a_retired_entry_has_none_whatever_else_it_has() -> None:
    entry = make_entry(status="retired", importance=1.0, reinforcement_count=99, priority="permanent")
    assert (prominence(entry, TODAY), ranking_prominence(entry, TODAY)) == (0.0, 0.0)


@pytest.mark.parametrize(("priority", "floor"), [("normal", 0.1), ("high", 0.85), ("pin", 0.8), ("permanent", 0.95)])
def test_a_priority_lifts_importance_to_its_floor(priority: Priority, floor: float) -> None:
    assert prominence(make_entry(importance=0.1, priority=priority, last_reinforced=TODAY), TODAY) == pytest.approx(
        floor
    )


@given(st.integers(0, 10**6))
def test_what_ranks_grows_with_reinforcement_but_stays_bounded(count: int) -> None:
    once = ranking_prominence(make_entry(reinforcement_count=count, last_reinforced=TODAY), TODAY)
    more = ranking_prominence(make_entry(reinforcement_count=count + 1, last_reinforced=TODAY), TODAY)
    assert once < more < 0.5 * 3.6
