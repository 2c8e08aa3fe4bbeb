"""Replies are read one learning at a time, whatever stands around them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import EngineError
from memory_ci.extraction.reply import Learning, RawQuote, format_reply, parse_reply


def make_raw(title: object = "One", **fields: object) -> dict[str, Any]:
    quotes = [{"evidence": "e1", "text": "words"}]
    return {"title": title, "quotes": quotes, "extraction_scope": "project"} | fields


def make_reply(*raw: object) -> str:
    return json.dumps({"learnings": raw})


def titles(text: str) -> tuple[list[str], int]:
    learnings, dropped = parse_reply(text)
    return [learning.title for learning in learnings], dropped


@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "Here it is {{as asked}}:\n{}\nDone {{}}."])
def test_a_fence_and_prose_around_the_reply_do_not_matter(form: str) -> None:
    assert titles(form.format(make_reply(make_raw("One"), make_raw("Two")))) == (["One", "Two"], 0)


@pytest.mark.parametrize(
    "bad",
    [
        make_raw(title=3),
        make_raw(title=" "),
        make_raw(type="opinion"),
        make_raw(importance=1.5),
        make_raw(extraction_scope="gossip"),
        {"title": "no quotes"},
        "words",
        None,
    ],
)
def test_one_bad_learning_costs_only_itself(bad: object) -> None:
    assert titles(make_reply(make_raw("One"), bad, make_raw("Two"))) == (["One", "Two"], 1)


def test_a_reply_that_was_cut_short_keeps_what_is_whole() -> None:
    whole = make_reply(make_raw("One"), make_raw("Two"))
    assert titles(whole[: whole.index("Two") + 5]) == (["One"], 1)


def test_a_broken_learning_in_the_middle_does_not_hide_the_next() -> None:
    text = make_reply(make_raw("One"), make_raw("Two"), make_raw("Three")).replace('"Two",', '"Two" oops,')
    assert titles(text) == (["One", "Three"], 1)


def test_none_is_a_normal_answer() -> None:
    assert titles('{"learnings": []}') == ([], 0)


@pytest.mark.parametrize(
    "text", ["", "I cannot help with that.", "<html>busy</html>", '{"lessons": []}', '"learnings": [']
)
def test_a_reply_without_a_list_is_a_failure_or_empty_but_never_a_crash(text: str) -> None:
    if '"learnings"' in text:
        assert titles(text) == ([], 0)
        return
    with pytest.raises(EngineError) as caught:
        parse_reply(text)
    assert caught.value.slug == "unreadable-reply"
    assert caught.value.hint


QUOTES = st.tuples(st.builds(RawQuote, st.just("e1"), st.text(max_size=9)))
LEARNINGS = st.builds(
    Learning,
    title=st.text(min_size=1, max_size=20).filter(str.strip),
    body=st.text(max_size=20),
    quotes=QUOTES,
    extraction_scope=st.sampled_from(["project", "corrective"]),
    importance=st.none() | st.floats(0, 1),
    is_marked=st.booleans(),
)


@given(st.lists(LEARNINGS, max_size=3).map(tuple))
def test_a_reply_is_read_as_it_was_written(learnings: tuple[Learning, ...]) -> None:
    assert parse_reply(format_reply(learnings)) == (learnings, 0)
