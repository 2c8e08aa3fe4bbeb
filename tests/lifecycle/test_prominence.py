"""Prominence, exactly as in the seed: importance x decay x (1 + reinforcement)."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.config import parse_config
from memory_ci.errors import UsageError
from memory_ci.lifecycle.prominence import (
    CURVES,
    HALF_LIFE_DAYS,
    floor_of,
    prominence,
    ranking_prominence,
    recency,
)
from memory_ci.records.config import Decay
from memory_ci.records.entry import Entry, Priority
from tests.make import make_entry

TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 1.0), (90, 0.5), (180, 0.25), (-5, 1.0), (36500, 0.1)]
)
def test_recency_of_the_seed_halves_in_ninety_days_and_stops_at_a_tenth(
    age: int, expected: float
) -> None:
    assert recency(
        make_entry(last_reinforced=TODAY - timedelta(days=age)), TODAY, "seed"
    ) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 1.0), (90, 0.5), (180, 1 / 3), (-5, 1.0), (36500, 0.01)]
)
def test_recency_halves_in_ninety_days_and_goes_on_falling(age: int, expected: float) -> None:
    assert recency(make_entry(last_reinforced=TODAY - timedelta(days=age)), TODAY) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("priority", ["pin", "permanent"])
def test_what_is_pinned_does_not_age_but_on_the_curve_of_the_seed(priority: Priority) -> None:
    old = make_entry(
        priority=priority, importance=0.1, last_reinforced=TODAY - timedelta(days=3000)
    )
    assert recency(old, TODAY) == recency(old, TODAY, "linear") == 1.0
    assert recency(old, TODAY, "seed") == pytest.approx(0.1)


def test_prominence_is_the_product_of_the_seed() -> None:
    entry = make_entry(
        importance=0.8, reinforcement_count=3, last_reinforced=TODAY - timedelta(days=90)
    )
    assert prominence(entry, TODAY) == pytest.approx(0.8 * 0.5 * 4)


def test_an_old_important_entry_stays_above_an_old_unimportant_one() -> None:
    old = TODAY - timedelta(days=5000)
    assert prominence(
        make_entry(importance=0.9, last_reinforced=old), TODAY, "seed"
    ) == pytest.approx(0.09)
    assert prominence(
        make_entry(importance=0.2, last_reinforced=old), TODAY, "seed"
    ) == pytest.approx(0.02)


def test_a_retired_entry_has_none_whatever_else_it_has() -> None:
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
def test_what_ranks_grows_with_reinforcement_but_stays_bounded(count: int) -> None:
    once = ranking_prominence(make_entry(reinforcement_count=count, last_reinforced=TODAY), TODAY)
    more = ranking_prominence(
        make_entry(reinforcement_count=count + 1, last_reinforced=TODAY), TODAY
    )
    assert once < more < 0.5 * 3.6


def entry_of_age(days: int) -> Entry:
    return make_entry(
        importance=0.8, reinforcement_count=3, last_reinforced=TODAY - timedelta(days=days)
    )


@pytest.mark.parametrize(
    ("decay", "at_half_life", "at_a_year"),
    [
        ("hyperbolic", 0.5, 0.1978),
        ("seed", 0.5, 0.1),
        ("exp", 0.5, 0.1),
        ("linear", 0.5, 0.1),
        ("t4dm", 0.7255, 0.4638),
        ("fsrs", 0.9, 0.7808),
    ],
)
def test_each_curve_has_its_documented_value_at_the_half_life(
    decay: Decay, at_half_life: float, at_a_year: float
) -> None:
    assert recency(entry_of_age(HALF_LIFE_DAYS), TODAY, decay) == pytest.approx(
        at_half_life, abs=1e-4
    )
    assert recency(entry_of_age(365), TODAY, decay) == pytest.approx(at_a_year, abs=1e-4)


@pytest.mark.parametrize("decay", get_args(Decay))
@given(age=st.integers(-1000, 700_000), step=st.integers(0, 1000))
def test_every_curve_starts_at_one_never_rises_and_keeps_its_floor(
    decay: Decay, age: int, step: int
) -> None:
    earlier, later = (
        recency(entry_of_age(age), TODAY, decay),
        recency(entry_of_age(age + step), TODAY, decay),
    )
    assert floor_of(decay) <= later <= earlier <= recency(entry_of_age(0), TODAY, decay) == 1.0


def test_the_curve_that_is_chosen_changes_both_prominences() -> None:
    entry = entry_of_age(HALF_LIFE_DAYS)
    assert prominence(entry, TODAY, "t4dm") == pytest.approx(
        prominence(entry, TODAY) * 0.7255 / 0.5, rel=1e-4
    )
    assert ranking_prominence(entry, TODAY, "fsrs") == pytest.approx(
        ranking_prominence(entry, TODAY) * 0.9 / 0.5
    )


def test_fsrs_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsrs", None)
    with pytest.raises(UsageError, match="needs the package fsrs") as raised:
        recency(entry_of_age(1), TODAY, "fsrs")
    assert raised.value.slug == "missing-extra"
    assert "memory-ci[fsrs]" in raised.value.hint


def test_every_curve_can_be_configured_and_no_other() -> None:
    assert {
        parse_config(f"prominence: {{decay: {name}}}").prominence.decay for name in CURVES
    } == set(get_args(Decay))
    with pytest.raises(UsageError, match=r"prominence\.decay"):
        parse_config("prominence: {decay: weibull}")
