"""Tests of rules about names: reading them from a sentence, and finding two that conflict."""

from __future__ import annotations

import pytest

from memory_ci.checks.name_rules import NameRule, find_name_conflict, find_name_rules


def test_two_rules_of_a_sentence_are_separated() -> None:
    text = "Always end attribute names with '_at' and start method names with 'md_'"
    assert find_name_rules(text) == [
        NameRule("attribute", "end", "_at"),
        NameRule("method", "start", "md_"),
    ]


def test_one_rule_may_be_about_several_things() -> None:
    assert find_name_rules("Start functions and methods with 'a_'") == [
        NameRule("function", "start", "a_"),
        NameRule("method", "start", "a_"),
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "From now on, class attribute names start with 'a_'",
            NameRule("attribute", "start", "a_"),
        ),
        ("Remember to use snake_case when naming classes", NameRule("class", "style", "snake")),
        ("Put 'a_' at the beginning of variable names", NameRule("variable", "start", "a_")),
        ("Function names must not end with '_x'", NameRule("function", "end", "_x", True)),
        ("Start methods with 'b_' rather than 'a_'", NameRule("method", "start", "b_")),
    ],
)
def test_a_rule_is_read(text: str, rule: NameRule) -> None:
    assert find_name_rules(text) == [rule]


@pytest.mark.parametrize(
    ("first_rule", "second_rule", "conflict"),
    [
        ("Start methods with 'b_'", "Start method names with 'a_'", "'b_' against 'a_'"),
        ("Use snake_case for classes", "Use CamelCase for classes", "'snake' against 'pascal'"),
        ("Start methods with 'b_'", "Start functions with 'a_'", ""),
        ("Start methods with 'b_'", "End methods with '_a'", ""),
        ("Start methods with 'b_'", "Start methods with 'b_'", ""),
        ("Class names contain 'ab'", "Class names contain 'cd'", ""),
        ("Never start methods with 'b_'", "Start methods with 'a_'", ""),
    ],
)
def test_names_can_have_only_one_prefix_suffix_and_style(
    first_rule: str, second_rule: str, conflict: str
) -> None:
    assert find_name_conflict(find_name_rules(first_rule), find_name_rules(second_rule)) == conflict


@pytest.mark.parametrize(
    "text",
    [
        "Don't forget to start function names with 'fn_'",
        "Never fail to start function names with 'fn_'",
        "It is not a question of taste: start function names with 'fn_'",
        "I do not like short names, start function names with 'fn_'",
    ],
)
def test_a_negation_of_another_clause_forbids_no_name(text: str) -> None:
    assert find_name_rules(text) == [NameRule("function", "start", "fn_")]


@pytest.mark.parametrize(
    "text",
    [
        "From now on, do not start function names with 'fn_'",
        "Dont start function names with 'fn_'",
        "Don\u2019t start function names with 'fn_'",
        "Never, under any circumstances, start function names with 'fn_'",
    ],
)
def test_a_negation_of_the_same_clause_forbids_a_name(text: str) -> None:
    assert find_name_rules(text) == [NameRule("function", "start", "fn_", is_forbidden=True)]


def test_a_negation_holds_for_all_values_of_a_list() -> None:
    rules = find_name_rules("For function names, never use snake_case, kebab-case or PascalCase")
    assert rules == [
        NameRule("function", "style", "snake", is_forbidden=True),
        NameRule("function", "style", "pascal", is_forbidden=True),
    ]


@pytest.mark.parametrize("words", [", not", " instead of", " rather than", ", never"])
def test_a_rejected_style_is_not_required(words: str) -> None:
    rules = find_name_rules(f"For function names use snake_case{words} camelCase")
    style_rules = [rule for rule in rules if not rule.is_forbidden]
    assert style_rules == [NameRule("function", "style", "snake")]


def test_a_rejected_style_may_precede_the_thing() -> None:
    assert find_name_rules("Use snake_case, not camelCase, for variables") == [
        NameRule("variable", "style", "snake")
    ]


@pytest.mark.parametrize("style", ["lowerCamelCase", "lower camel case", "camel-case"])
def test_each_spelling_of_a_style_is_read(style: str) -> None:
    assert find_name_rules(f"Use {style} for function names") == [
        NameRule("function", "style", "camel")
    ]
