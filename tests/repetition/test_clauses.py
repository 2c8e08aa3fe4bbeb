"""Tests of splitting typed text into clauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.repetition.clauses import MAX_BLOCK, MAX_CHARS, MAX_TURN, list_clauses, read_clause
from tests.make import examples

RULE = "Please open a draft pull request first."
LOG = """2026-09-01 12:00:01 INFO please open the queue
2026-09-01 12:00:02 INFO please close the queue
2026-09-01 12:00:03 WARN please retry the queue
Please stop all workers before the next run.
2026-09-01 12:00:04 INFO bye"""
PLAN = "\n".join(
    f"{number}. Add the {name} to the client, with its tests, its page, and a line of the changelog for the people who use it."
    for number, name in enumerate(("queue", "cache", "index", "clock", "table", "reader"), start=1)
)
HOSTILE = (
    *("(", "a(", "a@", "@a-", "a-", "a_", "A.", "a/", "- ", "-", " ", "\t", "\n", "\n ", ";", "; "),
    *(", and ", " then ", "please ", "no ", "if a, ", "when abc,", "can you ", "\u2014 ", "```\n"),
    *("> a\n", "1. ", '"', "{ ", "\u2028", "\u4e00", "<blockquote>\n", "</blockquote>\n", "a \n"),
)


def find_clauses(typed: str) -> list[str]:
    return [clause.text for clause in list_clauses(typed)]


def test_sentences_and_parts_after_then_are_clauses() -> None:
    typed = "Looks good. Please pull first, then fix it; and push to main - ask before you merge"
    assert find_clauses(typed) == [
        "Looks good",
        "Please pull first",
        "fix it",
        "and push to main",
        "ask before you merge",
    ]


@pytest.mark.parametrize(
    "pasted",
    [
        f"```\n{RULE}\n```",
        f"~~~ text\n{RULE}\n~~~",
        f"> {RULE}",
        f"<blockquote>\n{RULE}\n</blockquote>",
        f"$ {RULE}",
        f"error: {RULE}",
        f"2026-09-01 {RULE}",
        f"ada@shop:~ {RULE}",
        f"| {RULE} |",
        f"    at {RULE.split()[0]} (client.js:3)",
        LOG,
        PLAN,
        f"{'The gateway books a charge when it is called and answers late. ' * 20}{RULE}",
        f"Please {'a ' * MAX_CHARS}",
        " " * MAX_TURN + RULE,
    ],
    ids=[
        *("a fence", "a tilde fence", "a quotation", "a quotation in HTML", "a prompt of a shell"),
        *("an error", "a dated line", "a host", "a table", "a stack", "a log", "a plan"),
        *("a long paragraph", "a long sentence", "beyond the limit"),
    ],
)
def test_pasted_text_has_no_clauses(pasted: str) -> None:
    assert find_clauses(pasted) == []


def test_typed_text_around_a_paste_has_clauses() -> None:
    typed = f"{RULE}\n\n{LOG}\n\n```\nPlease remove all\n```\n> Please quote it"
    assert find_clauses(typed) == [RULE.rstrip(".")]


def test_a_short_list_counts_as_typed() -> None:
    assert find_clauses("- pull first\n- open a draft PR") == ["pull first", "open a draft PR"]


@pytest.mark.parametrize(
    "order",
    [
        "push and open a draft PR",
        "Please pull first",
        "can you run the linter?",
        "ok, now let's rebase on main",
        "don't push to main",
        "never amend a commit",
        "rebase on main",
        "re-check the links",
        "rerun the tests",
        "I want you to ask before you start",
        "when you are done, update the changelog",
        "@claude run the tests first",
    ],
)
def test_a_clause_that_starts_with_a_verb_is_an_order(order: str) -> None:
    assert read_clause(order).is_order


@pytest.mark.parametrize(
    "words", ["is the build green?", "the build is green", "which one runs?", "looks good to me"]
)
def test_a_question_or_a_statement_is_not_an_order(words: str) -> None:
    assert not read_clause(words).is_order


@pytest.mark.parametrize(
    "complaint",
    [
        "why didn't you run the tests",
        "you forgot the changelog",
        "you should have asked first",
        "no, I asked for a draft",
        "did you update the docs?",
        "we never push to main",
    ],
)
def test_a_clause_about_what_the_agent_should_have_done_is_a_complaint(complaint: str) -> None:
    assert read_clause(complaint).is_complaint


@pytest.mark.parametrize(
    ("words", "is_lasting"),
    [
        ("from now on ask before you start", True),
        ("I told you to pull first", True),
        ("pull first again", True),
        ("pull first", False),
    ],
)
def test_lasting_words_are_recognised(words: str, is_lasting: bool) -> None:
    assert read_clause(words).is_lasting is is_lasting


def test_a_negation_is_not_a_term() -> None:
    clause = read_clause("don't push to main without a review")
    assert clause.is_negated
    assert clause.terms == {"push", "main", "review"}


def test_a_document_or_a_tool_is_one_term_whatever_its_folder() -> None:
    named = [
        read_clause(f"follow {name} please").terms for name in ("@docs/AGENTS.md", "AGENTS.md")
    ]
    assert named == [{"follow", "@agents"}] * 2


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("fix the test in line 120", 1),
        ("fix SHOP-12 in client.py", 2),
        ("rename getUser to fetch_user", 2),
        ('say "charged once" there', 1),
        ("run the tests first", 0),
    ],
)
def test_names_of_the_current_work_are_counted(words: str, count: int) -> None:
    assert read_clause(words).specifics == count


@given(st.text(max_size=400))
@examples(300)
def test_any_text_has_clauses_of_at_most_the_limit(typed: str) -> None:
    assert all(0 < len(clause.text) <= MAX_CHARS for clause in list_clauses(typed))


@given(st.lists(st.sampled_from([*HOSTILE, "push", "first", RULE]), max_size=60))
@examples(200)
def test_any_mixture_of_signs_and_orders_is_read_without_an_error(parts: list[str]) -> None:
    assert isinstance(list_clauses("".join(parts)), list)


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("size", [MAX_TURN, MAX_BLOCK])
def test_repeated_signs_are_read_in_linear_time(unit: str, size: int) -> None:
    """A reader that looks back over all earlier signs would not end."""
    block = (unit * size)[: size - 2]
    typed = "\n\n".join([block] * (MAX_TURN // size))
    list_clauses(typed)
    list_clauses(f"{typed}!")


def test_a_turn_of_20_mb_is_read_up_to_its_limit() -> None:
    list_clauses("push it (" * (20_000_000 // 9))
