"""Requests that a document of rules says already."""

from __future__ import annotations

import pytest

from memory_ci.repetition.written import MAX_LINE, MAX_LINES, RULE_FILES, find_written, list_rules

RULES = """# How we work

- Open a **draft** PR for each change.
1. Ask before you start.
ok
"""


def test_each_line_that_says_something_is_a_rule_with_its_place() -> None:
    rules = list_rules("AGENTS.md", RULES)
    assert [(rule.place, rule.text) for rule in rules] == [
        ("AGENTS.md:3", "Open a **draft** PR for each change"),
        ("AGENTS.md:4", "Ask before you start"),
    ]


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
def test_documents_of_rules_are_known_by_their_names(path: str) -> None:
    assert RULE_FILES.fullmatch(path)


@pytest.mark.parametrize("path", ["README.md", "docs/AGENTS.md.txt", "XAGENTS.md", "MEMORY.md"])
def test_another_document_has_no_rules(path: str) -> None:
    assert not RULE_FILES.fullmatch(path)


def test_long_lines_and_lines_beyond_the_limit_are_passed_over() -> None:
    assert list_rules("AGENTS.md", f"Open a draft PR {'x' * MAX_LINE}") == []
    assert list_rules("AGENTS.md", "\n" * MAX_LINES + "Open a draft PR") == []
