"""Tests of the figures of health: what each counts, and how they make one score."""

from __future__ import annotations

from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.health.crewship_metrics import (
    score_age,
    score_hits,
    score_indexed,
    score_linked,
    score_neighbour_cosines,
)
from memory_ci.commands.health.metrics import (
    WEIGHTS,
    JobUsage,
    Measurement,
    band_of,
    count_near_duplicates,
    find_related,
    find_similar_entries,
    list_contradictions,
    parse_source_names,
    score_coherence,
    score_coverage,
    score_efficiency,
    score_reachability,
    score_recency,
    score_truth,
    weigh_metrics,
)
from memory_ci.commands.health.records import Health, MetricName
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.records.names import list_change_names
from tests.make import make_entry, make_id, make_located

TODAY = date(2026, 11, 21)
VALUES = st.none() | st.floats(-50, 150)


def weighed(**values: float | None) -> Health:
    """Return a health with these metrics; the others have no data."""
    measured: dict[MetricName, Measurement] = {
        name: Measurement(values.get(name), "") for name in WEIGHTS["git"]
    }
    return weigh_metrics("git", TODAY, None, measured)


# -- the score


def test_the_weights_are_the_seed_s_and_whole() -> None:
    assert list(WEIGHTS["crewship"].values()) == [25, 25, 20, 15, 15]
    assert list(WEIGHTS["git"].values()) == [15, 10, 25, 20, 15, 15]


def test_a_score_is_the_mean_by_weight() -> None:
    health = weighed(
        truth=100, recency=100, coverage=50, coherence=100, efficiency=0, reachability=100
    )
    assert (health.score, health.is_partial) == (72.5, False)


def test_where_a_metric_has_no_data_there_is_no_score_that_would_rise_by_it() -> None:
    health = weighed(truth=100, recency=100, coverage=50)
    assert (health.score, health.band, health.is_partial) == (None, None, True)
    assert health.weakest is health.metrics[2]


def test_without_any_data_there_is_no_score() -> None:
    health = weighed()
    assert (health.score, health.band, health.weakest) == (None, None, None)


@pytest.mark.parametrize(
    ("score", "band"),
    [(0, "red"), (49.9, "red"), (50, "yellow"), (74.9, "yellow"), (75, "green"), (100, "green")],
)
def test_bands_begin_at_fifty_and_seventy_five(score: float, band: str) -> None:
    assert band_of(score) == band


def test_only_a_weak_metric_has_advice() -> None:
    health = weighed(truth=74.9, coverage=75)
    assert [bool(metric.advice) for metric in health.metrics] == [True, *[False] * 5]
    assert health.weakest is health.metrics[0]


@given(st.fixed_dictionaries(dict.fromkeys(WEIGHTS["git"], VALUES)))
def test_a_score_lies_between_its_metrics(values: dict[MetricName, float | None]) -> None:
    health = weighed(**values)
    known_values = [metric.value for metric in health.metrics if metric.value is not None]
    assert (health.score is None) == (len(known_values) < len(values))
    if health.score is not None:
        assert 0 <= min(known_values) <= max(known_values) <= 100
        assert min(known_values) - 0.05 <= health.score <= max(known_values) + 0.05


# -- recency


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 100.0), (90, 100 * (0.5 - 0.01) / 0.99), (50_000, 0.0)]
)
def test_recency_is_measured_with_its_floor_taken_off(age: int, expected: float) -> None:
    entry = make_entry(last_reinforced=TODAY - timedelta(days=age))
    assert score_recency([entry], TODAY).value == pytest.approx(expected)


# -- coverage


@pytest.mark.parametrize(
    ("judged", "eligible", "indexed", "left_out", "expected"),
    [
        (3, 4, 5, 0, 75.0),
        (4, 4, 5, 5, 50.0),
        (0, 4, 5, 0, 0.0),
        (0, 0, 5, 0, None),
        (0, 0, 5, 5, 50.0),
        (4, 4, 0, 1, 0.0),
    ],
)
def test_coverage_counts_read_changes_and_indexed_entries(
    judged: int, eligible: int, indexed: int, left_out: int, expected: float | None
) -> None:
    assert score_coverage(judged, eligible, indexed, left_out).value == expected


def test_an_empty_store_has_no_coverage_however_much_was_judged() -> None:
    assert score_coverage(9, 9, 0, 0).value is None


# -- coherence


def test_each_near_duplicate_and_each_contradiction_counts_once() -> None:
    text = "never retry a charge without an idempotency key because the gateway books it twice then"
    places = [
        make_located(1, title=text),
        make_located(2, title=f"{text} surely"),
        make_located(3, title="Zebras graze at dawn", relations=(f"contradicts {make_id(4)}",)),
        make_located(4, title="Okapis hide in forests", relations=(f"contradicts {make_id(3)}",)),
    ]
    assert score_coherence(places).value == 50


def test_copies_count_once_each_and_not_by_pairs() -> None:
    assert (
        count_near_duplicates(
            [make_entry(number, title="Wait for the zebra") for number in range(100)]
        )
        == 99
    )


def test_texts_without_a_word_are_no_copies_of_each_other() -> None:
    assert count_near_duplicates([make_entry(1, title="!!!"), make_entry(2, title="???")]) == 0


def test_equal_words_with_other_numbers_are_no_duplicates() -> None:
    one, other = (
        make_entry(at, title=f"Connect to the gateway within {at} seconds") for at in (30, 60)
    )
    assert count_near_duplicates([one, other]) == 0


def test_a_contradiction_needs_two_existing_entries_and_ends_when_one_supersedes() -> None:
    old = make_located(1, relations=(f"contradicts {make_id(2)}",))
    new = make_located(2, title="Another", supersedes=(make_id(1),))
    assert list_contradictions([old, new]) == frozenset()
    assert list_contradictions([old]) == frozenset()


