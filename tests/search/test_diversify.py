"""Tests of diversity: near duplicates do not fill the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.retrieval import Hit
from memory_ci.search.rank import diversify
from memory_ci.text import content_words, jaccard
from tests.make import make_located


def make_hit(
    number: int, score: float, title: str = "Title", body: str = "", path: str = "MEMORY.md"
) -> Hit:
    return Hit(
        make_located(number, path=path, title=title, body=body), score, (("relevance", score),)
    )


def numbers(hits: list[Hit]) -> list[int]:
    return [int(hit.located.entry.id[:8], 16) for hit in hits]


def test_a_near_duplicate_ranks_below_a_different_entry() -> None:
    first = make_hit(1, 1.0, "retry charges with a key")
    duplicate = make_hit(2, 0.95, "retry charges with key")
    different = make_hit(3, 0.7, "release notes come from fragments")
    assert numbers(diversify([first, duplicate, different])) == [1, 3, 2]


def test_hits_that_share_no_word_keep_their_order() -> None:
    hits = [make_hit(n, 1 / (n + 1), f"word{n}") for n in range(5)]
    assert diversify(hits) == hits


def test_an_entry_in_two_files_is_served_once_where_it_ranks_higher() -> None:
    hits = [make_hit(1, 1.0, path="src/MEMORY.md"), make_hit(2, 0.9), make_hit(1, 0.8)]
    assert [(hit.located.path, hit.score) for hit in diversify(hits)] == [
        ("src/MEMORY.md", 1.0),
        ("MEMORY.md", 0.9 * 0.6),
    ]


def test_two_entries_with_one_id_are_both_served() -> None:
    hits = [
        make_hit(1, 1.0, "Retry with a key"),
        make_hit(1, 0.9, "Invoices are numbered per tenant"),
    ]
    assert diversify(hits) == hits


@pytest.mark.parametrize("hits", [[], [make_hit(1, 1.0, title="the", body="")]])
def test_no_hits_and_entries_without_words_are_accepted(hits: list[Hit]) -> None:
    assert diversify(hits) == hits


WORD_LISTS = st.lists(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), max_size=4), max_size=7
)


@given(WORD_LISTS)
def test_the_incremental_form_equals_the_definition(texts: list[list[str]]) -> None:
    hits = [make_hit(n, 1 / (n + 1), " ".join(text)) for n, text in enumerate(texts)]
    diverse = diversify(hits)
    assert [hit.located for hit in diverse] == [hit.located for hit in by_definition(hits)]
    assert [hit.score for hit in diverse] == sorted((hit.score for hit in diverse), reverse=True), (
        "the order is explained"
    )


def by_definition(hits: list[Hit]) -> list[Hit]:
    """Order hits by maximal marginal relevance, as the paper defines it."""
    chosen: list[Hit] = []

    def novelty(hit: Hit) -> float:
        words = content_words(hit.located.entry.title)
        alike = max(
            (
                jaccard(words, content_words(chosen_hit.located.entry.title))
                for chosen_hit in chosen
            ),
            default=0.0,
        )
        return 1 - 0.4 * alike if alike >= 0.5 else 1.0

    while len(chosen) < len(hits):
        remaining = [hit for hit in hits if hit not in chosen]
        chosen.append(max(remaining, key=lambda hit: hit.score * novelty(hit)))
    return chosen
