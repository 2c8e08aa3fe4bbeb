"""Tests of the lines of a message that are searched, and of the subject of each."""

from __future__ import annotations

from memory_ci.extraction.markers import list_message_lines


def texts(message: str) -> list[str]:
    return [line.text for line in list_message_lines(message) if line.text]


def test_fenced_code_and_quoted_text_are_not_searched() -> None:
    message = "fix: x\n\n```\nDecision: in code\n```\n~~~\n```\nDecision: in another\n~~~\n> Decision: quoted\nafter"
    assert texts(message) == ["fix: x", "after"]


def test_a_fence_is_closed_by_the_same_sign_with_the_same_length() -> None:
    message = "fix: x\n\n````\n```\nDecision: in code\n````\nsaid\n- ~~~\n  Decision: in a list\n  ~~~\nafter"
    assert texts(message) == ["fix: x", "said", "after"]


def test_a_squash_message_gives_each_line_its_own_subject() -> None:
    lines = list_message_lines(
        "Retries (#7)\n\n* fix: one\n\nbody one\n\n* test: two\n\nbody two\n* a bullet\n"
    )
    assert {line.text: line.subject for line in lines if line.text.startswith("body")} == {
        "body one": "fix: one",
        "body two": "test: two",
    }
    assert lines[-1].subject == "test: two"


def test_a_log_that_git_squashed_is_read_without_its_indent() -> None:
    message = "Squashed commit of the following:\n\ncommit abc\nAuthor: Ada\n\n    fix: one\n\n    Decision: two"
    assert texts(message)[-2:] == ["fix: one", "Decision: two"]


def test_escaped_line_breaks_of_an_agent_are_line_breaks() -> None:
    assert texts(r"fix: x\n\nLearning: one\nDecision: two") == [
        "fix: x",
        "Learning: one",
        "Decision: two",
    ]


def test_an_escaped_line_break_in_a_sentence_is_not_a_line_break() -> None:
    assert texts(r"fix: count \n at the end of a file") == [r"fix: count \n at the end of a file"]
