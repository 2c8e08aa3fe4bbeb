"""Tests of overlap: an index finds the same pairs of similar token sets as comparing all pairs."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.similarity import find_partners, similar_pairs

words = st.sets(st.sampled_from("abcdefgh"), max_size=8)
thresholds = st.sampled_from([Fraction(9, 20), Fraction(4, 5), Fraction(1, 8), Fraction(1, 2)])


@given(st.lists(words, max_size=12), st.sets(st.integers(0, 11)), thresholds)
def test_the_partners_of_some_sets_are_those_of_comparing_all(
    texts: list[set[str]], places_asked: set[int], threshold: Fraction
) -> None:
    places = {at for at in places_asked if at < len(texts)}
    partner_pairs = {
        frozenset((at, partner))
        for at, others in find_partners(texts, places, threshold)
        for partner in others
    }
    pairs = {frozenset(pair) for pair in similar_pairs(texts, threshold)}
    assert partner_pairs == {pair for pair in pairs if pair & places}


def test_a_share_that_equals_the_threshold_is_not_above_it() -> None:
    texts = [set("abc"), set("abcde")]
    (_, equal), (_, above) = (
        *find_partners(texts, [0], Fraction(3, 5)),
        *find_partners(texts, [0], Fraction(59, 100)),
    )
    assert (list(equal), list(above)) == ([], [1])


@given(st.lists(words, max_size=12), thresholds)
def test_contained_sets_are_those_that_comparing_all_finds(
    texts: list[set[str]], threshold: Fraction
) -> None:
    searches = dict(find_partners(texts, range(len(texts)), threshold))
    contained = dict(find_partners(texts, range(len(texts)), threshold, contained_only=True))
    for at, partners in searches.items():
        is_part = [
            partner
            for partner in partners
            if texts[at] <= texts[partner] or texts[partner] <= texts[at]
        ]
        assert list(contained[at]) == is_part


class CountedSet(frozenset[str]):
    """A set that counts its comparisons."""

    comparisons = 0

    def __and__(self, other_set: object) -> frozenset[str]:
        CountedSet.comparisons += 1
        return frozenset.__and__(self, other_set)  # type: ignore[operator]


def test_thousands_of_sets_that_share_all_but_one_word_are_not_compared_in_pairs() -> None:
    CountedSet.comparisons = 0
    texts = [CountedSet({*"abcdef", f"only{number}"}) for number in range(200)]
    partners_found = [
        list(partners) for _, partners in find_partners(texts, range(200), Fraction(4, 5))
    ]
    assert partners_found == [[]] * 200
    assert CountedSet.comparisons == 0
