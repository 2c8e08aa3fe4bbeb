"""Tests of similarity: which words are compared, and that the pairs are those of comparing all."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.similarity import NEAR_DUPLICATE, parse_entry_words, similar_pairs
from memory_ci.text import jaccard
from tests.make import make_entry

WORDS = "retry charge client timeout cache index branch merge token parser".split()


def words_of(title: str, body: str = "") -> frozenset[str]:
    """Return the words of an entry that are compared."""
    return parse_entry_words(make_entry(title=title, body=body)).words


def test_labels_dates_and_references_are_not_compared() -> None:
    body = (
        "**Cause:** gateway timeout on 2026-11-20T10:00:00Z, as in #128.\n"
        "### Root cause\n- Fix: send the key (3 November 2026, 20.11.2026)"
    )
    assert words_of("Charge", body) == {"charge", "gateway", "timeout", "send", "key"}


def test_a_label_within_a_sentence_is_compared() -> None:
    assert words_of("The error is in the fix for why it broke") == {"error", "fix", "broke"}


def test_a_version_is_not_a_date() -> None:
    assert "3.11.20" in words_of("Needs 3.11.20 of it")


def test_different_titles_lower_the_similarity() -> None:
    first, second = (
        words_of("Retry a POST only with a key", "Twice (#128)."),
        words_of("Never log a token", "Twice (#141)."),
    )
    assert jaccard(first, second) < 0.5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Do retry a POST", "Do not retry a POST"),
        ("Clients should retry a POST", "Clients shouldn’t retry a POST"),  # noqa: RUF001 - as typed by people
        ("Never retry, always log", "Never log, always retry"),
        ("The timeout is 30 s", "The timeout is 60 s"),
        ("失败时重试", "失败时不重试"),
        ("失敗したら再試行する", "失敗したら再試行しない"),
        ("Connect within 30, read within 60", "Connect within 60, read within 30"),
        ("Needs python3.11 here", "Needs python3.12 here"),
    ],
)
def test_a_negation_or_a_number_makes_a_different_claim(first: str, second: str) -> None:
    assert (
        parse_entry_words(make_entry(title=first)).claims
        != parse_entry_words(make_entry(title=second)).claims
    )


def test_two_wordings_of_one_negation_make_the_same_claim() -> None:
    first, second = (
        parse_entry_words(make_entry(title="Never retry a POST")),
        parse_entry_words(make_entry(title="Don't retry the POST")),
    )
    assert first == second


def test_exactly_at_the_threshold_is_not_above_it() -> None:
    four, five = set("abcd"), set("abcde")
    assert jaccard(four, five) == 0.8
    assert similar_pairs([four, five]) == ()
    assert similar_pairs([five, set("abcdef")]) == ((0, 1),)


def test_texts_without_words_are_similar_to_nothing() -> None:
    assert similar_pairs([set(), set(), {"a"}, {"a"}]) == ((2, 3),)


@given(
    st.lists(st.frozensets(st.sampled_from(WORDS)), max_size=20),
    st.sampled_from([NEAR_DUPLICATE, Fraction(1, 2), Fraction(9, 10), Fraction(2, 3)]),
)
def test_the_pairs_are_those_of_comparing_all(
    texts: list[frozenset[str]], threshold: Fraction
) -> None:
    alike = [
        (first, second)
        for first, second in combinations(range(len(texts)), 2)
        if (union := texts[first] | texts[second])
        and Fraction(len(texts[first] & texts[second]), len(union)) > threshold
    ]
    assert list(similar_pairs(texts, threshold)) == alike


@given(st.integers(0, 2**32), st.integers(20, 60))
def test_long_texts_with_a_few_words_changed_are_found_as_comparing_all_finds_them(
    seed: int, size: int
) -> None:
    vocabulary = [f"w{number}" for number in range(size + 12)]
    texts = []
    for turn in range(12):
        dropped = {(seed >> turn) % size, (seed >> 2 * turn) % size, (turn * turn) % size}
        texts.append(
            frozenset(vocabulary[: size + turn % 4]) - {vocabulary[place] for place in dropped}
        )
    alike = [(a, b) for a, b in combinations(range(12), 2) if jaccard(texts[a], texts[b]) > 0.8]
    assert list(similar_pairs(texts)) == alike
