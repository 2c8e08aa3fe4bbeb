"""Near duplicates: the words by which entries are compared, and the pairs above a threshold."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, content_words, stem, words

NEAR_DUPLICATE = Fraction(4, 5)
"""Two entries whose Jaccard index is strictly above this say the same (TeaParty)."""

LABEL = Regex(
    r"""^[ \t>*_#\-]*
    (?:root[ ]cause|cause|fix|context|error|lesson(?:[ ]learned)?|learning|problem|symptom
      |solution|resolution|decision|constraint|rejected|directive|convention|gotcha|invariant|rule|rationale|prevention|impact|why|how|example|note)
    [ \t*_]*(?::[*_]*|$)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""A word of a template where it is a label or a heading: `**Cause:**`, `### Fix`. In a sentence it
is content."""

MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = Regex(
    rf"""\b\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?\b
    |\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b
    |\b(?:\d{{1,2}}[ ])?{MONTH}[ ](?:\d{{1,2}},?[ ])?\d{{4}}\b""",
    re.IGNORECASE | re.VERBOSE,
)

REFERENCE = Regex(r"(?<!\w)[#!]\d+\b")
"""A pull request or an issue: it names a source, not content."""

NEGATIONS = frozenset("no not never none nor neither without cannot".split())

NEGATING = Regex(
    "[\u4e0d\u6ca1\u6c92\u7121\u65e0\u975e\u52ff\u672a\u522b\u5225\uc54a\ubabb\ub9d0]|\u306a\u3044|\u305b\u3093|\u0e44\u0e21"
)
"""Negations inside words of scripts without blanks (Chinese, Japanese, Korean, Thai)."""

NUMBER = Regex(r"v?\d|.*\d\.\d")
"""A number as `30`, `v2`, `100ms`, `python3.12`."""

MIN_TITLE_WORDS = 4
"""A title with fewer words says too little to be compared on its own."""


class EntryWords(NamedTuple):
    """The words by which an entry is compared with others.

    Attributes:
        words: the content words.
        claims: pairs of neighbouring words in which similar texts can contradict each other, each
            once and in the order of the text: `not` and the negated word, or a word and the number
            behind it. "Connect within 30, read within 60" and "connect within 60, read within 30"
            have the same words and different claims.
    """

    words: frozenset[str]
    claims: tuple[tuple[str, str], ...]


def parse_entry_words(entry: Entry) -> EntryWords:
    """Return the words of an entry's title and body.

    Stop words, template labels, dates and references are left out, and negations are read as `not`.
    The title counts because it is often the only part that names the rule: two entries whose bodies
    are both "Twice (#128)." are not one learning.
    """
    text = entry.text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for noise in (LABEL, DATE, REFERENCE):
        text = noise.sub(" ", text)
    content: list[str] = []
    for word in words(text):
        if word in NEGATIONS or word.endswith("n't"):
            content.append("not")
        elif word not in STOP_WORDS:
            content.append(word)
    claims = [
        (first, second)
        for first, second in pairwise(["", *content, ""])
        if first == "not" or NUMBER.match(second)
    ]
    if not text.isascii():
        claims += [("not", word) for word in content if NEGATING.search(word)]
    return EntryWords(frozenset(content), tuple(dict.fromkeys(claims)))


def words_of(entry: Entry) -> frozenset[str]:
    """Return the content words of an entry."""
    return parse_entry_words(entry).words


def title_stems(entry: Entry) -> frozenset[str]:
    """Return the stems of a title, or an empty set if it is too short to be compared on its own."""
    stems = frozenset(stem(word) for word in content_words(entry.title))
    return stems if len(stems) >= MIN_TITLE_WORDS else frozenset()


def similar_pairs(
    texts: Sequence[AbstractSet[str]], threshold: Fraction = NEAR_DUPLICATE
) -> tuple[tuple[int, int], ...]:
    """Return all pairs of indices of word sets whose Jaccard index is strictly above a threshold.

    Equal sets all make pairs with each other: pass each set once where there may be many.

    Args:
        texts: the word sets; an empty set is in no pair.
        threshold: a Jaccard index from 0 to 1.

    Returns:
        The pairs in order, the smaller index first.
    """
    holders: defaultdict[str, int] = defaultdict(int)
    pairs: list[tuple[int, int]] = []
    for index, text in enumerate(texts):
        pairs += ((partner, index) for partner in _find_partners(texts, index, holders, threshold))
        for word in text:
            holders[word] |= 1 << index
    return tuple(sorted(pairs))


def find_partners(
    texts: Sequence[AbstractSet[str]], asked: Iterable[int], threshold: Fraction
) -> Iterator[tuple[int, Iterator[int]]]:
    """Yield for some of the word sets the indices of the sets that are similar to them.

    It compares as `similar_pairs` does. The partners of a set are found as they are consumed, so a
    caller that needs one does not pay for all.

    Args:
        texts: all word sets.
        asked: the indices of the sets whose partners are wanted.
        threshold: a Jaccard index from 0 to 1.
    """
    holders: defaultdict[str, int] = defaultdict(int)
    for index, text in enumerate(texts):
        for word in text:
            holders[word] |= 1 << index
    return ((index, _find_partners(texts, index, holders, threshold)) for index in asked)


def _find_partners(
    texts: Sequence[AbstractSet[str]],
    index: int,
    holders: Mapping[str, int],
    threshold: Fraction,
) -> Iterator[int]:
    """Yield the indices of the sets that are similar to one set.

    Args:
        texts: all word sets.
        index: the set to compare with the others.
        holders: for each word a number whose bits say which sets hold it.
        threshold: a Jaccard index.
    """
    # The union is no smaller than the set: similar sets share more than threshold x n words.
    least = threshold.numerator * len(texts[index]) // threshold.denominator + 1
    all_sets = (1 << len(texts)) - 1
    candidates = _find_common_bits(least, [holders.get(word, 0) for word in texts[index]], all_sets)
    while candidates:
        lowest_bit = candidates & -candidates
        candidates ^= lowest_bit
        candidate = lowest_bit.bit_length() - 1
        shared = len(texts[index] & texts[candidate])
        union = len(texts[index]) + len(texts[candidate]) - shared
        is_similar = shared * threshold.denominator > threshold.numerator * union
        if candidate != index and is_similar:
            yield candidate


def _find_common_bits(least: int, numbers: Collection[int], all_bits: int) -> int:
    """Return a number with the bits that are set in at least `least` of `numbers`.

    All bits are counted at once: plane k holds the bits of value 2**k of their counts. A count
    starts so far below a power of two that it overflows after `least` steps.

    Args:
        least: how many numbers must have the bit.
        numbers: the numbers.
        all_bits: a number with all bits that may be set.

    >>> _find_common_bits(2, [0b011, 0b110, 0b010], 0b111) == 0b010
    True
    """
    width = least.bit_length()
    start = (1 << width) - least
    planes = [all_bits if start >> k & 1 else 0 for k in range(width)]
    reached = 0
    for number in numbers:
        carry = number
        for k, plane in enumerate(planes):
            planes[k] = plane ^ carry
            carry = plane & carry
        reached |= carry
    return reached
