"""What counts beside BM25: letters in common, and notes side by side."""

from __future__ import annotations

import pytest

from memory_ci.records.retrieval import Match
from memory_ci.search.rank import get_entry_place
from memory_ci.search.strength import measure_gram_share, score_lexically
from tests.make import make_entry, make_located


def make_match(number: int, lexical: float, title: str) -> Match:
    return Match(make_located(number, f"{number}.md", title=title), lexical)


def relevances(task: str, *matches: Match, beside: dict[int, int] | None = None) -> list[float]:
    places = [get_entry_place(match.located) for match in matches]
    neighbours = {places[one]: [places[other]] for one, other in (beside or {}).items()}
    lane = score_lexically(task, matches, neighbours)
    return [lane[place] for place in places]


def test_of_two_that_words_cannot_tell_apart_the_one_with_more_letters_of_the_first_line_counts_more() -> (
    None
):
    near, far = (
        make_match(1, 2.0, "Autocompletion of paths"),
        make_match(2, 2.0, "Colours of paths"),
    )
    one, other = relevances("complete paths\ncolours colours", near, far)
    assert 1.4 >= one > other > 1.0


def test_relevance_is_the_share_of_the_best_and_at_most_as_much_as_all_letters_more() -> None:
    assert relevances(
        "zebra", make_match(1, 4.0, "Zebra"), make_match(2, 1.0, "Lion")
    ) == pytest.approx([1.4, 0.25])
    assert relevances("is it", make_match(1, 4.0, "Zebra")) == [1.0]
    assert relevances("zebra") == []


def test_a_note_gets_a_part_of_what_the_one_beside_it_has() -> None:
    asked, answer = make_match(1, 4.0, "Zebra"), make_match(2, 1.0, "Lion")
    assert relevances("zebra", asked, answer, beside={1: 0}) == pytest.approx(
        [1.4, 0.25 + 0.3 * 1.4]
    )


@pytest.mark.parametrize(("title", "share"), [("Zebra", 1.0), ("zebras", 0.75), ("", 0.0)])
def test_letters_are_those_of_words_with_their_edges(title: str, share: float) -> None:
    assert measure_gram_share("a zebra", [make_entry(1, title=title, body="")]) == share
    assert (
        measure_gram_share(
            "\u0416\u0423\u041a", [make_entry(1, title="\u0416\u0443\u043a", body="")]
        )
        == 1.0
    )
