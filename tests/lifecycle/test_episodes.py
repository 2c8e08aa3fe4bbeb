"""Tests of combining episode records: the order of files and repeated records do not change the result."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.episodes import (
    apply_amendments,
    list_feedback,
    make_amendment,
    unique_events,
)
from memory_ci.records.episode import (
    Amendment,
    Episode,
    EpisodeRecord,
    Feedback,
    FeedbackKind,
    Outcome,
    Situation,
)
from tests.make import make_id

WHEN = datetime(2026, 11, 20, 14, tzinfo=UTC)
TIMES = st.integers(0, 3).map(lambda hours: WHEN + timedelta(hours=hours))
NAMES = st.sampled_from(["pr-1", "pr-2"])
FEEDBACK = st.lists(
    st.builds(
        Feedback,
        id=st.sampled_from([make_id(1), make_id(2)]),
        kind=st.sampled_from(get_args(FeedbackKind)),
        at=TIMES,
        by=st.sampled_from(["", "ada", "bob"]),
        ref=st.sampled_from(["", "pr:1", "pr:2"]),
    ),
    max_size=3,
).map(tuple)
OUTCOMES = st.sampled_from(get_args(Outcome))
TEXTS = st.sampled_from(["", "one", "two"])
EPISODE_RECORDS = st.one_of(
    st.builds(
        Episode,
        id=NAMES,
        occurred_at=TIMES,
        situation=st.just(Situation()),
        outcome=OUTCOMES,
        valence=st.floats(0, 1),
        feedback=FEEDBACK,
        text=TEXTS,
    ),
    st.builds(
        make_amendment,
        TIMES,
        st.one_of(st.just(""), NAMES),
        outcome=st.one_of(st.none(), OUTCOMES),
        valence=st.one_of(st.none(), st.floats(0, 1)),
        feedback=FEEDBACK,
        text=TEXTS,
    ),
)


def make_episode(name: str = "pr-1", **fields: Any) -> Episode:
    defaults: dict[str, Any] = {"id": name, "occurred_at": WHEN, "situation": Situation()}
    return Episode(**defaults | fields)


def make_feedback(
    number: int = 1, kind: FeedbackKind = "confirmed", hours: int = 0, **fields: Any
) -> Feedback:
    """Return a feedback event."""
    return Feedback(id=make_id(number), kind=kind, at=WHEN + timedelta(hours=hours), **fields)


def amend_later(hours: int, **fields: Any) -> Amendment:
    """Return an amendment that is written some hours later."""
    return make_amendment(WHEN + timedelta(hours=hours), "pr-1", **fields)


# -- the algebra


@given(
    st.lists(EPISODE_RECORDS, max_size=8).flatmap(
        lambda records: st.tuples(st.just(records), st.permutations(records))
    )
)
def test_the_order_of_the_files_changes_nothing(
    records: tuple[list[EpisodeRecord], list[EpisodeRecord]],
) -> None:
    given_order, other_order = records
    assert apply_amendments(given_order) == apply_amendments(other_order)
    assert list_feedback(given_order) == list_feedback(other_order)


@given(st.lists(EPISODE_RECORDS, max_size=6))
def test_a_repeated_record_counts_once(records: list[EpisodeRecord]) -> None:
    assert apply_amendments(records + records) == apply_amendments(records)
    assert list_feedback(records + records) == list_feedback(records)


@given(st.lists(EPISODE_RECORDS, max_size=6))
def test_combining_a_combined_episode_changes_nothing(records: list[EpisodeRecord]) -> None:
    assert apply_amendments(apply_amendments(records)) == apply_amendments(records)


@given(st.lists(EPISODE_RECORDS, max_size=8))
def test_combined_feedback_has_exactly_the_recorded_events(records: list[EpisodeRecord]) -> None:
    feedback = [item for record in records for item in record.feedback]
    events = {(item.id, item.kind, item.ref or (item.by, item.at)) for item in feedback}
    assert {
        (item.id, item.kind, item.ref or (item.by, item.at)) for item in list_feedback(records)
    } == events
    assert set(list_feedback(records)) <= set(feedback)


# -- outcomes


def test_the_latest_outcome_counts() -> None:
    records: list[EpisodeRecord] = [
        amend_later(2, outcome="success"),
        make_episode(outcome="partial"),
        amend_later(1, outcome="failure"),
    ]
    assert [episode.outcome for episode in apply_amendments(records)] == ["success"]


def test_of_two_outcomes_at_one_time_the_worse_counts() -> None:
    (episode,) = apply_amendments(
        [
            make_episode(outcome="success"),
            amend_later(1, outcome="failure"),
            amend_later(1, outcome="partial"),
        ]
    )
    assert episode.outcome == "failure"


def test_an_amendment_without_outcome_and_valence_changes_neither() -> None:
    (episode,) = apply_amendments(
        [make_episode(outcome="partial", valence=0.9), amend_later(1, text="Talked about again")]
    )
    assert (episode.outcome, episode.valence) == ("partial", 0.9)


def test_an_amendment_of_a_missing_episode_makes_no_episode_but_its_feedback_counts() -> None:
    amendment = amend_later(1, outcome="failure", feedback=[make_feedback(kind="undone")])
    assert apply_amendments([amendment]) == ()
    assert list_feedback([amendment]) == (make_feedback(kind="undone"),)


def test_episodes_come_in_order_of_time_then_id() -> None:
    records = [
        make_episode("pr-9", occurred_at=WHEN + timedelta(hours=1)),
        make_episode("pr-3"),
        make_episode("pr-1"),
    ]
    assert [episode.id for episode in apply_amendments(records)] == ["pr-1", "pr-3", "pr-9"]


def test_of_two_records_of_an_episode_the_earlier_counts_with_the_feedback_of_both() -> None:
    later_record = make_episode(
        occurred_at=WHEN + timedelta(hours=1), text="late", feedback=(make_feedback(1),)
    )
    (episode,) = apply_amendments(
        [later_record, make_episode(text="early", feedback=(make_feedback(2),))]
    )
    assert (episode.text, [event.id for event in episode.feedback]) == (
        "early",
        [make_id(1), make_id(2)],
    )


# -- events


def test_an_event_recorded_by_two_people_counts_once_with_the_earlier_time() -> None:
    assert unique_events(
        [make_feedback(ref="pr:1", by="bob", hours=1), make_feedback(ref="pr:1", by="ada")]
    ) == (make_feedback(ref="pr:1", by="ada"),)
    assert unique_events(
        [make_feedback(ref="pr:1", by="bob"), make_feedback(ref="pr:1", by="ada")]
    ) == (make_feedback(ref="pr:1", by="ada"),)


def test_events_without_a_reference_differ_by_author_and_time() -> None:
    assert len(unique_events([make_feedback(by="ada"), make_feedback(by="ada")])) == 1
    assert (
        len(
            unique_events(
                [make_feedback(by="ada"), make_feedback(by="bob"), make_feedback(by="ada", hours=1)]
            )
        )
        == 3
    )


def test_events_of_another_kind_or_change_are_different() -> None:
    assert (
        len(
            unique_events(
                [
                    make_feedback(ref="pr:1"),
                    make_feedback(ref="pr:2"),
                    make_feedback(ref="pr:1", kind="undone"),
                    make_feedback(2, ref="pr:1"),
                ]
            )
        )
        == 4
    )


# -- ids of amendments


def test_equal_amendments_have_the_same_id() -> None:
    elsewhere = datetime.fromisoformat("2026-11-20T16:00:00+02:00")
    first = make_amendment(WHEN, "pr-1", feedback=[make_feedback(1), make_feedback(2)])
    second = make_amendment(
        elsewhere,
        "pr-1",
        feedback=[
            make_feedback(2),
            make_feedback(1),
            msgspec.structs.replace(make_feedback(1), at=elsewhere),
        ],
    )
    assert first == second
    assert re.fullmatch(r"pr-1\+[0-9a-f]{12}", first.id)


def test_different_amendments_have_different_ids() -> None:
    amendments = [
        make_amendment(WHEN),
        amend_later(0),
        amend_later(1),
        amend_later(0, outcome="failure"),
        amend_later(0, valence=0.1),
        amend_later(0, text="x"),
    ]
    assert (
        len(
            {
                amendment.id
                for amendment in [*amendments, amend_later(0, feedback=[make_feedback()])]
            }
        )
        == 7
    )
    assert amendments[0].id.startswith("feedback+")
