"""Overlap: which texts share most of their words, for those that are asked; all others are counted at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from functools import partial


def find_partners(
    texts: Sequence[AbstractSet[str]], asked: Iterable[int], threshold: Fraction
) -> Iterator[tuple[int, Iterator[int]]]:
    """For each of the places `asked` those whose word sets have a Jaccard index strictly above `threshold` with its.

    Exact, as `similar_pairs`; but few may be asked for, and who wants one partner need not have all. An empty set is
    like nothing.
    """
    holders = _find_holders(texts)
    for at in asked:
        # Of n words more than threshold x n are shared with whatever is alike, for the union is no smaller than n.
        least = threshold.numerator * len(texts[at]) // threshold.denominator + 1
        sharing = _count_to(least, [holders[word] for word in texts[at]], (1 << len(texts)) - 1)
        yield at, filter(partial(_is_alike, texts, threshold, at), _places(sharing))


def _find_holders(texts: Sequence[AbstractSet[str]]) -> dict[str, int]:
    """For each word a number with a bit for each text that has it."""
    holders: defaultdict[str, int] = defaultdict(int)
    for at, text in enumerate(texts):
        for word in text:
            holders[word] |= 1 << at
    return holders


def _count_to(least: int, numbers: Collection[int], every: int) -> int:
    """A number with the bits that are set in at least `least` of `numbers`; `every` has all bits that may be set.

    All texts are counted at once: plane k holds the bits of value 2**k of their counts, which begin so far below a
    power of two that it is `least` steps until they run over.

    >>> _count_to(2, [0b011, 0b110, 0b010], 0b111) == 0b010
    True
    """
    width = least.bit_length()
    start = (1 << width) - least
    planes = [every if start >> k & 1 else 0 for k in range(width)]
    reached = 0
    for number in numbers:
        carry = number
        for k, plane in enumerate(planes):
            planes[k], carry = plane ^ carry, plane & carry
        reached |= carry
    return reached


def _places(bits: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _is_alike(texts: Sequence[AbstractSet[str]], threshold: Fraction, one: int, other: int) -> bool:
    shared = len(texts[one] & texts[other])
    union = len(texts[one]) + len(texts[other]) - shared
    return one != other and shared * threshold.denominator > threshold.numerator * union
