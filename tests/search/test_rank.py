"""Tests of the order of matches, and of the reasons given for it."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_ci.records.entry import ScopeName
from memory_ci.records.retrieval import Hit, Match
from memory_ci.search.rank import Traits, Weights, rank
from tests.make import make_entry, make_id, make_located


def make_match(
    number: int, lexical: float = 1.0, scope: ScopeName = "global", where: str = "", **fields: Any
) -> Match:
    return Match(make_located(number, f"{number}.md", scope=scope, where=where, **fields), lexical)


def numbers(hits: list[Hit]) -> list[int]:
    return [int(hit.located.entry.id[:8], 16) for hit in hits]


def by_importance(entry: Any) -> float:
    return float(entry.importance)


BY_IMPORTANCE = Weights(prominence=by_importance)


def test_of_equal_entries_the_more_relevant_comes_first() -> None:
    hits = rank([make_match(1, 2.0), make_match(2, 8.0)], BY_IMPORTANCE)
    assert numbers(hits) == [2, 1]
    assert [dict(hit.factors)["relevance"] for hit in hits] == [1.0, 0.25]


def test_of_equal_entries_the_more_prominent_comes_first() -> None:
    assert numbers(
        rank([make_match(1, importance=0.1), make_match(2, importance=0.9)], BY_IMPORTANCE)
    ) == [2, 1]


def test_prominence_cannot_outweigh_relevance() -> None:
    weak = make_match(1, 1.0, importance=1e9)
    assert numbers(rank([weak, make_match(2, 4.0, importance=0.01)], BY_IMPORTANCE)) == [2, 1]


def test_the_nearer_scope_comes_first() -> None:
    matches = [
        make_match(1, scope="global"),
        make_match(2, scope="project"),
        make_match(3, scope="team"),
    ]
    assert numbers(rank(matches, BY_IMPORTANCE)) == [3, 2, 1]


def test_memory_of_the_current_job_counts_like_that_of_the_team() -> None:
    matches = [
        make_match(1, scope="session", where="mine"),
        make_match(2, scope="session", where="other"),
    ]
    assert [
        dict(hit.factors)["scope"]
        for hit in rank(matches, Weights(prominence=by_importance, session="mine"))
    ] == [
        1.5,
        1.0,
    ]
    assert [dict(hit.factors)["scope"] for hit in rank(matches, BY_IMPORTANCE)] == [1.0, 1.0]


def test_an_entry_without_prominence_is_not_served() -> None:
    assert numbers(rank([make_match(1, importance=0.0), make_match(2)], BY_IMPORTANCE)) == [2]


def test_touched_entries_only_win_ties() -> None:
    weights = Weights(
        prominence=by_importance, touch_count=lambda entry: int(entry.id == make_id(2))
    )
    assert numbers(rank([make_match(1), make_match(2)], weights)) == [2, 1]
    assert numbers(rank([make_match(1, 1.001), make_match(2)], weights)) == [1, 2]


def test_ties_are_ordered_by_reinforcement_and_then_id() -> None:
    older, newer = date(2026, 1, 1), date(2026, 2, 1)
    matches = [
        make_match(n, last_reinforced=day)
        for n, day in ((1, older), (4, newer), (3, newer), (2, older))
    ]
    assert numbers(rank(matches, BY_IMPORTANCE)) == [3, 4, 1, 2]


def test_the_product_of_the_named_factors_is_the_score() -> None:
    (hit,) = rank([make_match(1, 3.0, scope="team", importance=1.0)], BY_IMPORTANCE)
    assert dict(hit.factors) == {
        "relevance": 1.0,
        "prominence": 1.0,
        "age": 1.0,
        "scope": 1.5,
        "truth": 1.0,
        "utility": 1.0,
    }
    assert hit.score == 1.5
    assert hit.lanes == (("lexical", 3.0),)


def test_age_is_a_factor_of_its_own() -> None:
    weights = Weights(prominence=by_importance, traits=lambda _: Traits(1.0, 0.25))
    (hit,) = rank([make_match(1, importance=1.0)], weights)
    assert dict(hit.factors)["age"] == pytest.approx((0.5 + 0.25 / 1.25) / 1.0)


def test_an_entry_whose_code_changed_comes_later_and_one_whose_code_is_gone_is_not_served() -> None:
    truth = {make_id(1): 0.5, make_id(2): 1.0, make_id(3): 0.0}
    weights = Weights(prominence=by_importance, truth=lambda entry: truth[entry.id])
    assert numbers(rank([make_match(1, 1.5), make_match(2, 1.0), make_match(3, 9.0)], weights)) == [
        2,
        1,
    ]


def test_entries_with_a_higher_utility_come_first() -> None:
    useful = {make_id(1): 0.0, make_id(2): 1.0}
    weights = Weights(prominence=by_importance, utility=lambda entry: useful[entry.id])
    hits = rank([make_match(1), make_match(2)], weights)
    assert [dict(hit.factors)["utility"] for hit in hits] == [1.25, 0.75]
    assert numbers(hits) == [2, 1]


def test_fused_scores_replace_the_lexical_score() -> None:
    places = [Match(make_located(n, path=f"{n}.md", scope="global"), float(n)) for n in (1, 2)]
    assert numbers(rank(places, BY_IMPORTANCE, {("1.md", 1): 1.0, ("2.md", 1): 0.5})) == [1, 2]


def test_no_matches_give_no_hits() -> None:
    assert rank([], BY_IMPORTANCE) == []


@pytest.mark.parametrize(("value", "factor"), [(math.nan, 0.5), (math.inf, 1.5), (1e308, 1.5)])
def test_a_prominence_that_is_not_a_number_is_bounded(value: float, factor: float) -> None:
    hits = rank([make_match(1, importance=value), make_match(2, importance=1.0)], BY_IMPORTANCE)
    assert {hit.located.entry.id: dict(hit.factors)["prominence"] for hit in hits} == {
        make_id(1): factor,
        make_id(2): 1.0,
    }


@example([(1.7976931348623157e308, 1.0), (-9.9792015476736e291, 1.0)])
@example([(math.nan, 1.0), (1.0, 1.0)])
@example([(math.inf, 1.0), (1.0, 1.0)])
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=8))
def test_any_numbers_give_finite_scores_in_falling_order(pairs: list[tuple[float, float]]) -> None:
    hits = rank(
        [make_match(n, lexical, importance=p) for n, (lexical, p) in enumerate(pairs)],
        BY_IMPORTANCE,
    )
    assert all(0 < hit.score <= 1.5 and 0 < dict(hit.factors)["relevance"] <= 1 for hit in hits)
    assert hits == sorted(hits, key=lambda hit: -hit.score)
    assert len(hits) == sum(not p <= 0 for _, p in pairs)


def test_a_duplicate_id_in_two_files_is_ordered_by_path() -> None:
    located = [make_located(1, path=path) for path in ("b.md", "a.md")]
    hits = rank([Match(entry, 1.0) for entry in located], Weights(prominence=lambda _: 1.0))
    assert [hit.located.path for hit in hits] == ["a.md", "b.md"]
    assert make_entry(1) == hits[0].located.entry
