"""Which entries say nearly the same: the words they are compared by, and the pairs above a threshold."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from memory_ci.records.entry import Entry
from memory_ci.text import STOP_WORDS, words

NEAR_DUPLICATE = Fraction(4, 5)  # Two entries whose Jaccard index is strictly above this say the same (TeaParty).
LABEL = re.compile(
    r"""^[ \t>*_#\-]*
    (?:root[ ]cause|cause|fix|context|error|lesson(?:[ ]learned)?|learning|problem|symptom|solution|resolution|decision
      |constraint|rejected|directive|convention|gotcha|invariant|rule|rationale|prevention|impact|why|how|example|note)
    [ \t*_]*(?::[*_]*|$)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""A template's word, where it stands as a label or a heading: `**Cause:**`, `### Fix`. In a sentence it is content."""

MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    rf"""\b\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?\b
    |\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b
    |\b(?:\d{{1,2}}[ ])?{MONTH}[ ](?:\d{{1,2}},?[ ])?\d{{4}}\b""",
    re.IGNORECASE | re.VERBOSE,
)
REFERENCE = re.compile(r"(?<!\w)[#!]\d+\b")
"""A pull request or an issue: where a learning comes from, not what it says."""

NEVER = -1_000_000  # Far below what any number of shared words can make up for.
NEGATIONS = frozenset("no not never none nor neither without cannot".split())
NUMBER = re.compile(r"v?\d|.*\d\.\d")
"""A word that is a number, a quantity or a version: `30`, `v2`, `100ms`, `python3.12`."""


class Said(NamedTuple):
    """What an entry says: its content words, and its claims, in which like texts still contradict each other.

    A claim is a pair of neighbours: `not` and what is negated, or a number and the word before it. Each stands once,
    in the order of the text: "connect within 30, read within 60" is not "connect within 60, read within 30".
    """

    words: frozenset[str]
    claims: tuple[tuple[str, str], ...]


def said(entry: Entry) -> Said:
    """Words of title and body without stop words, template labels, dates and references; negations read as `not`.

    The title counts because it is part of the Markdown body in the file, and often the only part that says what is
    to be done: two entries whose bodies are both "Twice (#128)." are not one learning.
    """
    text = f"{entry.title}\n{entry.body}".replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for noise in (LABEL, DATE, REFERENCE):
        text = noise.sub(" ", text)
    content = [word for word in map(_plain, words(text)) if word == "not" or word not in STOP_WORDS]
    claims = (pair for pair in pairwise(["", *content, ""]) if pair[0] == "not" or NUMBER.match(pair[1]))
    return Said(frozenset(content), tuple(dict.fromkeys(claims)))


def words_of(entry: Entry) -> frozenset[str]:
    """What an entry is compared by."""
    return said(entry).words


def _plain(word: str) -> str:
    return "not" if word in NEGATIONS or word.endswith("n't") else word


def similar_pairs(
    texts: Sequence[AbstractSet[str]], threshold: Fraction = NEAR_DUPLICATE
) -> tuple[tuple[int, int], ...]:
    """All pairs of places (smaller first, in order) whose word sets have a Jaccard index strictly above `threshold`.

    Exact, and compares only texts that share one of their few rarest words at places that still allow enough shared
    words: prefix and positional filtering of PPJoin (Xiao, Wang, Lin and Yu, WWW 2008). Sets that are equal all make
    pairs with each other: give each set once where they may be many. An empty set is like nothing.
    """
    bounds = _Bounds(threshold.numerator, threshold.denominator)
    rows = _rare_first(texts)
    marks = [_mark(row) for row in rows]
    index: dict[int, list[tuple[int, int]]] = defaultdict(list)
    found: list[tuple[int, int]] = []
    for number in sorted(range(len(rows)), key=lambda number: len(rows[number])):
        row, mark, needed = rows[number], marks[number], bounds.overlaps(len(rows[number]))
        for other in _candidates(row, rows, index, bounds.probed(len(row)), needed):
            size = len(rows[other])
            differing = len(row) + size - 2 * needed[size]
            # Cheaper than the sets themselves, and it rules out nearly all: words in one of them only differ in a bit.
            is_near = (mark ^ marks[other]).bit_count() <= differing
            if is_near and len(texts[number] & texts[other]) >= needed[size]:
                found.append((min(number, other), max(number, other)))
        for place, word in enumerate(row[: bounds.indexed(len(row))]):
            index[word].append((number, place))
    return tuple(sorted(found))


def _mark(row: Iterable[int]) -> int:
    """A set as 256 bits, each the parity of its words there: the bits in which two differ are no more than the words.

    The bitmap filter of Sandes, Teodoro and Melo (Information Systems 88, 2020; arXiv:1711.07295).
    """
    mark = 0
    for word in row:
        mark ^= 1 << word % 256
    return mark


class _Bounds(NamedTuple):
    """What a Jaccard index strictly above top/bottom demands, in whole words, for sets of given sizes."""

    top: int
    bottom: int

    def overlaps(self, size: int) -> list[int]:
        """The least number of shared words, by the size of the smaller set; out of reach where it is too small."""
        return [
            self.top * (size + other) // (self.top + self.bottom) + 1
            if self.bottom * other > self.top * size
            else size + 1
            for other in range(size + 1)
        ]

    def probed(self, size: int) -> int:
        """How many of its rarest words a set must look up to meet every smaller set that is like it."""
        return size - self.top * size // self.bottom

    def indexed(self, size: int) -> int:
        """How many of its rarest words a set must be found by, when all others to come are at least as large."""
        return size - 2 * self.top * size // (self.top + self.bottom)


def _rare_first(texts: Sequence[AbstractSet[str]]) -> list[list[int]]:
    """Each set as numbers, the rarest word first; the same order for all."""
    counts = Counter(word for text in texts for word in text)
    order = {word: number for number, word in enumerate(sorted(counts, key=lambda word: (counts[word], word)))}
    return [sorted(order[word] for word in text) for text in texts]


def _candidates(
    row: list[int], rows: list[list[int]], index: Mapping[int, list[tuple[int, int]]], prefix: int, needed: list[int]
) -> Iterator[int]:
    """The indexed sets that may be like `row`: at each shared word of its prefix, those that follow must still suffice.

    A count of NEVER is that of a set which is out, for its size or for the places of its words.
    """
    size = len(row)
    counts: dict[int, int] = {}
    for place, word in enumerate(row[:prefix]):
        left = size - place
        for other, other_place in index.get(word, ()):
            count = counts.get(other, 0)
            other_size = len(rows[other])
            other_left = other_size - other_place
            if count + (left if left < other_left else other_left) >= needed[other_size]:
                counts[other] = count + 1
            else:
                counts[other] = NEVER
    return (other for other, count in counts.items() if count > 0)


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