def test_more_faults_than_entries_are_no_coherence_at_all() -> None:
    places = [
        make_located(
            1,
            title="Zebras graze",
            relations=tuple(f"contradicts {make_id(n)}" for n in range(2, 9)),
        )
    ]
    places += [make_located(number, title="Wait for the okapi") for number in range(2, 9)]
    health = weigh_metrics(
        "git",
        TODAY,
        None,
        {
            **dict.fromkeys(WEIGHTS["git"], Measurement(None, "")),
            "coherence": score_coherence(places),
        },
    )
    assert next(metric.value for metric in health.metrics if metric.name == "coherence") == 0


# -- efficiency, reachability


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (JobUsage(), None),
        (JobUsage(19, 38, 0), None),
        (JobUsage(20, 40, 10), 25.0),
        (JobUsage(20, 0, 0), None),
    ],
)
def test_efficiency_is_the_share_used_from_twenty_jobs_on(
    jobs: JobUsage, expected: float | None
) -> None:
    assert score_efficiency(4, 1, jobs).value == expected


def test_serving_more_never_raises_efficiency() -> None:
    few = score_efficiency(100, 80, JobUsage(20, 40, 10)).value
    flood = score_efficiency(100, 0, JobUsage(100, 400, 10)).value
    assert few is not None
    assert flood is not None
    assert flood < few


def test_without_questions_and_use_there_is_no_efficiency() -> None:
    assert score_efficiency(0, 0, JobUsage(), "nobody asked") == Measurement(
        None, "nobody asked", target=30
    )


def test_uncompared_cites_do_not_count_as_good() -> None:
    compared = score_truth({"1": "fresh"}).value
    partly = score_truth({"1": "fresh", "2": None, "3": None, "4": None})
    assert (compared, partly.value) == (100, 25)
    assert "cites" in partly.advice


def test_a_relation_reaches_both_ends_and_one_to_nothing_neither() -> None:
    entries = [
        make_entry(1, relations=(f"supports {make_id(2)}",)),
        make_entry(2),
        make_entry(3, relations=(f"supports {make_id(9)}", f"duplicates {make_id(3)}")),
        make_entry(4, supersedes=(make_id(8),)),
        make_entry(5, supersedes=(make_id(5), make_id(7))),
    ]
    known_ids = {make_id(number) for number in (1, 2, 3, 4, 5, 8)}
    assert find_related(entries, known_ids) == {make_id(1), make_id(2), make_id(4)}


def test_copies_and_entries_with_enough_common_words_are_duplicates() -> None:
    titles = [
        "Zebras graze at dawn here",
        "Zebras graze at dawn there",
        "Okapis hide",
        "Okapis hide",
        "Lions sleep",
        "",
    ]
    entries = [make_entry(number, title=title) for number, title in enumerate(titles)]
    assert find_similar_entries(entries, 0.45) == {make_id(number) for number in range(4)}
    assert find_similar_entries(entries, 0.9) == {make_id(2), make_id(3)}
    assert find_similar_entries(entries, 0.45, {make_id(1), make_id(4), make_id(5)}) == {make_id(1)}
    assert find_similar_entries(entries, 0.9, {make_id(3)}) == {make_id(3)}


@pytest.mark.parametrize(
    "measured", [score_recency([], TODAY), score_coherence([]), score_reachability(0, 0)]
)
def test_no_entry_is_no_data(measured: Measurement) -> None:
    assert measured.value is None


def test_entries_and_changes_meet_by_number_and_by_the_start_of_a_commit() -> None:
    entry = make_entry(source="pr:128 commit:823a7b0149e3")
    assert parse_source_names(entry) == {"pr:128", "commit:823a7b0"}
    assert list_change_names(None, ["823a7b0149e3" + "0" * 28]) & parse_source_names(entry)
    assert not list_change_names(12, ["f" * 40]) & parse_source_names(entry)


def test_retired_and_expired_entries_are_not_in_force() -> None:
    entry = make_entry(valid_until=TODAY + timedelta(days=1))
    assert is_in_force(entry, TODAY)
    assert not is_in_force(entry, TODAY + timedelta(days=1))
    assert not is_in_force(msgspec.structs.replace(entry, status="retired"), TODAY)


# -- Crewship's table


@pytest.mark.parametrize(
    ("ages", "expected"), [([0, 90, 400], 50.0), ([400], 0.0), ([-9], 100.0), ([], None)]
)
def test_crewship_s_freshness_falls_with_the_median_age(
    ages: list[int], expected: float | None
) -> None:
    entries = [
        make_entry(at, created_at=TODAY - timedelta(days=age)) for at, age in enumerate(ages)
    ]
    assert score_age(entries, TODAY).value == expected


def test_crewship_s_coherence_and_efficiency_are_mean_cosines() -> None:
    assert score_neighbour_cosines([(0.9, 0.5), (0.1, -0.1)], "").value == pytest.approx(
        100 * (0.7 + 0.05) / 2
    )
    assert score_hits([(0.8, 0.6), (0.4,)], "").value == pytest.approx(60)
    assert score_hits([tuple([1.0] * 5 + [0.0] * 5)], "").value == 100


def test_crewship_s_metrics_without_data_are_none() -> None:
    assert {
        score_neighbour_cosines([], "").value,
        score_hits([], "").value,
        score_indexed(0, 0).value,
    } == {None}
    assert score_linked(0, 0).value is None


def test_crewship_s_coverage_and_reachability_are_shares() -> None:
    assert (score_indexed(3, 1).value, score_linked(1, 4).value) == (75, 25)
