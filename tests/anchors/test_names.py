"""Tests of finding the entry for an id or the beginning of an id."""

from __future__ import annotations

import pytest

from memory_ci.lifecycle.relations import find_id
from tests.make import make_entry, make_id

FAR = f"0f6f1f0e{make_id(4)[8:]}"
ENTRIES = [
    make_entry(1),
    make_entry(2, supersedes=(make_id(7),)),
    make_entry(3, supersedes=(make_id(1),)),
    make_entry(4, id=FAR),
]


@pytest.mark.parametrize(
    ("written", "expected_id"),
    [
        (make_id(1), make_id(1)),
        (make_id(2)[:8].upper(), make_id(2)),
        (make_id(7)[:8], make_id(2)),
        (make_id(9), None),
        ("0F6F", FAR),
        (make_id(1)[:7], None),
        ("0f6", None),
        ("", None),
    ],
    ids=[
        "whole id",
        "eight characters",
        "superseded id",
        "id of no entry",
        "four characters",
        "beginning of two ids",
        "too short",
        "empty",
    ],
)
def test_an_id_or_its_beginning_finds_one_entry(written: str, expected_id: str | None) -> None:
    assert find_id(ENTRIES, written) == expected_id


def test_a_beginning_of_two_ids_finds_no_entry() -> None:
    assert find_id([make_entry(1), make_entry(1, id=make_id(1)[:-1] + "f")], make_id(1)[:8]) is None
