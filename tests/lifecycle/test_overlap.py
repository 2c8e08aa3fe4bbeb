"""Overlap: what is found for a few is what comparing all pairs finds."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.similarity import find_partners, similar_pairs

words = st.sets(st.sampled_from("abcdefgh"), max_size=8)
thresholds = st.sampled_from([Fraction(9, 20), Fraction(4, 5), Fraction(1, 8), Fraction(1, 2)])


@given(st.lists(words, max_size=12), st.sets(st.integers(0, 11)), thresholds)
def test_those_that_are_asked_have_the_partners_of_their_pairs(
    texts: list[set[str]], asked: set[int], threshold: Fraction
) -> None:
    places = {at for at in asked if at < len(texts)}
    found = {
        frozenset((at, other))
        for at, others in find_partners(texts, places, threshold)
        for other in others
    }
    pairs = {frozenset(pair) for pair in similar_pairs(texts, threshold)}
    assert found == {pair for pair in pairs if pair & places}


def test_a_share_that_equals_the_threshold_is_not_above_it() -> None:
    texts = [set("abc"), set("abcde")]
    (_, equal), (_, above) = (
        *find_partners(texts, [0], Fraction(3, 5)),
        *find_partners(texts, [0], Fraction(59, 100)),
    )
    assert (list(equal), list(above)) == ([], [1])
