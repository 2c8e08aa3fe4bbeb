"""Tests of the outcomes of changes: fixed, reverted or successful, as later changes say."""

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


def make_revert(*names: str, restores: tuple[str, ...] = (), label: str = "#9") -> Revert:
    """Return a revert that undoes changes."""
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
def test_a_fix_of_another_change_is_recognised_by_its_words(message: str) -> None:
    assert [
        number for number, _ in find_fixups([make_change(make_commit(message), number=130)])
    ] == [128]


@pytest.mark.parametrize(
    "message", ["fixes #128", "see #128", "Merge pull request #128 from a/b", "follow the money"]
)
def test_a_mention_of_a_change_is_not_a_fix(message: str) -> None:
    assert list(find_fixups([make_change(make_commit(message), number=130)])) == []


def test_a_change_does_not_fix_itself() -> None:
    assert list(find_fixups([make_change(make_commit("follow-up to #128"), number=128)])) == []


@pytest.mark.parametrize("name", ["b" * 12, "pr:128"])
def test_a_change_whose_tip_or_request_is_reverted_failed(name: str) -> None:
    assert judge_outcome((A, B), 128, "#130", label_reverted_work([make_revert(name)])) == (
        "failure",
        "reverted in #9",
    )


def test_a_revert_of_one_commit_of_several_is_not_a_failure() -> None:
    assert judge_outcome((A, B), 128, "", label_reverted_work([make_revert("a" * 12)])) == (
        "success",
        "",
    )


def test_a_restored_change_did_not_fail() -> None:
    restoring = make_revert("f" * 12, restores=("pr:128",), label="#10")
    assert judge_outcome(
        (A,), 128, "", label_reverted_work([make_revert("pr:128"), restoring])
    ) == (
        "success",
        "",
    )
    assert judge_outcome((A,), 128, "#130", label_reverted_work([])) == (
        "partial",
        "fixed up in #130",
    )


def test_a_change_without_a_number_is_not_confused_with_others_without_one() -> None:
    assert judge_outcome((A,), None, "", label_reverted_work([make_revert("pr:128")])) == (
        "success",
        "",
    )


def test_a_change_with_only_reverts_is_a_revert() -> None:
    assert is_revert([A], {"a" * 12})
    assert not is_revert([A, B], {"a" * 12})
    assert not is_revert([], {"a" * 12})
