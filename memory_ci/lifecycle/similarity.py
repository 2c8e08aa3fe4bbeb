"""Near duplicates: the words by which entries are compared, and the pairs above a threshold."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from memory_ci.records.entry import Entry, Located
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
"""A date: `2026-11-28`, `28.11.2026`, `28 Nov 2026`."""

YEAR = Regex(r"\d{4}")
"""The digits that each form of a date has."""

REFERENCE = Regex(r"(?<!\w)[#!]\d+\b")
"""A pull request or an issue: it names a source, not content."""

NEGATIONS = frozenset("no not never none nor neither without cannot".split())
"""English words that are read as `not`."""

NEGATION_IN_WORD = Regex(
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


class ComparedEntry(NamedTuple):
    """An entry, and the words by which it is compared with others."""

    located_entry: Located
    words: frozenset[str]


def parse_entry_words(entry: Entry) -> EntryWords:
    """Return the words of an entry's title and body by which it is compared.

    Stop words, template labels, dates and references are left out, and negations are read as `not`.
    The title counts because it is often the only part that names the rule: two entries whose bodies
    are both "Twice (#128)." are not one learning.
    """
    text = entry.text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = LABEL.sub(" ", text)
    if YEAR.search(text):  # else it has no date, whose pattern is slow
        text = DATE.sub(" ", text)
    text = REFERENCE.sub(" ", text)
    compared_words: list[str] = []
    for word in words(text):
        if word in NEGATIONS or word.endswith("n't"):
            compared_words.append("not")
        elif word not in STOP_WORDS:
            compared_words.append(word)

    # The claims: what is negated, and what a number is about. Texts with similar words contradict
    # each other if they differ in these.
    claims: list[tuple[str, str]] = []
    for word, next_word in pairwise(["", *compared_words, ""]):
        is_number = not next_word.isalpha() and NUMBER.match(next_word)
        if word == "not" or is_number:
            claims.append((word, next_word))
    if not text.isascii():  # a negation may be part of a word
        claims += [("not", word) for word in compared_words if NEGATION_IN_WORD.search(word)]
    return EntryWords(frozenset(compared_words), tuple(dict.fromkeys(claims)))


def list_entry_words(entry: Entry) -> frozenset[str]:
    """Return the content words of an entry."""
    return parse_entry_words(entry).words


def title_stems(entry: Entry) -> frozenset[str]:
    """Return the stems of a title, or an empty set if it is too short to be compared on its own."""
    stems = frozenset(stem(word) for word in content_words(entry.title))
    return stems if len(stems) >= MIN_TITLE_WORDS else frozenset()


def similar_pairs(
    word_sets: Sequence[AbstractSet[str]], threshold: Fraction = NEAR_DUPLICATE
) -> tuple[tuple[int, int], ...]:
    """Return all pairs of indices of word sets whose Jaccard index is strictly above a threshold.

    Equal sets all make pairs with each other: pass each set once where there may be many.

    Args:
        word_sets: the word sets; an empty set is in no pair.
        threshold: a Jaccard index from 0 to 1.

    Returns:
        The pairs in order, the smaller index first.
    """
    search = _PartnerSearch(threshold)
    pairs: list[tuple[int, int]] = []
    for index, word_set in enumerate(word_sets):
        pairs += ((partner, index) for partner in search.find(word_set))
        search.add(index, word_set)
    return tuple(sorted(pairs))


def find_partners(
    word_sets: Sequence[AbstractSet[str]],
    indices: Iterable[int],
    threshold: Fraction,
    *,
    contained_only: bool = False,
) -> Iterator[tuple[int, Iterator[int]]]:
    """Yield for some of the word sets the indices of the sets that are similar to them.

    Sets are compared as in `similar_pairs`. The iterators search lazily: a caller that takes only
    the first partner does not pay for the others.

    Args:
        word_sets: all word sets.
        indices: the indices of the sets whose partners are wanted.
        threshold: a Jaccard index from 0 to 1.
        contained_only: count a pair only if one set contains the other.
    """
    search = _PartnerSearch(threshold, contained_only=contained_only)
    for index, word_set in enumerate(word_sets):
        search.add(index, word_set)
    return ((index, search.find(word_sets[index], own_index=index)) for index in indices)


class _PartnerSearch:
    """A search for the word sets that are similar to a word set.

    A set of indices is an int whose bit i says whether index i is in it. How many words each of
    thousands of sets shares with one set is then counted by a few operations on ints, and only
    similar sets are looked at one by one.
    """

    def __init__(self, threshold: Fraction, *, contained_only: bool = False) -> None:
        self._numerator = threshold.numerator
        self._denominator = threshold.denominator
        self._contained_only = contained_only
        # Which word sets have a word, and which have a number of words: bit i for index i.
        self._bits_by_word: defaultdict[str, int] = defaultdict(int)
        self._bits_by_size: defaultdict[int, int] = defaultdict(int)

    def add(self, index: int, word_set: AbstractSet[str]) -> None:
        """Let later searches find a word set."""
        bit = 1 << index
        self._bits_by_size[len(word_set)] |= bit
        for word in word_set:
            self._bits_by_word[word] |= bit

    def find(self, word_set: AbstractSet[str], own_index: int | None = None) -> Iterator[int]:
        """Yield the indices of the added sets that are similar to a word set, the lowest first.

        Args:
            word_set: the set.
            own_index: the set's own index, if it was added; it is left out.
        """
        known_words = [word for word in word_set if word in self._bits_by_word]
        shared_counts = _count_bits([self._bits_by_word[word] for word in known_words])
        # The union is no smaller than the set: similar sets share more than threshold x n words.
        min_shared = self._numerator * len(word_set) // self._denominator + 1
        candidate_bits = _select_bits(shared_counts, min_shared)
        if own_index is not None:
            candidate_bits &= ~(1 << own_index)

        similar_bits = 0
        for size, bits_of_size in self._bits_by_size.items():
            if candidate_bits & bits_of_size:
                min_shared = self._count_required_words(len(word_set), size)
                similar_bits |= bits_of_size & _select_bits(shared_counts, min_shared)
        similar_bits &= candidate_bits
        while similar_bits:
            lowest_bit = similar_bits & -similar_bits
            similar_bits ^= lowest_bit
            yield lowest_bit.bit_length() - 1

    def _count_required_words(self, size: int, other_size: int) -> int:
        """Return how many words two sets of these sizes must share to be similar.

        The Jaccard index is shared / (size + other size - shared); it must be above the threshold.
        If one set must contain the other, all words of the smaller set must be shared as well.
        """
        both_sizes = size + other_size
        required = self._numerator * both_sizes // (self._numerator + self._denominator) + 1
        if self._contained_only:
            return max(required, min(size, other_size))
        return required


def _count_bits(numbers: Iterable[int]) -> list[int]:
    """Count for each bit position in how many of the numbers the bit is set.

    All counts are added up at once, like columns of binary numbers: `digits[0]` holds the last
    binary digit of every count, `digits[1]` the digit before it, and so on.

    Returns:
        The binary digits of the counts: bit i of `digits[k]` is the digit of value 2**k in the
        count for bit i. For 0b011, 0b110 and 0b010, bit 1 is set three times, the others once: the
        result is [0b111, 0b010].
    """
    digits: list[int] = []
    for number in numbers:
        # Add 1 to the counts of all bits of the number, from the last digit on. `carry` has the
        # bits whose count overflowed at the digit before, as in addition by hand.
        carry = number
        for k, digit in enumerate(digits):
            digits[k] = digit ^ carry
            carry &= digit
            if not carry:
                break
        else:
            digits.append(carry)
    return digits


def _select_bits(digits: Sequence[int], min_count: int) -> int:
    """Return the bits that are set in at least `min_count` numbers.

    The counts of all bits are compared with `min_count` at once, digit by digit, as in comparing
    two numbers by hand: the first digit that differs decides.

    Args:
        digits: the binary digits of the counts, from `_count_bits`.
        min_count: the least count, 1 or more.

    >>> _select_bits(_count_bits([0b011, 0b110, 0b010]), 2) == 0b010
    True
    """
    has_more_digits_than_counts = min_count >> len(digits) > 0
    if has_more_digits_than_counts:
        return 0
    greater = 0  # the bits whose count is greater by a higher digit
    equal = -1  # the bits whose count has the same higher digits; -1 has all bits set
    for k in reversed(range(len(digits))):
        is_digit_set = min_count >> k & 1
        if is_digit_set:
            equal &= digits[k]
        else:
            greater |= equal & digits[k]
            equal &= ~digits[k]
    return greater | equal
