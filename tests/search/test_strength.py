"""Tests of strength: whether memory has entries about the task."""

from __future__ import annotations

import pytest

from memory_ci.records.retrieval import Hit, Match
from memory_ci.search.query import Corpus, build_terms, idf
from memory_ci.search.strength import (
    SMALL_MEMORY,
    drop_weak,
    measure_coverage,
    measure_margin,
    measure_strength,
)
from tests.make import make_entry, make_located

RARE = Corpus(1000, lambda term: 3)
"""A corpus in which all words are equally rare."""


def make_matches(*titles: str) -> list[Match]:
    return [
        Match(make_located(n, title=title), 10.0 / n) for n, title in enumerate(titles, start=1)
    ]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Retry the charge with a key", "HIT"),
        ("Retry the upload", "WEAK"),
        ("Colours of the flag", "MISS"),
    ],
)
def test_the_strength_is_the_share_of_the_task_in_the_best_entry(title: str, expected: str) -> None:
    assert (
        measure_strength(make_matches(title), build_terms("retry failed charge"), RARE) == expected
    )


def test_a_high_raw_score_alone_is_not_a_hit() -> None:
    lonely = [Match(make_located(1, title="Colours of the flag"), 1e9)]
    assert measure_strength(lonely, build_terms("retry failed charge"), RARE) == "MISS"


def test_no_match_or_an_empty_task_is_a_miss() -> None:
    assert measure_strength([], ("retry",), RARE) == "MISS"
    assert measure_strength(make_matches("Retry"), (), RARE) == "MISS"


def is_near_title(task: str, title: str, total: int = 1000) -> bool:
    return measure_margin(task, make_matches(title), build_terms(task), Corpus(total, RARE.df)) >= 0


def test_an_entry_that_shares_one_word_is_not_near_the_task() -> None:
    task = "retry failed charge of the customer"
    assert is_near_title(task, "Retry the charge with a key")
    assert not is_near_title(task, "Retry the upload")
    assert is_near_title("retry charge of the customer", "Retry the file", SMALL_MEMORY - 1)
    assert not is_near_title("retry charge of the customer", "Retry the file")
    assert measure_margin(task, [], build_terms(task), RARE) < 0


def test_a_task_that_names_two_things_is_near_to_each() -> None:
    first, second = "number the invoices of each tenant", "wait between two uploads of a report"
    assert not is_near_title(f"{second} and then {first}".replace(" and", ""), "Number invoices")
    assert is_near_title(f"{second}; {first}", "Number invoices")
    assert is_near_title(f"{second}, {first}", "Number invoices")


def test_at_most_ten_near_entries_are_kept_in_addition_to_exempt_ones() -> None:
    hits = [Hit(make_located(n), 1.0 - n / 100, ()) for n in range(1, 13)] + [
        Hit(make_located(13), 0.4, ())
    ]
    last = hits[-1]
    assert drop_weak(hits, is_near=True, is_exempt=lambda hit: hit is last) == [*hits[:10], last]
    assert drop_weak([hits[0], last], is_near=True, is_exempt=lambda hit: False) == [hits[0]]
    assert drop_weak(hits, is_near=False, is_exempt=lambda hit: hit is last) == [last]


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    corpus = Corpus(1000, lambda term: 1 if term == "idempotency" else 600)
    (has_rare, has_common) = (
        make_entry(1, title="idempotency"),
        make_entry(2, title="client error"),
    )
    terms = ("idempotency", "client", "error")
    assert (
        measure_coverage([has_rare], terms, corpus)
        > 0.8
        > 0.2
        > measure_coverage([has_common], terms, corpus)
    )


def test_a_word_that_no_entry_has_weighs_the_most() -> None:
    assert idf(0, 1000) > idf(1, 1000) > idf(1000, 1000) > 0
    assert idf(7, 3) > 0, "counted while entries were added"


def test_a_long_task_is_judged_by_its_subject() -> None:
    task = "Retry the charge\n" + " ".join(f"word{n}" for n in range(50))
    assert measure_strength(make_matches("Retry the charge"), build_terms(task), RARE) == "HIT"


@pytest.mark.parametrize("word", ["retries", "retried", "RETRY", "rétry"])
def test_an_inflected_or_accented_word_is_the_same_word(word: str) -> None:
    assert measure_coverage([make_entry(1, title=f"it {word}")], ("retry",), RARE) == 1.0


def test_a_word_with_the_same_beginning_is_another_word() -> None:
    assert measure_coverage([make_entry(1, title="internationalisation")], ("inter",), RARE) == 0.0


def test_the_third_best_entry_still_counts_and_the_fourth_does_not() -> None:
    noise = ["Flag", "Colour", "Shape"]
    terms = build_terms("retry charge")
    assert measure_strength(make_matches(*noise[:2], "Retry charge"), terms, RARE) == "HIT"
    assert measure_strength(make_matches(*noise, "Retry charge"), terms, RARE) == "MISS"


def test_in_a_small_memory_a_missing_word_does_not_outweigh_matching_ones() -> None:
    corpus = Corpus(2, lambda term: 0 if term == "overnight" else 2)
    assert (
        measure_strength(make_matches("Retry charges"), ("retry", "charges", "overnight"), corpus)
        == "HIT"
    )


def test_a_word_in_most_entries_counts_only_as_the_whole_task() -> None:
    matches = make_matches("Retry the flask upload", "Charge with flask", "Sign flask cookies")
    common = Corpus(5, lambda term: 4 if term == "flask" else 1)
    assert measure_margin("flask", matches, build_terms("flask"), common) >= 0, (
        "asked alone it is all there is"
    )
    assert (
        measure_margin(
            "hello, what does this flask do",
            matches,
            build_terms("hello, what does this flask do"),
            common,
        )
        < 0
    )
    assert (
        measure_margin("flask upload retry", matches, build_terms("flask upload retry"), common)
        >= 0
    )


def test_letter_pairs_across_two_words_weigh_half() -> None:
    terms = build_terms("缓存过期")  # two words, and the pair between them, which no entry holds
    corpus = Corpus(1000, lambda term: 0 if term == "存过" else 3)
    matches = make_matches("缓存", "过期")
    assert measure_coverage(
        [match.located.entry for match in matches], terms, corpus
    ) == pytest.approx(0.374, abs=0.001)
