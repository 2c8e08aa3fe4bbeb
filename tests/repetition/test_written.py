"""Tests of finding requests that a document of rules contains already."""

from __future__ import annotations

import pytest

from memory_ci.repetition.written import MAX_LINE, MAX_LINES, RULE_FILES, find_written, list_rules

RULES = """# How we work

- Open a **draft** PR for each change.
1. Ask before you start.

ok
"""


def test_each_sentence_with_content_is_a_rule_with_its_line() -> None:
    rules = list_rules("AGENTS.md", RULES)
    assert [(rule.place, rule.text) for rule in rules] == [
        ("AGENTS.md:3", "Open a **draft** PR for each change"),
        ("AGENTS.md:4", "Ask before you start"),
    ]


def test_a_sentence_over_two_lines_is_one_rule() -> None:
    rules = list_rules("AGENTS.md", "Use the tasks of poe. Do not call\nthe tools behind them.\n")
    assert [(rule.line, rule.text) for rule in rules] == [
        (1, "Use the tasks of poe"),
        (1, "Do not call the tools behind them"),
    ]


def test_a_sentence_that_starts_on_the_second_line_has_that_number() -> None:
    rules = list_rules("AGENTS.md", "- Use the tasks\n  of poe. Do not call tools.\n")
    assert [rule.line for rule in rules] == [1, 2]


def test_items_headings_and_code_lines_are_separate_sentences() -> None:
    text = "# Check slow tests\nRun slow tests\n```\nrun slow tests\nrun lint checks\n```\n| one slow row |\n"
    rules = list_rules("AGENTS.md", text)
    assert [rule.line for rule in rules] == [1, 2, 4, 5, 7]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Do not\n\n- Use require for imports\n", True),
        ("Never do this:\n- Use require for imports\n", True),
        ("## Imports\n\n- Use require for imports\n", False),
        ("## Do not\n\n- Never use require for imports\n", False),
        ("## Do not\n\n- Skip one test\n\n## Imports\n\n- Use require for imports\n", False),
    ],
)
def test_an_item_below_a_prohibition_is_negated(text: str, expected: bool) -> None:
    (rule,) = [rule for rule in list_rules("AGENTS.md", text) if "require" in rule.text]
    assert rule.is_forbidden_example is expected


def test_a_request_is_found_in_its_line() -> None:
    rules = list_rules("AGENTS.md", RULES)
    rule = find_written(("draft", "open", "pr"), rules)
    assert rule is not None
    assert rule.place == "AGENTS.md:3"
    assert find_written(("changelog", "update"), rules) is None


@pytest.mark.parametrize(
    "path",
    [
        *("AGENTS.md", "CLAUDE.md", "GEMINI.md", "docs/AGENTS.md", "CONTRIBUTING.md"),
        *(".cursor/rules/git.mdc", ".cursorrules", ".github/copilot-instructions.md"),
        *(".claude/rules/git.md", ".windsurfrules"),
    ],
)
def test_documents_of_rules_are_recognised_by_their_names(path: str) -> None:
    assert RULE_FILES.fullmatch(path)


@pytest.mark.parametrize("path", ["README.md", "docs/AGENTS.md.txt", "XAGENTS.md", "MEMORY.md"])
def test_another_document_has_no_rules(path: str) -> None:
    assert not RULE_FILES.fullmatch(path)


def test_long_lines_and_lines_beyond_the_limit_are_ignored() -> None:
    assert list_rules("AGENTS.md", f"Open a draft PR {'x' * MAX_LINE}") == []
    assert list_rules("AGENTS.md", "\n" * MAX_LINES + "Open a draft PR") == []
