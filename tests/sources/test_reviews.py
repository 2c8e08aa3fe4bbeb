"""Tests of pull requests as a source: their events, outcomes, and which authors are outsiders."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.event import Event
from memory_ci.records.history import Check, PullRequest, Review
from memory_ci.sources.reviews import iter_fixed_checks, review_events


def at(hour: int) -> datetime:
    return datetime(2026, 9, 1, hour, tzinfo=UTC)


def make_request(**fields: Any) -> PullRequest:
    defaults: dict[str, Any] = {
        "number": 128,
        "title": "Retry only with a key",
        "body": "A POST was sent twice.",
        "author": "ann",
        "permission": "write",
        "state": "merged",
        "created_at": at(8),
        "merged_at": at(20),
        "last_commit_at": at(12),
        "commits": ("1" * 40, "2" * 40, "3" * 40),
    }
    return PullRequest(**defaults | fields)


def make_review(id: str = "r199", **fields: Any) -> Review:
    defaults: dict[str, Any] = {
        "author": "bob",
        "permission": "write",
        "state": "commented",
        "body": "Send the key with each try.",
        "at": at(10),
    }
    return Review(id=id, **defaults | fields)


def make_check(sha: int, is_success: bool, hour: int = 9, name: str = "Unit tests (3.12)") -> Check:
    return Check(
        name=name,
        sha=str(sha) * 40,
        is_success=is_success,
        at=at(hour),
        summary="test_retry: sent twice",
    )


def outcomes(request: PullRequest) -> list[str]:
    return [
        value for event in review_events(request) for key, value in event.labels if key == "outcome"
    ]


def review_event(**fields: Any) -> Event:
    return review_events(make_request(reviews=(make_review(**fields),)))[1]


def test_a_request_is_one_event_with_its_labels() -> None:
    (event,) = review_events(make_request(labels=("bug", "memory: keep")))
    assert event.text == "Retry only with a key\n\nA POST was sent twice."
    assert (event.kind, event.actor, event.author, str(event.origin)) == (
        "pr",
        "human",
        "ann",
        "pr:128",
    )
    assert event.labels == (
        ("label", "bug"),
        ("Memory", "keep"),
        ("permission", "write"),
        ("state", "merged"),
    )


def test_reviews_are_sorted_by_time_and_have_an_address_of_one_word() -> None:
    reviews = (
        make_review("c17", at=at(11), in_reply_to="r199", path="src/client.py", line=40),
        make_review(),
    )
    events = review_events(make_request(reviews=reviews))
    assert [str(event.origin) for event in events] == [
        "pr:128",
        "review:128#r199",
        "review:128#c17",
    ]
    assert [event.seq for event in events] == [0, 1, 2]
    assert events[2].paths == ("src/client.py",)
    assert events[2].labels == (
        ("permission", "write"),
        ("state", "commented"),
        ("reply-to", "r199"),
        ("line", "40"),
    )


def test_a_review_without_text_gives_no_event() -> None:
    assert (
        len(review_events(make_request(reviews=(make_review(body=" \n", state="approved"),)))) == 1
    )


def test_the_resolution_of_a_thread_is_stated_only_if_known() -> None:
    assert ("resolved", "yes") in review_event(is_resolved=True).labels
    assert "resolved" not in dict(review_event().labels)


def test_the_actor_of_a_bots_review_is_bot() -> None:
    events = review_events(make_request(is_bot=True, reviews=(make_review(is_bot=True),)))
    assert [event.actor for event in events] == ["bot", "bot"]


@pytest.mark.parametrize(
    ("is_fork", "permission", "expected"),
    [
        (False, "write", False),
        (False, "read", True),
        (False, "unknown", False),
        (True, "write", False),
        (True, "read", True),
        (True, "unknown", True),
    ],
)
def test_authors_without_write_permission_are_outsiders(
    is_fork: bool, permission: str, expected: bool
) -> None:
    request = make_request(is_fork=is_fork, reviews=(make_review(permission=permission),))
    assert review_events(request)[1].is_outside == expected
    assert (
        review_events(make_request(is_fork=is_fork, permission=permission))[0].is_outside
        == expected
    )


# -- outcomes


def test_a_request_closed_without_a_merge_was_declined() -> None:
    assert outcomes(make_request(state="closed", merged_at=None)) == ["closed-unmerged"]
    assert outcomes(make_request(state="open", merged_at=None)) == []


@pytest.mark.parametrize(
    ("request_fields", "review_fields", "is_made"),
    [
        ({}, {}, True),
        ({"last_commit_at": at(9)}, {}, False),
        ({"last_commit_at": None}, {}, False),
        ({"merged_at": None, "state": "open"}, {}, False),
        ({}, {"state": "commented"}, False),
        ({}, {"state": "dismissed"}, False),
    ],
)
def test_a_requested_change_counts_as_made_if_commits_and_the_merge_follow(
    request_fields: dict[str, Any], review_fields: dict[str, Any], is_made: bool
) -> None:
    review = make_review(**{"state": "changes_requested", **review_fields})
    assert (
        outcomes(make_request(reviews=(review,), **request_fields))
        == ["requested-then-made"] * is_made
    )


@pytest.mark.parametrize(
    ("author", "hour", "is_made"), [("bob", 13, True), ("eve", 13, False), ("bob", 11, False)]
)
def test_an_approval_settles_a_request_only_by_who_made_it_and_after_the_commits(
    author: str, hour: int, is_made: bool
) -> None:
    approval = make_review("r200", author=author, state="approved", body="", at=at(hour))
    reviews = (make_review(state="changes_requested"), approval)
    request = make_request(state="open", merged_at=None, reviews=reviews)
    assert outcomes(request) == ["requested-then-made"] * is_made


def test_a_check_that_failed_and_then_passed_is_one_event_of_a_machine() -> None:
    request = make_request(
        checks=(make_check(2, True, 13), make_check(1, False), make_check(1, True, 14, name="lint"))
    )
    _, event = review_events(request)
    expected_text = (
        "Check 'Unit tests (3.12)' failed on 1111111 and passed on 2222222: test_retry: sent twice"
    )
    assert event.text == expected_text
    assert (event.kind, event.actor, event.severity, event.ok) == (
        "check",
        "system",
        "error",
        False,
    )
    assert ("outcome", "failed-then-passed") in event.labels
    assert str(event.origin) == "pr:128#check-unit-tests-3-12"


@pytest.mark.parametrize(
    ("checks", "pairs"),
    [
        ([make_check(1, False), make_check(1, True, 11)], []),  # the same commit, run again
        ([make_check(1, True), make_check(2, False)], []),
        ([make_check(1, True), make_check(2, True)], []),
        ([make_check(9, False), make_check(1, True, 11)], []),  # a commit of another branch
        ([make_check(1, False), make_check(2, False), make_check(3, True)], [("2", "3")]),
        (
            [make_check(2, True, 9), make_check(1, False, 15)],
            [("1", "2")],
        ),  # the order of commits, not of clocks
        (
            [
                make_check(1, False),
                make_check(1, True, 11),
                make_check(2, False),
                make_check(3, True),
            ],
            [("2", "3")],
        ),
        ([make_check(1, False), make_check(2, True, name="other")], []),
    ],
)
def test_a_check_is_fixed_only_by_a_later_commit(
    checks: list[Check], pairs: list[tuple[str, str]]
) -> None:
    fixed_checks = iter_fixed_checks(make_request(checks=tuple(checks)))
    assert [(failed.sha[0], passed.sha[0]) for failed, passed in fixed_checks] == pairs


CHECKS = st.lists(
    st.builds(
        make_check, st.integers(1, 9), st.booleans(), st.integers(0, 23), st.sampled_from("ab ")
    )
)
REVIEWS = st.lists(
    st.builds(make_review, st.sampled_from(["r1", "c2", "i3"]), body=st.text(), author=st.text())
)


@given(checks=CHECKS, reviews=REVIEWS, title=st.text(), labels=st.lists(st.text()))
def test_events_are_numbered_and_their_addresses_are_single_words(
    checks: list[Check], reviews: list[Review], title: str, labels: list[str]
) -> None:
    request = make_request(
        checks=tuple(checks), reviews=tuple(reviews), title=title, labels=tuple(labels)
    )
    events = review_events(request)
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(len(str(event.origin).split()) == 1 for event in events)
    assert all(failed.sha != passed.sha for failed, passed in iter_fixed_checks(request))
