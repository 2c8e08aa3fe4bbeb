"""Tests of wording: titles that are clear alone, and bodies with the remaining text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.extraction.gate import BODY_WIDTH, MARKED_TITLE_WIDTH, TITLE_WIDTH
from memory_ci.extraction.weakness import find_weakness
from memory_ci.extraction.wording import (
    compose_wording,
    cut,
    cut_at_sentence,
    make_title,
)
from tests.extraction.make import make_mark


def test_a_short_statement_becomes_a_title_without_a_body() -> None:
    assert compose_wording(make_mark("never retry a POST without a key.")) == (
        "Never retry a POST without a key",
        "",
    )


def test_the_scope_is_the_subject_unless_the_text_names_it() -> None:
    assert (
        compose_wording(make_mark("the slow part was the lookup", scope="where"))[0]
        == "where: the slow part was the lookup"
    )
    assert (
        compose_wording(make_mark("treat where like context", scope="where"))[0]
        == "Treat where like context"
    )


@pytest.mark.parametrize(
    "text", ["sanitizeDBName is shared", "bootstrap.go exits early", "`x` is slow", "a/b.py is old"]
)
def test_an_identifier_keeps_its_case(text: str) -> None:
    assert compose_wording(make_mark(text))[0].lower() == text.lower()
    assert compose_wording(make_mark(text))[0].split(" ")[0][1:] == text.split(" ")[0][1:]
    assert compose_wording(make_mark("bootstrap.go exits early"))[0] == "bootstrap.go exits early"


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        (
            "live lookup because it is slow",
            "prefix: live lookup",
            "Because it is slow",
        ),
        ("a live lookup | it is slow", "prefix: a live lookup", "It is slow"),
        ("a live lookup, since `x | y` is slow", "prefix: a live lookup", None),
    ],
)
def test_the_title_of_a_rejection_names_only_the_rejected_option(
    text: str, title: str, body: str | None
) -> None:
    title_and_body = compose_wording(make_mark(text, marker="rejected", scope="prefix"))
    assert title_and_body == (title, title_and_body[1] if body is None else body)


@pytest.mark.parametrize(
    ("subject", "fix", "title"),
    [
        ("fix: uv tree fails on bare projects", "", "Prevent: uv tree fails on bare projects"),
        ("fix: Workspace members with conflicts have empty export output", "", None),
        ("fix: uv tree fails on bare projects", "Read the group alone.", "Read the group alone"),
        ("fix: commit each batch when the table is large", "Split it.", "Commit each batch when the table is large"),
        ("fix: let the workers that have no lease wait", "", "Let the workers that have no lease wait"),
        ("Prevent SessionStart hook errors on launch", "Check it.", "Prevent SessionStart hook errors on launch"),
    ],
)  # fmt: skip
def test_a_title_does_not_state_a_fixed_fault_as_a_fact(
    subject: str, fix: str, title: str | None
) -> None:
    actual_title, _ = compose_wording(
        make_mark("the group was never read", "root cause", subject=subject, fix=fix)
    )
    assert actual_title == (
        title or "Prevent: workspace members with conflicts have empty export output"
    )


def test_the_title_is_the_first_sentence_and_the_body_the_others() -> None:
    title, body = compose_wording(
        make_mark("Pools leak. They do so when a worker dies, since nobody closes them.")
    )
    assert title == "Pools leak"
    assert body == "They do so when a worker dies, since nobody closes them."


def test_a_long_sentence_is_cut_before_its_reason() -> None:
    text = (
        "Load the parents through the hierarchy reader and sort them by id so that "
        + "the snapshots stay the same " * 8
    )
    assert make_title(text) == "Load the parents through the hierarchy reader and sort them by id"


def test_a_sentence_that_fits_is_the_title_and_needs_no_body() -> None:
    text = (
        "Load the parents through the reader and sort them "
        + "by id and by name " * 5
        + "so that it works."
    )
    assert TITLE_WIDTH // 2 < len(text) <= TITLE_WIDTH
    assert compose_wording(make_mark(text)) == (text.rstrip("."), "")


def test_a_long_sentence_without_a_clause_stays_whole() -> None:
    text = "Never " + "compare the days of a commit with the days of the " * 6 + "file"
    assert TITLE_WIDTH < len(text) < MARKED_TITLE_WIDTH
    assert make_title(text) == text
    assert find_weakness(make_mark(text)) is None


def test_a_sentence_longer_than_any_title_is_only_proposed_and_is_not_cut_with_dots() -> None:
    text = "Never " + "compare the dates of the commit with the dates of the " * 9 + "file"
    assert find_weakness(make_mark(text)) == "its first sentence is too long for a title"
    title = make_title(text)
    assert len(title) <= MARKED_TITLE_WIDTH
    assert not title.endswith(".")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (": never retry a POST", "Never retry a POST"),
        ("- \u2192 never retry a POST", "Never retry a POST"),
        ("... never retry a POST", "Never retry a POST"),
        (".gitignore is read first", ".gitignore is read first"),
        ("--all is slow for users", "--all is slow for users"),
        ("run `make lint before the push", "Run make lint before the push"),
        ("run it as follows: ```sh make", "Run it as follows"),
        ("Corrected the takeaway about pools. A pool must be closed.", "A pool must be closed"),
        ("call `f(x; y)` twice", "Call `f(x; y)` twice"),
    ],
)
def test_a_title_starts_and_ends_with_whole_words_and_whole_code(text: str, title: str) -> None:
    title_and_body = compose_wording(make_mark(text))
    assert title_and_body[0] == title
    assert title not in title_and_body[1]


def test_a_body_ends_before_a_code_block_that_would_be_cut() -> None:
    _, body = compose_wording(make_mark("Pools leak. Do this:\n```\n" + "x = 1\n" * 200 + "```"))
    assert body == "Do this:"


def test_a_root_cause_contains_cause_and_fix() -> None:
    mark = make_mark(
        "the lock was held twice.", "root cause", subject="fix(db): hang on close (GH#12) (#13)"
    )
    assert compose_wording(mark) == (
        "The lock was held twice",
        "Fix: Hang on close",
    )
    assert compose_wording(mark._replace(fix="- release it"))[1].endswith("Fix:\n- release it")


def test_the_subject_of_a_fix_is_the_title_if_it_is_specific() -> None:
    mark = make_mark(
        "one transaction wrapped all batches",
        "root cause",
        subject="fix: commit per batch to avoid a timeout",
    )
    assert compose_wording(mark)[0] == "Commit per batch to avoid a timeout"


def test_accents_are_composed_and_compatibility_forms_are_kept() -> None:
    assert (
        compose_wording(make_mark("wait for\u00a0the cafe\u0301 \u2026 CO\u2082"))[0]
        == "Wait for the caf\u00e9 \u2026 CO\u2082"
    )


@given(st.text(min_size=1), st.integers(min_value=4, max_value=60))
def test_a_cut_text_is_a_beginning_that_fits(text: str, width: int) -> None:
    for short in (cut(text, width), cut_at_sentence(text, width)):
        assert len(short) <= width
        assert text.startswith(short)


@given(st.text(alphabet="abc .,;:\n-\u00e9", min_size=1, max_size=900))
def test_any_statement_keeps_the_limits(text: str) -> None:
    title, body = compose_wording(make_mark(text, fix=text, marker="root cause"))
    assert len(title) <= MARKED_TITLE_WIDTH
    assert len(body) <= BODY_WIDTH
