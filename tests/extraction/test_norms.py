"""Tests of finding unmarked sentences about how work is done."""

from __future__ import annotations

import pytest

from memory_ci.extraction.norms import (
    BARE_ORDER_WEIGHT,
    LASTING_RULE_WEIGHT,
    PROCESS_RULE_WEIGHT,
    REASONED_RULE_WEIGHT,
    is_coding_rule,
    is_conduct_request,
    strip_wish_prefix,
    strip_write_down_request,
    weigh_rule,
)


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        (
            "From now on never push to the release branch before the tests have run",
            LASTING_RULE_WEIGHT,
        ),
        ("Can you add to AGENTS.md that we should always run the formatter?", LASTING_RULE_WEIGHT),
        ("Create a rule that a bug must first have a failing test", LASTING_RULE_WEIGHT),
        ("You should not edit files in the main checkout", PROCESS_RULE_WEIGHT),
        ("Always use short titles for commits", PROCESS_RULE_WEIGHT),
        ("The changelog must be written in the present tense", PROCESS_RULE_WEIGHT),
        ("Please don't rebase shared branches - it breaks the review", PROCESS_RULE_WEIGHT),
        ("use httpx instead of requests", PROCESS_RULE_WEIGHT),
        ("The pool must be closed last because its threads hold the lock", REASONED_RULE_WEIGHT),
        ("Do not draw the border of an empty cell", 0),
        ("Never log the card number", PROCESS_RULE_WEIGHT),
        ("don't forget to pull before you start a branch", LASTING_RULE_WEIGHT),
    ],
)
def test_an_order_or_norm_about_how_work_is_done_has_a_weight(text: str, weight: float) -> None:
    assert weigh_rule(text, is_spoken=True) == weight


@pytest.mark.parametrize(
    "text",
    [
        "The list is always sorted by date, so tests must not rely on it",
        "It must always be called before the tests",
        "You must always do this",
        "Maybe we should always commit the lock file",
        "I have not staged any files because I don't know what to keep",
        "Why do we only sometimes write the tests first?",
        "Never commit this file again",
        "Updated the tests so that they never sleep",
        "TypeError: you must not read properties of undefined files",
        "The writer always creates files with the test suffix",
    ],
)
def test_a_sentence_about_the_current_work_has_no_weight(text: str) -> None:
    assert weigh_rule(text, is_spoken=True) == 0


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("Two locks must never be held at the same time", REASONED_RULE_WEIGHT),
        ("Do not turn a script into a grader (loses its speed)", REASONED_RULE_WEIGHT),
        ("Never store a card number", PROCESS_RULE_WEIGHT),
        ("Errors are logged, never raised", 0),
    ],
)
def test_an_invariant_or_an_order_with_a_reason_counts_in_a_message(
    text: str, weight: float
) -> None:
    assert weigh_rule(text, is_spoken=False) == weight


def test_a_description_of_code_in_a_commit_message_is_not_a_norm() -> None:
    text = "Always write the file when its types change"
    assert weigh_rule(text, is_spoken=True) == PROCESS_RULE_WEIGHT
    assert weigh_rule(text, is_spoken=False) == BARE_ORDER_WEIGHT


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        (
            "Document that scripts should always run under uv in AGENTS.md",
            "Scripts should always run under uv",
        ),
        ("mention that rules must be short", "Rules must be short"),
        ("Add a test that never sleeps", "Add a test that never sleeps"),
        ("Always run the tests", "Always run the tests"),
    ],
)
def test_the_title_is_the_rule_and_not_the_request_to_write_it(text: str, norm: str) -> None:
    assert strip_write_down_request(text) == norm


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Commit, push and open a pull request", True),
        ("Ask me questions before coding", True),
        ("Fix lint errors", False),
        ("Commit and push these changes please", False),
        ("Let's implement the plan", False),
        ("Put the plan in a document", True),
        ("Do all tests pass now", False),
        ("Adjust the branch in config.toml", False),
        ("Remove the hover popup", False),
    ],
)
def test_a_repeated_request_is_about_how_work_is_done(request_text: str, expected: bool) -> None:
    assert is_conduct_request(request_text) is expected


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("Additionally, I want you to always use docstrings", "always use docstrings"),
        ("Ella, I'd like you to always run the tests", "always run the tests"),
        ("It's important that you always ask", "always ask"),
        ("Another convention we follow here is to sort imports", "sort imports"),
        ("For tests, I need you to never sleep", "For tests, never sleep"),
        ("I want the tests to pass", "I want the tests to pass"),
        ("Always run the tests", "Always run the tests"),
    ],
)
def test_polite_words_are_removed_from_an_order(text: str, order: str) -> None:
    assert strip_wish_prefix(text) == order


@pytest.mark.parametrize(
    "text",
    [
        "We start method names with 'md_'",
        "I want you to end variable names with '_v'",
        "Additionally, always use docstrings in your functions",
        "Get into the habit of adding the '@timer' decorator to all your methods",
        "I want you to start using annotations for your functions",
    ],
)
def test_a_persons_rule_for_all_code_is_a_norm(text: str) -> None:
    assert is_coding_rule(text)
    assert weigh_rule(text, is_spoken=True) > 0


@pytest.mark.parametrize(
    "text",
    [
        "Do we start method names with 'md_'?",
        "You started method names with 'md_'",
        "I think function names start with 'fn_'",
        "Add the '@timer' decorator to all classes",
        "I want you to add docstrings to all functions",
        "Make sure the functions of the parser are sorted",
        "Check that the variables are named as before",
        "Always return the sum of both columns",
    ],
)
def test_an_order_about_current_code_is_not_a_norm(text: str) -> None:
    assert not is_coding_rule(text)


@pytest.mark.parametrize(
    "text",
    [
        "Don't hesitate to ask questions about the tests",
        "Never worry about the review",
        "From now on I want you to follow some coding standards",
        "Always apply these rules",
    ],
)
def test_an_offer_of_help_or_an_announcement_is_not_a_norm(text: str) -> None:
    assert weigh_rule(text, is_spoken=True) == 0
