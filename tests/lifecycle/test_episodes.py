"""What was told of episodes, put together: in any order, once or twice, the same comes out."""

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
TELLINGS = st.one_of(
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


def say(
    number: int = 1, kind: FeedbackKind = "confirmed", hours: int = 0, **fields: Any
) -> Feedback:
    return Feedback(id=make_id(number), kind=kind, at=WHEN + timedelta(hours=hours), **fields)


def after(hours: int, **fields: Any) -> Amendment:
    return make_amendment(WHEN + timedelta(hours=hours), "pr-1", **fields)


# -- the algebra


@given(
    st.lists(TELLINGS, max_size=8).flatmap(
        lambda told: st.tuples(st.just(told), st.permutations(told))
    )
)
def test_the_order_of_the_files_changes_nothing(
    told: tuple[list[EpisodeRecord], list[EpisodeRecord]],
) -> None:
    given_order, other_order = told
    assert apply_amendments(given_order) == apply_amendments(other_order)
    assert list_feedback(given_order) == list_feedback(other_order)


@given(st.lists(TELLINGS, max_size=6))
def test_what_is_told_twice_counts_once(told: list[EpisodeRecord]) -> None:
    assert apply_amendments(told + told) == apply_amendments(told)
    assert list_feedback(told + told) == list_feedback(told)


@given(st.lists(TELLINGS, max_size=6))
def test_what_was_put_together_stays_as_it_is(told: list[EpisodeRecord]) -> None:
    assert apply_amendments(apply_amendments(told)) == apply_amendments(told)


@given(st.lists(TELLINGS, max_size=8))
def test_no_feedback_gets_lost_and_none_is_invented(told: list[EpisodeRecord]) -> None:
    said = [item for telling in told for item in telling.feedback]
    events = {(item.id, item.kind, item.ref or (item.by, item.at)) for item in said}
    assert {
        (item.id, item.kind, item.ref or (item.by, item.at)) for item in list_feedback(told)
    } == events
    assert set(list_feedback(told)) <= set(said)


# -- outcomes


def test_the_latest_outcome_stands() -> None:
    told: list[EpisodeRecord] = [
        after(2, outcome="success"),
        make_episode(outcome="partial"),
        after(1, outcome="failure"),
    ]
    assert [episode.outcome for episode in apply_amendments(told)] == ["success"]


def test_of_two_outcomes_at_one_moment_the_worse_stands() -> None:
    (episode,) = apply_amendments(
        [make_episode(outcome="success"), after(1, outcome="failure"), after(1, outcome="partial")]
    )
    assert episode.outcome == "failure"


def test_an_amendment_that_says_nothing_of_outcome_or_valence_leaves_them() -> None:
    (episode,) = apply_amendments(
        [make_episode(outcome="partial", valence=0.9), after(1, text="Talked about again")]
    )
    assert (episode.outcome, episode.valence) == ("partial", 0.9)


def test_an_amendment_without_its_episode_makes_none_but_its_feedback_counts() -> None:
    amendment = after(1, outcome="failure", feedback=[say(kind="undone")])
    assert apply_amendments([amendment]) == ()
    assert list_feedback([amendment]) == (say(kind="undone"),)


def test_episodes_come_in_order_of_time_then_id() -> None:
    told = [
        make_episode("pr-9", occurred_at=WHEN + timedelta(hours=1)),
        make_episode("pr-3"),
        make_episode("pr-1"),
    ]
    assert [episode.id for episode in apply_amendments(told)] == ["pr-1", "pr-3", "pr-9"]


def test_of_an_episode_told_in_two_ways_the_earlier_stands_with_the_feedback_of_both() -> None:
    late = make_episode(occurred_at=WHEN + timedelta(hours=1), text="late", feedback=(say(1),))
    (episode,) = apply_amendments([late, make_episode(text="early", feedback=(say(2),))])
    assert (episode.text, [said.id for said in episode.feedback]) == (
        "early",
        [make_id(1), make_id(2)],
    )


# -- events


def test_two_who_tell_of_one_event_are_one_and_the_earlier_stands() -> None:
    assert unique_events([say(ref="pr:1", by="bob", hours=1), say(ref="pr:1", by="ada")]) == (
        say(ref="pr:1", by="ada"),
    )
    assert unique_events([say(ref="pr:1", by="bob"), say(ref="pr:1", by="ada")]) == (
        say(ref="pr:1", by="ada"),
    )


def test_without_a_reference_who_and_when_tell_events_apart() -> None:
    assert len(unique_events([say(by="ada"), say(by="ada")])) == 1
    assert len(unique_events([say(by="ada"), say(by="bob"), say(by="ada", hours=1)])) == 3


def test_another_kind_or_another_work_is_another_event() -> None:
    assert (
        len(
            unique_events(
                [
                    say(ref="pr:1"),
                    say(ref="pr:2"),
                    say(ref="pr:1", kind="undone"),
                    say(2, ref="pr:1"),
                ]
            )
        )
        == 4
    )


# -- ids of amendments


def test_the_same_thing_has_the_same_id_wherever_it_is_said() -> None:
    elsewhere = datetime.fromisoformat("2026-11-20T16:00:00+02:00")
    one = make_amendment(WHEN, "pr-1", feedback=[say(1), say(2)])
    other = make_amendment(
        elsewhere, "pr-1", feedback=[say(2), say(1), msgspec.structs.replace(say(1), at=elsewhere)]
    )
    assert one == other
    assert re.fullmatch(r"pr-1\+[0-9a-f]{12}", one.id)


def test_another_thing_has_another_id() -> None:
    made = [
        make_amendment(WHEN),
        after(0),
        after(1),
        after(0, outcome="failure"),
        after(0, valence=0.1),
        after(0, text="x"),
    ]
    assert len({told.id for told in [*made, after(0, feedback=[say()])]}) == 7
    assert made[0].id.startswith("feedback+")
