"""Tests of reading and formatting trailers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.gitrepo.trailers import find_trailers, format_trailers, split_ids

KEYS = ("Learning", "Decision", "Memory", "Memory-Used", "Memory-Retrieved")

MESSAGES = {
    "in the last paragraph": ("Fix it\n\nMemory: keep\n", [("Memory", "keep")]),
    "in any case, spelt as asked for": (
        "Fix\n\nMEMORY-used: 12\nlearning: x\n",
        [("Memory-Used", "12"), ("Learning", "x")],
    ),
    "of unknown keys not at all": ("Fix\n\nSigned-off-by: Ann\nLearnings: many\n", []),
    "buried by a squash": (
        "Add retry (#3)\n\n* first\n\nLearning: one\n\n* second\n\nLearning: two\n\nCo-authored-by: A <a@b.c>\n",
        [("Learning", "one"), ("Learning", "two")],
    ),
    "indented by merge --squash": (
        "Squashed commit:\n\ncommit 12\n\n    Fix\n    \n    Learning: long\n      text\n    Memory: keep\n",
        [("Learning", "long text"), ("Memory", "keep")],
    ),
    "behind bullets": (
        "Fix\n\n- Learning: a\n  more\n* Decision: b\n+ Memory: skip",
        [("Learning", "a more"), ("Decision", "b"), ("Memory", "skip")],
    ),
    "with continuation lines": (
        "Fix\n\nLearning: never\n retry\n\ta POST\nplain",
        [("Learning", "never retry a POST")],
    ),
    "with the value on the next line": ("Fix\n\nLearning:\n  here\n", [("Learning", "here")]),
    "ended by an empty line": ("Fix\n\nLearning: a\n\n  not of it\n", [("Learning", "a")]),
    "each once": (
        "Fix\n\nLearning: a\nMemory: keep\nlearning: a\n",
        [("Learning", "a"), ("Memory", "keep")],
    ),
    "without a value not at all": ("Fix\n\nLearning:\nMemory: \n", []),
    "in fenced code not at all": (
        "Fix\n\n```text\nLearning: no\n```\nLearning: yes\n",
        [("Learning", "yes")],
    ),
    "in a longer fence not at all": (
        "Fix\n\n~~~~\nLearning: no\n~~~\nLearning: no\n~~~~\nMemory: keep",
        [("Memory", "keep")],
    ),
    "in an unfinished fence not at all": ("Fix\n\n```\nLearning: no\n", []),
    "not continued past a fence": (
        "Fix\n\nLearning: a\n```\ncode\n```\n  b\n",
        [("Learning", "a")],
    ),
    "with a written newline": (
        r"Fix\n\nLearning: a\nMemory: keep\n",
        [("Learning", "a"), ("Memory", "keep")],
    ),
    "with a written newline before another trailer": (
        r"Fix" + "\n\n" + r"Learning: a\r\nSigned-off-by: Ann" + "\n",
        [("Learning", "a")],
    ),
    "that speak of newlines": (
        "Fix\n\n" + r"Learning: join with \n not \r\n here",
        [("Learning", r"join with \n not \r\n here")],
    ),
    "with Windows line ends": (
        "Fix\r\n\r\nLearning: a\r\n b\r\nMemory: keep\r\n",
        [("Learning", "a b"), ("Memory", "keep")],
    ),
    "not in names of code": ("Fix\n\nMemory::Pool is gone\n", []),
    "not in quoted mail": ("Fix\n\n> Learning: no\n", []),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_trailers_are_found(case: str) -> None:
    message, expected = MESSAGES[case]
    assert list(find_trailers(message, KEYS)) == expected


pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.text("abc.-é1", min_size=1)), unique=True).map(
    tuple
)


@given(pairs)
def test_a_formatted_trailer_is_read_back(pairs: tuple[tuple[str, str], ...]) -> None:
    assert find_trailers(f"Subject\n\n{format_trailers(pairs)}\n", KEYS) == pairs


@given(st.text())
def test_any_message_is_read_without_an_error(message: str) -> None:
    for key, value in find_trailers(message, KEYS):
        assert key in KEYS
        assert value


def test_a_value_of_several_lines_is_folded_into_one() -> None:
    assert (
        format_trailers([("Learning", "never\nretry\n\na POST")]) == "Learning: never retry a POST"
    )


def test_ids_are_split_at_commas_and_spaces_and_are_unique() -> None:
    assert split_ids("a, b  c,,a") == ("a", "b", "c")
    assert split_ids(" ") == ()
