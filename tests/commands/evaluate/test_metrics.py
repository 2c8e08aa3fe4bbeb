"""Tests of the measures of a ranking, on figures computed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.evaluate.retrieval_metrics import (
    has_any,
    interval,
    mean,
    ndcg,
    percentile,
    recall,
    reciprocal_rank,
)

RANKINGS = st.lists(st.sampled_from("abcdef"))


def test_grades_gain_two_to_the_power() -> None:
    value = ndcg(["one", "two"], {"one": 1, "two": 2}, 10)
    assert value == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))


def test_results_beyond_the_cut_do_not_count() -> None:
    ranking = [*"vwxyz", "a"]
    assert (
        recall(ranking, {"a": 1}, 5)
        == ndcg(ranking, {"a": 1}, 5)
        == reciprocal_rank(ranking, {"a": 1}, 5)
        == 0
    )
    assert recall(ranking, {"a": 1}, 6) == 1


def test_an_unwanted_entry_is_seen_among_the_first_only() -> None:
    assert (
        has_any(["a", "b"], ["b"], 2),
        has_any(["a", "b"], ["b"], 1),
        has_any([], ["b"], 5),
    ) == (1, 0, 0)


@given(RANKINGS, st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([1, 2]), min_size=1))
def test_a_measure_is_a_share_and_repetitions_change_nothing(
    ranking: list[str], relevant: dict[str, float]
) -> None:
    for measure in (recall, ndcg, reciprocal_rank):
        value = measure(ranking, relevant, 10)
        assert 0 <= value <= 1 + 1e-9
        assert value == measure(list(dict.fromkeys(ranking)), relevant, 10)
    best = sorted(relevant, key=lambda entry: -relevant[entry])
    assert ndcg(best, relevant, 10) == pytest.approx(1)


def test_nothing_to_average_is_zero() -> None:
    assert (mean([]), percentile([], 0.5), interval([], lambda values: values)) == (
        0.0,
        0.0,
        (0.0, 0.0),
    )


def test_the_interval_holds_the_middle_of_the_resampled_means() -> None:
    """The means of the samples are 0, 1, … 999: 2.5 % are below 25, and 2.5 % above 974."""
    drawn = iter(range(1000))

    def draw(values: Sequence[float]) -> Sequence[float]:
        return [next(drawn)] * len(values)

    assert interval([1.0, 2.0], draw) == (24, 974)
