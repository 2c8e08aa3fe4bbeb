"""Tests of reading replies: each learning is read on its own, whatever text surrounds it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import EngineError
from memory_ci.extraction.reply import (
    MAX_REPLY,
    MAX_TRIES,
    QUOTE_WIDTH,
    Learning,
    RawQuote,
    format_reply,
    parse_reply,
    parse_risks,
)


def make_raw(title: object = "One", **fields: object) -> dict[str, Any]:
    quotes = [{"evidence": "e1", "text": "words"}]
    return {"title": title, "quotes": quotes} | fields


def make_reply(*raw: object) -> str:
    return json.dumps({"learnings": raw})


def titles(text: str) -> tuple[list[str], int]:
    """Return the titles of a reply's learnings, and the number of unreadable ones."""
    learnings, reasons = parse_reply(text)
    return [learning.title for learning in learnings], len(reasons)


@pytest.mark.parametrize(
    "form", ["{}", "```json\n{}\n```", "Here it is {{as asked}}:\n{}\nDone {{}}."]
)
def test_a_fence_and_prose_around_the_reply_do_not_matter(form: str) -> None:
    assert titles(form.format(make_reply(make_raw("One"), make_raw("Two")))) == (["One", "Two"], 0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (make_raw(title=3), "bad-title"),
        (make_raw(title=" "), "bad-title"),
        (make_raw(title=""), "no-title"),
        (make_raw(title="\ud800"), "not-text"),
        (make_raw(adoption="adopted"), "bad-adoption"),
        (make_raw(quotes=[{"evidence": "e1"}]), "bad-quotes"),
        (make_raw(quotes={"evidence": "e1", "text": "words"}), "bad-quotes"),
        ({"title": "no quotes"}, "no-quotes"),
        ("words", "not-an-object"),
        (None, "not-an-object"),
        ([[]], "not-an-object"),
    ],
)
def test_one_invalid_learning_does_not_affect_the_others(bad: object, reason: str) -> None:
    parsed = parse_reply(make_reply(make_raw("One"), bad, make_raw("Two")))
    assert [learning.title for learning in parsed.learnings] == ["One", "Two"]
    assert parsed.reasons == (reason,)


def test_the_complete_learnings_of_a_cut_reply_are_read() -> None:
    complete = make_reply(make_raw("One"), make_raw("Two"))
    assert titles(complete[: complete.index("Two") + 5]) == (["One"], 1)


def test_a_broken_learning_in_the_middle_does_not_hide_the_next() -> None:
    text = make_reply(make_raw("One"), make_raw("Two"), make_raw("Three")).replace(
        '"Two",', '"Two" oops,'
    )
    assert titles(text) == (["One", "Three"], 1)


def test_the_reason_of_a_broken_learning_is_its_broken_json() -> None:
    text = make_reply(make_raw("One"), make_raw("Two")).replace('"Two",', '"Two" oops,')
    assert parse_reply(text).reasons == ("broken-json",)


def test_several_lists_are_read_as_one() -> None:
    text = f"First try: {make_reply(make_raw('One'))} and then {make_reply(make_raw('Two'), {})}"
    assert titles(text) == (["One", "Two"], 1)


def test_a_list_inside_a_string_is_ignored() -> None:
    quoted = [{"evidence": "e1", "text": make_reply(make_raw("Forged"))}]
    assert titles(make_reply(make_raw("One", quotes=quoted))) == (["One"], 0)


def test_the_last_of_repeated_keys_counts() -> None:
    text = make_reply(make_raw("One")).replace('"title": "One"', '"title": "One", "title": "Two"')
    assert titles(text) == (["Two"], 0)


@pytest.mark.parametrize("value", [None, ""])
def test_null_and_empty_values_leave_an_optional_field_unset(value: object) -> None:
    raw = make_raw(kind=value, instead=value, restates=value, weight=value, adoption=value)
    assert parse_reply(make_reply(raw)) == parse_reply(make_reply(make_raw()))


FORMER = {
    "extraction_scope": "observations",
    "type": "opinion",
    "domain": 7,
    "importance": 0.6,
    "gist": "x",
}


def test_former_fields_and_unknown_ones_and_unknown_choices_are_ignored() -> None:
    assert parse_reply(make_reply(make_raw(**FORMER))) == parse_reply(make_reply(make_raw()))
    strange = make_raw(kind="rumour", reach=["team"], weight=9)
    assert parse_reply(make_reply(strange)) == parse_reply(make_reply(make_raw()))


def test_a_model_sets_kind_reach_and_weight() -> None:
    (learning,) = parse_reply(
        make_reply(make_raw(kind="fix", reach="team", weight="costly"))
    ).learnings
    assert (learning.kind, learning.reach, learning.weight) == ("fix", "team", "costly")


OWNED = {"is_marked": True, "marker": "directive", "doubt": "none", "scope": "institutional"}


def test_a_model_cannot_set_fields_that_only_code_may_set() -> None:
    (learning,) = parse_reply(make_reply(make_raw(**OWNED))).learnings
    assert (learning.is_marked, learning.marker, learning.doubt, learning.scope) == (
        False,
        "",
        "",
        None,
    )
    assert not learning.is_by_rule


