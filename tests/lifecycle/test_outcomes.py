"""Outcomes: what became of a change, as later ones say."""

from __future__ import annotations

import pytest

from memory_ci.lifecycle.reverts import (
    Revert,
    find_fixups,
    is_revert,
    judge_outcome,
    label_reverted_work,
)
from tests.make import make_change, make_commit

A, B = "a" * 40, "b" * 40


def undoing(*names: str, restores: tuple[str, ...] = (), label: str = "#9") -> Revert:
    return Revert("f" * 12, label, frozenset(names), frozenset(restores))


@pytest.mark.parametrize(
    "message",
    [
        "fixes up #128",
        "Fix-up for #128: the header",
        "follow-up to #128",
        "Followup of PR #128",
        "Mend the retry\n\nRegression introduced by #128.",
        "broken in pull request #128",
        "amends !128",
    ],
)
def test_a_change_that_mends_another_is_known_by_its_words(message: str) -> None:
    assert [
        number for number, _ in find_fixups([make_change(make_commit(message), number=130)])
    ] == [128]


@pytest.mark.parametrize(
    "message", ["fixes #128", "see #128", "Merge pull request #128 from a/b", "follow the money"]
)
def test_a_mention_is_no_mending(message: str) -> None:
    assert list(find_fixups([make_change(make_commit(message), number=130)])) == []


def test_a_change_does_not_mend_itself() -> None:
    assert list(find_fixups([make_change(make_commit("follow-up to #128"), number=128)])) == []


@pytest.mark.parametrize("name", ["b" * 12, "pr:128"])
def test_a_change_whose_tip_or_request_is_reverted_failed(name: str) -> None:
    assert judge_outcome((A, B), 128, "#130", label_reverted_work([undoing(name)])) == (
        "failure",
        "reverted in #9",
    )


def test_one_commit_of_several_taken_back_is_no_failure() -> None:
    assert judge_outcome((A, B), 128, "", label_reverted_work([undoing("a" * 12)])) == (
        "success",
        "",
    )


def test_what_was_brought_back_did_not_fail() -> None:
    again = undoing("f" * 12, restores=("pr:128",), label="#10")
    assert judge_outcome((A,), 128, "", label_reverted_work([undoing("pr:128"), again])) == (
        "success",
        "",
    )
    assert judge_outcome((A,), 128, "#130", label_reverted_work([])) == (
        "partial",
        "fixed up in #130",
    )


def test_a_change_without_a_number_is_not_confused_with_others_without_one() -> None:
    assert judge_outcome((A,), None, "", label_reverted_work([undoing("pr:128")])) == (
        "success",
        "",
    )


def test_a_change_that_only_takes_back_is_a_revert() -> None:
    assert is_revert([A], {"a" * 12})
    assert not is_revert([A, B], {"a" * 12})
    assert not is_revert([], {"a" * 12})
