"""Tests of fusing the scores of several lanes into one relevance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.search.rank import (
    EntryPlace,
    EntryScores,
    blend_scores,
    fuse_scores,
    normalize_scores,
)

A, B, C = ("a.md", 1), ("b.md", 1), ("c.md", 1)
LANES = st.dictionaries(
    st.sampled_from([A, B, C]), st.floats(allow_nan=False, min_value=-1e6, max_value=1e6)
)


def order(lane: EntryScores) -> list[EntryPlace]:
    return sorted(lane, key=lambda place: -lane[place])


def test_one_lane_keeps_its_order() -> None:
    lane = {A: 0.2, B: 7.0, C: 1.0}
    assert order(fuse_scores(lane, {})) == order(fuse_scores({}, lane)) == [B, C, A]
    assert fuse_scores(lane, {}) == normalize_scores(lane)


def test_a_lane_of_cosines_below_zero_keeps_its_order() -> None:
    assert order(normalize_scores({A: -0.9, B: -0.1, C: -0.5})) == [B, C, A]


def test_the_last_of_two_lexical_matches_has_a_relevance_above_zero() -> None:
    mixed = blend_scores({A: 10.0, B: 20.0}, {A: 0.31, B: 0.30}, weight=0.4)
    assert mixed[A] == pytest.approx(0.6 * 0.5 + 0.4)
    assert mixed[B] == pytest.approx(0.6)


def test_the_blend_normalises_each_lane_by_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_ci.search.rank.FEW_SCORES", 0)
    mixed = blend_scores({A: 10.0, B: 20.0}, {A: 0.31, C: 0.30}, weight=0.4)
    assert mixed[B] == pytest.approx(0.6)
    assert mixed[A] == pytest.approx(0.4)
    assert 0 < mixed[C] < 0.001


def test_the_weight_shifts_the_blend_between_lanes() -> None:
    lexical, vectors = {A: 2.0, B: 1.0}, {A: 0.1, B: 0.9}
    assert order(blend_scores(lexical, vectors, weight=0.3))[0] == A
    assert order(blend_scores(lexical, vectors, weight=0.7))[0] == B


@given(lexical=LANES, vectors=LANES)
def test_every_match_has_a_finite_relevance(lexical: EntryScores, vectors: EntryScores) -> None:
    cosines = {place: max(-1.0, min(score, 1.0)) for place, score in vectors.items()}
    fused = fuse_scores(lexical, cosines)
    assert fused.keys() == {*lexical, *vectors}
    assert all(0 < value <= 1.0 + 1e-9 for value in fused.values())


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_a_number_counts_least(broken: float) -> None:
    assert order(normalize_scores({A: broken, B: 0.5}))[0] == B
    assert order(blend_scores({A: broken, B: 0.5, C: 0.1}, {C: 0.5}))[-1] == A
