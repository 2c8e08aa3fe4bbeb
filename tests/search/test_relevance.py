"""Tests of relevance beyond BM25: common letters, and adjacent notes."""

from __future__ import annotations

import pytest

from memory_ci.records.retrieval import Match
from memory_ci.search.rank import get_entry_place
from memory_ci.search.strength import measure_gram_share, score_lexically
from tests.make import make_entry, make_located


def make_match(number: int, lexical: float, title: str) -> Match:
    return Match(make_located(number, f"{number}.md", title=title), lexical)


def relevances(
    task: str, *matches: Match, neighbour_of: dict[int, int] | None = None
) -> list[float]:
    """Return the lexical relevance of each match; `neighbour_of` maps a match to an adjacent one by index."""
    places = [get_entry_place(match.located) for match in matches]
    neighbours = {
        places[place]: [places[neighbour]] for place, neighbour in (neighbour_of or {}).items()
    }
    lane = score_lexically(task, matches, neighbours)
    return [lane[place] for place in places]


def test_equal_word_scores_are_ordered_by_letters_shared_with_the_first_line() -> None:
    near_match, far = (
        make_match(1, 2.0, "Autocompletion of paths"),
        make_match(2, 2.0, "Colours of paths"),
    )
    near_relevance, far_relevance = relevances("complete paths\ncolours colours", near_match, far)
    assert 1.4 >= near_relevance > far_relevance > 1.0


def test_relevance_is_relative_to_the_best_with_a_bounded_bonus_for_letters() -> None:
    assert relevances(
        "zebra", make_match(1, 4.0, "Zebra"), make_match(2, 1.0, "Lion")
    ) == pytest.approx([1.4, 0.25])
    assert relevances("is it", make_match(1, 4.0, "Zebra")) == [1.0]
    assert relevances("zebra") == []


def test_a_note_gets_a_part_of_the_relevance_of_its_neighbour() -> None:
    question, answer = make_match(1, 4.0, "Zebra"), make_match(2, 1.0, "Lion")
    assert relevances("zebra", question, answer, neighbour_of={1: 0}) == pytest.approx(
        [1.4, 0.25 + 0.3 * 1.4]
    )


@pytest.mark.parametrize(("title", "share"), [("Zebra", 1.0), ("zebras", 0.75), ("", 0.0)])
def test_letter_pairs_include_the_edges_of_words(title: str, share: float) -> None:
    assert measure_gram_share("a zebra", [make_entry(1, title=title, body="")]) == share
    assert (
        measure_gram_share(
            "\u0416\u0423\u041a", [make_entry(1, title="\u0416\u0443\u043a", body="")]
        )
        == 1.0
    )
