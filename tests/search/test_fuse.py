"""Several lanes, one relevance."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.search.rank import (
    Fusion,
    Lane,
    Place,
    Traits,
    blend,
    cosine_x_importance,
    fuse,
    linear4,
    rrf,
    shares,
    weigh_outcome,
)

A, B, C = ("a.md", 1), ("b.md", 1), ("c.md", 1)
MODES: tuple[Fusion, ...] = get_args(Fusion)
LANES = st.dictionaries(
    st.sampled_from([A, B, C]), st.floats(allow_nan=False, min_value=-1e6, max_value=1e6)
)


def plain(place: Place) -> Traits:
    return Traits(importance=0.5, recency=1.0)


def order(lane: Lane) -> list[Place]:
    return sorted(lane, key=lambda place: -lane[place])


@pytest.mark.parametrize("mode", MODES)
def test_one_lane_keeps_its_order_whatever_the_mode(mode: Fusion) -> None:
    lane = {A: 0.2, B: 7.0, C: 1.0}
    assert order(fuse(mode, lane, {}, plain)) == order(fuse(mode, {}, lane, plain)) == [B, C, A]
    assert fuse(mode, lane, {}, plain) == shares(lane)


def test_a_lane_of_cosines_below_zero_keeps_its_order() -> None:
    assert order(shares({A: -0.9, B: -0.1, C: -0.5})) == [B, C, A]


def test_of_two_places_that_words_find_the_second_is_not_worth_nothing() -> None:
    mixed = blend({A: 10.0, B: 20.0}, {A: 0.31, B: 0.30}, weight=0.4)
    assert mixed[A] == pytest.approx(0.6 * 0.5 + 0.4)
    assert mixed[B] == pytest.approx(0.6)


def test_the_blend_takes_each_lane_by_its_own_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_ci.search.rank.SMALL_LANE", 0)
    mixed = blend({A: 10.0, B: 20.0}, {A: 0.31, C: 0.30}, weight=0.4)
    assert mixed[B] == pytest.approx(0.6)
    assert mixed[A] == pytest.approx(0.4)
    assert 0 < mixed[C] < 0.001


def test_the_weight_moves_the_blend_from_one_lane_to_the_other() -> None:
    lexical, vectors = {A: 2.0, B: 1.0}, {A: 0.1, B: 0.9}
    assert order(blend(lexical, vectors, weight=0.3))[0] == A
    assert order(blend(lexical, vectors, weight=0.7))[0] == B


def test_reciprocal_ranks_are_a_share_of_the_best_there_can_be() -> None:
    fused = rrf({A: 9.0, B: 1.0}, {A: 0.9, C: 0.1})
    assert fused[A] == pytest.approx(1.0)
    assert fused[B] == fused[C] == pytest.approx(61 / 62 / 2)
    assert rrf({A: 9.0}, {})[A] == pytest.approx(1.0), "an absent lane takes nothing away"


def test_the_formulas_of_the_seeds_are_as_written_there() -> None:
    traits = Traits(importance=0.5, recency=0.8, outcome=1.2)
    assert cosine_x_importance(0.5, traits) == pytest.approx(0.5 * 0.5 * 0.8)
    assert linear4(0.5, traits) * 1.04 == pytest.approx(
        0.4 * 0.5 + 0.25 * 0.8 + 0.2 * 1.2 + 0.15 * 0.5
    )


def test_importance_changes_the_order_in_the_formulas_of_the_seeds() -> None:
    weights = {A: Traits(0.9, 1.0), B: Traits(0.1, 1.0)}
    for mode in ("cosine_x_importance", "linear4"):
        assert order(fuse(mode, {A: 1.0, B: 9.0}, {A: 0.5, B: 0.6}, weights.__getitem__))[0] == A


@pytest.mark.parametrize("mode", MODES)
@given(lexical=LANES, vectors=LANES)
def test_everything_found_has_a_relevance_that_is_a_number(
    mode: Fusion, lexical: Lane, vectors: Lane
) -> None:
    fused = fuse(
        mode,
        lexical,
        {place: max(-1.0, min(score, 1.0)) for place, score in vectors.items()},
        plain,
    )
    assert fused.keys() == {*lexical, *vectors}
    assert all(0 < value <= 1.0 + 1e-9 for value in fused.values())


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_counts_least(broken: float) -> None:
    assert order(shares({A: broken, B: 0.5}))[0] == B
    assert order(blend({A: broken, B: 0.5, C: 0.1}, {C: 0.5}))[-1] == A


def test_an_entry_of_which_nothing_was_said_had_no_outcome() -> None:
    assert [weigh_outcome(utility) for utility in (0.0, 0.5, 1.0)] == pytest.approx([0.8, 1.0, 1.2])
