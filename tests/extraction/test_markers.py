"""Tests of marks in messages: their forms, the extent of their text, and the words that prove them."""

from __future__ import annotations

import pytest

from memory_ci.extraction.markers import (
    MARKERS,
    find_marked_statements,
    find_misspelt,
    find_remember_requests,
)

TEXT = "Use the pool because a new connection costs a second"


@pytest.mark.parametrize(
    "word", ["Learning", "Lesson", "Decision", "Constraint", "Rejected", "Directive"]
)
@pytest.mark.parametrize("form", ["{}: ", "- {}: ", "* **{}:** ", "**{}**: ", "  {}: ", "1. {}: "])
def test_a_marked_line_is_found_in_every_form(word: str, form: str) -> None:
    message = f"feat: pool\n\nSome text.\n{form.format(word)}{TEXT}\n"
    (mark,) = find_marked_statements(message)
    assert (mark.marker, mark.text, mark.quote) == (
        {"Lesson": "learning"}.get(word, word.lower()),
        TEXT,
        TEXT,
    )


@pytest.mark.parametrize("word", ["decision", "learned", "constraint", "rejected"])
def test_contextual_commit_lines_are_found_with_their_scope(word: str) -> None:
    (mark,) = find_marked_statements(f"feat: pool\n\nintent(pool): be fast\n{word}(pool): {TEXT}\n")
    assert (mark.scope, mark.text) == ("pool", TEXT)
    assert mark.marker in MARKERS


@pytest.mark.parametrize(
    "line",
    [
        "intent(pool): be fast",
        "The decision: to wait",
        "Decisions were made",
        "x Learning: y",
        "Learning:",
        "rejected by CI",
    ],
)
def test_text_that_only_looks_like_a_mark_is_ignored(line: str) -> None:
    assert find_marked_statements(f"feat: pool\n\n{line}\n") == []


def test_code_and_quotations_hold_no_marks() -> None:
    assert (
        find_marked_statements(f"feat: x\n\n```\nDecision: {TEXT}\n```\n> Learning: {TEXT}\n") == []
    )


@pytest.mark.parametrize(
    "end",
    [
        "",
        "- another bullet",
        "Learning: another",
        "Co-authored-by: B <b@example.com>",
        "intent(x): y",
        "## Heading",
    ],
)
def test_a_wrapped_mark_ends_at_the_next_structure(end: str) -> None:
    mark = find_marked_statements(
        f"feat: x\n\nDecision: use the pool because\n  a new connection\ncosts a second\n{end}\nand more\n"
    )[0]
    assert mark.text == "use the pool because a new connection costs a second"
    assert mark.quote == "use the pool because\n  a new connection\ncosts a second"


def test_text_on_the_lines_after_a_mark_belongs_to_it() -> None:
    assert [
        mark.text
        for mark in find_marked_statements("feat: x\n\nDecision:\nuse the pool\nalways\n\nmore")
    ] == ["use the pool always"]


@pytest.mark.parametrize(
    "heading", ["## Learnings", "### Lessons learned", "**Learnings**", "Learnings:", "## Gotchas:"]
)
def test_each_bullet_of_a_section_is_one_mark(heading: str) -> None:
    message = f"feat: x\n\n{heading}\n\n- the first one\n  goes on\n- the second one\n\n## Tests\n- all green\n"
    assert [mark.text for mark in find_marked_statements(message)] == [
        "the first one goes on",
        "the second one",
    ]


def test_a_section_ends_at_the_next_squashed_commit() -> None:
    message = "Retries\n\n* fix: one\n\n## Decisions\n\n- use the pool\n\n* fix: two\n\nbody\n"
    assert [mark.text for mark in find_marked_statements(message)] == ["use the pool"]


def test_a_root_cause_includes_its_fix() -> None:
    message = "fix: hang\n\nRoot cause: the lock was\nheld twice.\n\nFix:\n- release it\n- and test it\n\nRefs: 1\n"
    (mark,) = find_marked_statements(message)
    assert (mark.marker, mark.text, mark.fix) == (
        "root cause",
        "the lock was held twice.",
        "- release it\n- and test it",
    )


def test_a_fix_of_another_squashed_commit_is_not_included() -> None:
    message = (
        "Two\n\n* fix: one\n\nRoot cause: the lock was held.\n\n* fix: two\n\nFix: something else\n"
    )
    assert [mark.fix for mark in find_marked_statements(message)] == [""]


def test_a_statement_that_ends_in_a_colon_includes_its_list() -> None:
    (mark,) = find_marked_statements(
        "fix: x\n\nRoot cause: two paths skip it:\n- one\n- two\n\nrest"
    )
    assert mark.text == "two paths skip it:\n- one\n- two"


def test_a_root_cause_may_name_its_effect() -> None:
    assert [
        mark.scope
        for mark in find_marked_statements("fix: x\n\nRoot cause of slow starts: no index on id")
    ] == ["slow starts"]


def test_every_quote_is_in_the_message() -> None:
    message = r"fix: x\n\nLearning: one  is\n  not two\nDecision: go on, because"
    marks = find_marked_statements(message)
    assert [mark.quote in message for mark in marks] == [True, True]


@pytest.mark.parametrize(
    ("line", "is_trailer"),
    [
        ("Decision: use pools", True),
        ("decision(db): use pools", False),
        ("- Decision: use pools", False),
        ("decision: use pools", False),
    ],
)
def test_our_trailers_are_distinguished_from_other_forms(line: str, is_trailer: bool) -> None:
    (mark,) = find_marked_statements(f"feat: x\n\n{line}\n")
    assert mark.is_trailer is is_trailer


def test_a_reviewers_remember_request_is_a_mark_up_to_a_blank_line() -> None:
    comment = "Thanks!\n\n/remember retry only with an idempotency key,\nalso in the batch client\n\nLooks good.\n"
    (mark,) = find_remember_requests(comment)
    assert mark.text == "retry only with an idempotency key, also in the batch client"
    assert mark.quote in comment
    assert (
        find_remember_requests(
            "please /remember this\n> /remember that\n    /remember code\n/remember\n"
        )
        == []
    )


@pytest.mark.parametrize(
    "comment",
    [
        "```\n/remember deploy from a laptop\n```\nNo.",
        "<blockquote>\n\n/remember deploy from a laptop\n\n</blockquote>\nNo.",
        "<BlockQuote>\n<blockquote>a</blockquote>\n/remember deploy from a laptop\n</BlockQuote>\nNo.",
    ],
)
def test_a_fenced_or_quoted_remember_request_is_ignored(comment: str) -> None:
    assert find_remember_requests(comment) == []
    assert find_marked_statements(comment.replace("/remember", "Learning:")) == []


def test_an_unclosed_quotation_hides_no_mark() -> None:
    (mark,) = find_remember_requests(
        "<blockquote> is drawn twice\n/remember close each quotation of a page"
    )
    assert mark.text == "close each quotation of a page"


@pytest.mark.parametrize(
    ("label", "mark"),
    [("Descision", "Decision"), ("Decison", "Decision"), ("Lerning", "Learning")],
)
def test_a_mark_with_a_spelling_mistake_is_found(label: str, mark: str) -> None:
    message = f"fix: retry\n\n{label}: retries live in the client"
    assert find_misspelt(message) == [(label, mark)]


@pytest.mark.parametrize("label", ["Decision", "Precision", "Revision", "Contention", "Warning"])
def test_correct_marks_and_other_words_are_not_spelling_mistakes(label: str) -> None:
    assert find_misspelt(f"fix: retry\n\n{label}: retries live in the client") == []
