"""Tests of utility: it is computed from feedback in the order of time, whatever the order of reading."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import UsageError
from memory_ci.lifecycle.episodes import make_amendment
from memory_ci.lifecycle.utility import DELTAS, Utility, compute_utilities
from memory_ci.records.entry import NO_FEEDBACK
from memory_ci.records.episode import EventKind, Feedback
from memory_ci.store.episodes import format_episode_record, parse_episode_file
from tests.make import ID, make_id

WHEN = datetime(2026, 11, 20, 14, tzinfo=UTC)


def make_feedback(kind: str, hours: int = 0, entry: str = ID, **fields: Any) -> Feedback:
    """Return a feedback event."""
    return Feedback(
        id=entry, kind=cast("EventKind", kind), at=WHEN + timedelta(hours=hours), **fields
    )


def replay(*kinds: str, start: float = NO_FEEDBACK) -> float:
    """Return the utility after events of these kinds, an hour apart."""
    return compute_utilities(
        [make_feedback(kind, hours) for hours, kind in enumerate(kinds)], start
    )[ID].value


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("confirmed", 0.7), ("corrected", 0.4), ("rejected", 0.2), ("undone", 0.1), ("ignored", 0.45)],
)
def test_one_event_moves_the_utility_by_its_delta(kind: str, expected: float) -> None:
    assert replay(kind) == pytest.approx(expected)


def test_the_order_of_events_matters_because_each_step_is_bounded() -> None:
    assert replay("confirmed", "undone", start=0.9) == pytest.approx(0.6)
    assert replay("undone", "confirmed", start=0.9) == pytest.approx(0.7)
    assert replay("undone", "undone", "confirmed") == pytest.approx(0.2)


def test_events_count_in_the_order_of_time_not_of_records() -> None:
    late_first = [make_feedback("undone", 2), make_feedback("confirmed", 1)]
    assert compute_utilities(late_first, 0.9)[ID].value == pytest.approx(0.6)


def test_an_event_of_years_ago_counts_as_one_of_today() -> None:
    old, new = (
        compute_utilities([make_feedback("rejected", hours)])[ID].value for hours in (0, 30_000)
    )
    assert old == new


def test_an_event_recorded_by_several_people_counts_once() -> None:
    feedback = [
        make_feedback("confirmed", hours, by=name, ref="pr:1")
        for hours, name in enumerate(["ada", "bob", "ada"])
    ]
    assert compute_utilities(feedback) == {ID: Utility(pytest.approx(0.7), 1)}  # type: ignore[arg-type] # approx is no float


def test_ten_entries_that_one_job_ignored_share_the_penalty() -> None:
    feedback = [make_feedback("ignored", entry=make_id(number), ref="pr:1") for number in range(10)]
    utilities = compute_utilities(feedback).values()
    assert sum(NO_FEEDBACK - utility.value for utility in utilities) == pytest.approx(0.05)


def test_an_entry_that_another_job_ignored_has_its_own_penalty() -> None:
    feedback = [
        make_feedback("ignored", entry=make_id(1), ref="pr:1"),
        make_feedback("ignored", entry=make_id(2), ref="pr:2"),
    ]
    assert [utility.value for utility in compute_utilities(feedback).values()] == [
        pytest.approx(0.45)
    ] * 2


def test_the_penalty_is_shared_among_ignored_entries_only() -> None:
    feedback = [
        make_feedback("ignored", entry=make_id(1), ref="pr:1"),
        make_feedback("confirmed", entry=make_id(2), ref="pr:1"),
    ]
    assert compute_utilities(feedback)[make_id(1)].value == pytest.approx(0.45)


def test_jobs_without_a_reference_differ_by_author_and_time() -> None:
    feedback = [
        make_feedback("ignored", entry=make_id(1), by="ada"),
        make_feedback("ignored", entry=make_id(2), by="ada"),
    ]
    alone = make_feedback("ignored", 1, entry=make_id(3), by="ada")
    values = compute_utilities([*feedback, alone])
    assert [round(values[make_id(number)].value, 4) for number in (1, 2, 3)] == [0.475, 0.475, 0.45]


def test_an_entry_without_feedback_has_no_utility() -> None:
    assert compute_utilities([]) == {}


def test_an_unknown_kind_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        compute_utilities([make_feedback("praised")])
    assert raised.value.slug == "unknown-feedback"
    assert "confirmed" in raised.value.hint


def test_every_kind_has_a_delta() -> None:
    assert tuple(DELTAS) == get_args(EventKind)


EVENTS = st.lists(
    st.builds(
        make_feedback,
        st.sampled_from(get_args(EventKind)),
        st.integers(0, 5),
        entry=st.sampled_from([make_id(1), make_id(2)]),
        ref=st.sampled_from(["", "pr:1", "pr:2"]),
        by=st.sampled_from(["", "ada"]),
    ),
    max_size=10,
)


ORDERS = EVENTS.flatmap(lambda feedback: st.tuples(st.just(feedback), st.permutations(feedback)))


@given(ORDERS)
def test_any_order_of_reading_gives_exactly_one_result(
    orders: tuple[list[Feedback], list[Feedback]],
) -> None:
    first, second = (compute_utilities(feedback) for feedback in orders)
    assert first == second
    assert all(
        0 <= utility.value <= 1 and utility.events + utility.touched > 0
        for utility in first.values()
    )


def test_files_read_in_random_orders_give_one_result() -> None:
    shuffler = random.Random(7)  # noqa: S311 - the same orders at each run
    kinds = get_args(EventKind)
    events = [
        make_feedback(
            shuffler.choice(kinds),
            shuffler.randrange(9),
            make_id(shuffler.randrange(4)),
            ref=f"pr:{n // 3}",
        )
        for n in range(60)
    ]
    files = [format_episode_record(make_amendment(event.at, feedback=[event])) for event in events]
    results = []
    for _ in range(25):
        shuffler.shuffle(files)
        records = [record for data in files for record in parse_episode_file("x", data).records]
        results.append(
            compute_utilities([event for record in records for event in record.feedback])
        )
    assert all(result == results[0] for result in results)
    assert len({utility.value for utility in results[0].values()}) > 1


@pytest.mark.parametrize(
    ("value", "events", "is_low"),
    [
        (0.1, 3, True),
        (0.1, 2, False),
        (0.2, 3, False),
        (0.7 - 0.4 - 0.1, 3, False),
        (0.19, 9, True),
    ],
)
def test_utility_is_low_below_a_fifth_after_three_events(
    value: float, events: int, is_low: bool
) -> None:
    assert Utility(value, events).is_low is is_low
