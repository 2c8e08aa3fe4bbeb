"""Tests of novelty: known learnings are not written again."""

from __future__ import annotations

import pytest

from memory_ci.extraction.restatement import find_restated, is_same_learning, split_words
from memory_ci.records.candidate import Quote
from tests.extraction.make import make_candidate
from tests.make import make_entry, make_id

TEN = "alpha bravo charlie delta echo foxtrot golf hotel india juliet"


@pytest.mark.parametrize("title", ["Never retry POST requests!", "never  retry post requests"])
def test_equal_words_are_the_same_learning(title: str) -> None:
    assert find_restated(
        make_candidate(title), [make_entry(1), make_entry(2, title="Never retry POST requests")]
    ) == make_id(2)


def test_the_same_quote_is_the_same_learning() -> None:
    candidate = make_candidate(
        "Reworded by a model", quotes=(Quote("e1", "never retry a POST", "commit:b"),)
    )
    assert find_restated(
        candidate, [make_entry(1, evidence=("commit:a never retry a POST",))]
    ) == make_id(1)
    assert (
        find_restated(candidate, [make_entry(1, evidence=("commit:a never retry a GET",))]) is None
    )


def test_the_overlap_must_be_strictly_above_four_fifths() -> None:
    nine = " ".join(TEN.split()[:9])
    eight = " ".join(TEN.split()[:8])
    assert find_restated(make_candidate(TEN), [make_entry(1, title=nine)]) == make_id(1)
    assert find_restated(make_candidate(TEN), [make_entry(1, title=eight)]) is None


def test_a_cut_title_is_compared_by_its_body() -> None:
    candidate = make_candidate("Retry...", body=TEN)
    assert (
        find_restated(candidate, [make_entry(1, title="Retry...", body="something else")]) is None
    )
    assert find_restated(candidate, [make_entry(1, title="Other", body=TEN)]) == make_id(1)


def test_two_candidates_of_one_run_are_compared_the_same_way() -> None:
    words = split_words(make_candidate("Retry GET only"))
    assert is_same_learning(words, split_words(make_candidate("retry get only")))
    assert not is_same_learning(words, split_words(make_candidate("Pin the compiler")))
