"""Tests of splitting text into words for the index, queries and comparisons."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.text import (
    BARE_NEGATION,
    identifier_parts,
    jaccard,
    spell_negations,
    strip_comments,
    words,
)


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("HTTPServer2", ["http", "server", "2"]),
        ("`snake_case`,", ["snake", "case"]),
        ("src/app.py", ["src", "app", "py"]),
        ("getUserName's", ["get", "user", "name"]),
        ("über_name", ["über", "name"]),
        ("plain", []),
        ("Plain.", []),
        ("HTTP", []),
        ("Überprüfung", []),
        ("café", []),
        ("don't", []),
        ("-- 'quoted' --", []),
    ],
)
def test_an_identifier_is_split_and_a_word_is_not(identifier: str, parts: list[str]) -> None:
    assert list(identifier_parts(identifier)) == parts


@given(st.text("aAbB1_./-:'* üÜ"))
def test_parts_of_identifiers_are_in_the_text(content: str) -> None:
    joined = " ".join(words(content))
    assert all(part in joined for part in identifier_parts(content))


@given(st.frozensets(st.integers(0, 5)), st.frozensets(st.integers(0, 5)))
def test_jaccard_is_symmetric_and_one_for_equal_sets(
    tokens: frozenset[str], right: frozenset[str]
) -> None:
    assert jaccard(tokens, right) == jaccard(right, tokens)
    assert jaccard(tokens, tokens) == (1.0 if tokens else 0.0)
    assert 0.0 <= jaccard(tokens, right) <= 1.0


def test_many_unclosed_comments_are_read_in_linear_time() -> None:
    """A reader that searches the end of each comment would not end."""
    text = "<!-- \n" * 3_000_000
    assert strip_comments(text, keeps_lines=True).count("\n") == 3_000_000


@given(st.lists(st.sampled_from(["<!--", "-->", "\n", "a", "-", ">", "<!"])).map("".join))
def test_comments_are_found_like_with_the_pattern(content: str) -> None:
    pattern = re.compile(r"<!--.*?-->", re.DOTALL)
    assert strip_comments(content) == pattern.sub("", content)
    assert strip_comments(content, keeps_lines=True).count("\n") == content.count("\n")


NEGATION_PARTS = (
    "don didn Isn SHOULDN client n nt \u2019 \u00b4 ' t T doe\u017fn \u0130sn _ 1 .".split()
)


@given(st.lists(st.sampled_from([*NEGATION_PARTS, " "]), max_size=12).map("".join))
def test_negations_match_their_pattern(text: str) -> None:
    assert spell_negations(text) == BARE_NEGATION.sub(r"\1't", text)