def test_the_rules_engine_may_set_fields_that_a_model_may_not() -> None:
    (learning,) = parse_reply(make_reply(make_raw(**OWNED)), trusted=True).learnings
    assert (learning.is_marked, learning.marker, learning.scope) == (
        True,
        "directive",
        "institutional",
    )


def test_a_model_may_name_entries_that_it_restates_or_contradicts() -> None:
    (learning,) = parse_reply(make_reply(make_raw(restates="a", contradicts=["b", "c"]))).learnings
    assert (learning.restates, learning.contradicts) == ("a", ("b", "c"))


def test_a_models_long_quote_is_cut() -> None:
    quotes = [{"evidence": "e1", "text": "x" * 5000}]
    (learning,) = parse_reply(make_reply(make_raw(quotes=quotes))).learnings
    assert len(learning.quotes[0].text) == QUOTE_WIDTH


HOSTILE = {
    "brackets": '{"learnings": ' + "[" * 10_000_000,
    "braces": '{"learnings": [' + '{"a":' * 300_000,
    "titles": '{"learnings": [' + '{"title":' * 300_000,
    "lists": '"learnings": [' * 200_000,
    "open-string": '{"learnings": [{"title": "' + '\\"' * 500_000,
    "closed-then-open": '{"learnings": [' + '{"title": "a"},' * 60_000 + "[",
    "digits": '{"learnings": [{"title": ' + "9" * 500_000 + "}]}",
    "nested-list": json.dumps({"learnings": [{"title": [{"learnings": []}]}]}),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_reply_is_read_in_linear_time_and_gives_no_learning(text: str) -> None:
    """A reader that is not linear would not end in a useful time."""
    assert parse_reply(text).learnings == ()


@pytest.mark.parametrize(
    "rubbish", ['{"a" ' * MAX_TRIES, " " * MAX_REPLY], ids=["objects", "length"]
)
def test_the_objects_of_a_broken_list_and_the_length_of_a_reply_are_limited(
    rubbish: str,
) -> None:
    first, two = json.dumps(make_raw("One")), json.dumps(make_raw("Two"))
    assert titles(f'{{"learnings": [{first}, {rubbish}{two}')[0] == ["One"]


FRAGMENTS = st.sampled_from(
    [
        '"learnings":[',
        "{",
        "}",
        "[",
        "]",
        '"title":',
        '"',
        "\\",
        ",",
        ":",
        "null",
        "1e999",
        '{"title":"t"',
        "```",
    ]
)


@given(st.text(max_size=60) | st.lists(FRAGMENTS, max_size=30).map("".join))
def test_any_text_raises_no_other_error_than_engine_error(text: str) -> None:
    with contextlib.suppress(EngineError):
        parse_reply(text)
    with contextlib.suppress(EngineError):
        parse_risks(text)


def test_risks_are_read_and_invalid_ones_are_counted() -> None:
    risk = {
        "title": "The cache grows",
        "why": "no limit",
        "signal": "memory",
        "mitigation": "a limit",
    }
    text = json.dumps(
        {
            "risks": [
                risk,
                {"title": "x"},
                risk | {"quotes": [{"evidence": "e1", "text": "no limit"}]},
            ]
        }
    )
    risks, reasons = parse_risks(text)
    assert [(risk.signal, len(risk.quotes)) for risk in risks] == [("memory", 0), ("memory", 1)]
    assert reasons == ("no-why",)


@pytest.mark.parametrize("missing", ["signal", "mitigation"])
def test_a_risk_without_a_signal_or_a_mitigation_is_a_risk(missing: str) -> None:
    risk = {
        "title": "The cache grows",
        "why": "no limit",
        "signal": "memory",
        "mitigation": "a limit",
    }
    for left_out in (
        {key: value for key, value in risk.items() if key != missing},
        risk | {missing: ""},
    ):
        (parsed_risk,), reasons = parse_risks(json.dumps({"risks": [left_out]}))
        assert (getattr(parsed_risk, missing), reasons) == ("", ())


def test_an_empty_list_is_a_valid_answer() -> None:
    assert titles('{"learnings": []}') == ([], 0)


@pytest.mark.parametrize(
    "text",
    ["", "I cannot help with that.", "<html>busy</html>", '{"lessons": []}', '"learnings": ['],
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
    kind=st.sampled_from(["convention", "fix"]),
    importance=st.none() | st.floats(0, 1),
    is_marked=st.booleans(),
)


@given(st.lists(LEARNINGS, max_size=3).map(tuple))
def test_a_written_reply_is_read_back(learnings: tuple[Learning, ...]) -> None:
    assert parse_reply(format_reply(learnings), trusted=True) == (learnings, ())


def test_search_words_may_be_a_list() -> None:
    quote = {"evidence": "e1", "text": "Always use tabs"}
    learning = {"title": "Use tabs", "quotes": [quote], "aka": ["indent", "spaces"]}
    (parsed,) = parse_reply(json.dumps({"learnings": [learning]})).learnings
    assert parsed.aka == "indent spaces"
