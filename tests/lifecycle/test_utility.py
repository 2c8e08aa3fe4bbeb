"""Utility: replayed from events in order of time, whatever order they are read in."""

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


def say(kind: str, hours: int = 0, entry: str = ID, **fields: Any) -> Feedback:
    return Feedback(
        id=entry, kind=cast("EventKind", kind), at=WHEN + timedelta(hours=hours), **fields
    )


def value(*kinds: str, start: float = NO_FEEDBACK) -> float:
    """The utility after events of these kinds, an hour apart."""
    return compute_utilities([say(kind, hours) for hours, kind in enumerate(kinds)], start)[
        ID
    ].value


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("confirmed", 0.7), ("corrected", 0.4), ("rejected", 0.2), ("undone", 0.1), ("ignored", 0.45)],
)
def test_one_event_moves_the_utility_by_its_delta(kind: str, expected: float) -> None:
    assert value(kind) == pytest.approx(expected)


def test_the_order_of_events_matters_for_each_step_is_kept_in_bounds() -> None:
    assert value("confirmed", "undone", start=0.9) == pytest.approx(0.6)
    assert value("undone", "confirmed", start=0.9) == pytest.approx(0.7)
    assert value("undone", "undone", "confirmed") == pytest.approx(0.2)


def test_time_decides_and_not_the_order_of_telling() -> None:
    late_first = [say("undone", 2), say("confirmed", 1)]
    assert compute_utilities(late_first, 0.9)[ID].value == pytest.approx(0.6)


def test_an_event_of_years_ago_counts_as_one_of_today() -> None:
    old, new = (compute_utilities([say("rejected", hours)])[ID].value for hours in (0, 30_000))
    assert old == new


def test_one_event_told_by_many_counts_once() -> None:
    said = [
        say("confirmed", hours, by=name, ref="pr:1")
        for hours, name in enumerate(["ada", "bob", "ada"])
    ]
    assert compute_utilities(said) == {ID: Utility(pytest.approx(0.7), 1)}  # type: ignore[arg-type] # approx is no float


def test_ten_that_one_job_ignored_share_one_price() -> None:
    said = [say("ignored", entry=make_id(number), ref="pr:1") for number in range(10)]
    utilities = compute_utilities(said).values()
    assert sum(NO_FEEDBACK - utility.value for utility in utilities) == pytest.approx(0.05)


def test_what_another_job_ignored_has_its_own_price() -> None:
    said = [
        say("ignored", entry=make_id(1), ref="pr:1"),
        say("ignored", entry=make_id(2), ref="pr:2"),
    ]
    assert [found.value for found in compute_utilities(said).values()] == [pytest.approx(0.45)] * 2


def test_a_price_is_shared_with_what_was_ignored_only() -> None:
    said = [
        say("ignored", entry=make_id(1), ref="pr:1"),
        say("confirmed", entry=make_id(2), ref="pr:1"),
    ]
    assert compute_utilities(said)[make_id(1)].value == pytest.approx(0.45)


def test_without_a_reference_a_job_is_who_and_when() -> None:
    said = [say("ignored", entry=make_id(1), by="ada"), say("ignored", entry=make_id(2), by="ada")]
    alone = say("ignored", 1, entry=make_id(3), by="ada")
    values = compute_utilities([*said, alone])
    assert [round(values[make_id(number)].value, 4) for number in (1, 2, 3)] == [0.475, 0.475, 0.45]


def test_an_entry_of_which_nothing_was_said_is_not_there() -> None:
    assert compute_utilities([]) == {}


def test_an_unknown_kind_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        compute_utilities([say("praised")])
    assert raised.value.slug == "unknown-feedback"
    assert "confirmed" in raised.value.hint


def test_every_kind_has_a_delta() -> None:
    assert tuple(DELTAS) == get_args(EventKind)


EVENTS = st.lists(
    st.builds(
        say,
        st.sampled_from(get_args(EventKind)),
        st.integers(0, 5),
        entry=st.sampled_from([make_id(1), make_id(2)]),
        ref=st.sampled_from(["", "pr:1", "pr:2"]),
        by=st.sampled_from(["", "ada"]),
    ),
    max_size=10,
)


ORDERS = EVENTS.flatmap(lambda said: st.tuples(st.just(said), st.permutations(said)))


@given(ORDERS)
def test_any_order_of_reading_gives_exactly_one_result(
    told: tuple[list[Feedback], list[Feedback]],
) -> None:
    one, other = (compute_utilities(said) for said in told)
    assert one == other
    assert all(0 <= found.value <= 1 and found.events + found.touched > 0 for found in one.values())


def test_files_read_in_random_orders_give_one_result() -> None:
    shuffler = random.Random(7)  # noqa: S311 - the same orders at each run
    kinds = get_args(EventKind)
    events = [
        say(
            shuffler.choice(kinds),
            shuffler.randrange(9),
            make_id(shuffler.randrange(4)),
            ref=f"pr:{n // 3}",
        )
        for n in range(60)
    ]
    files = [format_episode_record(make_amendment(said.at, feedback=[said])) for said in events]
    results = []
    for _ in range(25):
        shuffler.shuffle(files)
        told = [telling for data in files for telling in parse_episode_file("x", data).records]
        results.append(compute_utilities([said for telling in told for said in telling.feedback]))
    assert all(result == results[0] for result in results)
    assert len({found.value for found in results[0].values()}) > 1


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
def test_low_is_below_a_fifth_after_three_events(value: float, events: int, is_low: bool) -> None:
    assert Utility(value, events).is_low is is_low
