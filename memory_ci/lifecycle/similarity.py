"""Which entries say nearly the same: the words they are compared by, and the pairs above a threshold."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from memory_ci.records.entry import Entry
from memory_ci.text import STOP_WORDS, content_words, stem, words

NEAR_DUPLICATE = Fraction(
    4, 5
)  # Two entries whose Jaccard index is strictly above this say the same (TeaParty).
LABEL = re.compile(
    r"""^[ \t>*_#\-]*
    (?:root[ ]cause|cause|fix|context|error|lesson(?:[ ]learned)?|learning|problem|symptom|solution|resolution|decision
      |constraint|rejected|directive|convention|gotcha|invariant|rule|rationale|prevention|impact|why|how|example|note)
    [ \t*_]*(?::[*_]*|$)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)  # A template's word, where it stands as a label or a heading: `**Cause:**`, `### Fix`. In a sentence it is content.
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    rf"""\b\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?\b
    |\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b
    |\b(?:\d{{1,2}}[ ])?{MONTH}[ ](?:\d{{1,2}},?[ ])?\d{{4}}\b""",
    re.IGNORECASE | re.VERBOSE,
)
REFERENCE = re.compile(
    r"(?<!\w)[#!]\d+\b"
)  # A request or an issue: where it comes from, not what it says.
NEGATIONS = frozenset("no not never none nor neither without cannot".split())
NEGATING = re.compile(
    "[\u4e0d\u6ca1\u6c92\u7121\u65e0\u975e\u52ff\u672a\u522b\u5225\uc54a\ubabb\ub9d0]|\u306a\u3044|\u305b\u3093|\u0e44\u0e21"
)  # What negates in words of scripts without blanks (Chinese, Japanese, Korean, Thai).
NUMBER = re.compile(r"v?\d|.*\d\.\d")  # As `30`, `v2`, `100ms`, `python3.12`.


class EntryWords(NamedTuple):
    """What an entry says: its content words, and its claims, in which like texts still contradict each other. A claim
    is a pair of neighbours: `not` and what is negated, or a number and the word before it. Each stands once, in the
    order of the text: "connect within 30, read within 60" is not "connect within 60, read within 30"."""

    words: frozenset[str]
    claims: tuple[tuple[str, str], ...]


def said(entry: Entry) -> EntryWords:
    """Words of title and body without stop words, template labels, dates and references; negations read as `not`. The
    title counts because it is part of the Markdown body in the file, and often the only part that says what is to be
    done: two entries whose bodies are both "Twice (#128)." are not one learning."""
    text = entry.text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for noise in (LABEL, DATE, REFERENCE):
        text = noise.sub(" ", text)
    spoken = ("not" if word in NEGATIONS or word.endswith("n't") else word for word in words(text))
    content = [word for word in spoken if word == "not" or word not in STOP_WORDS]
    claims = [
        pair for pair in pairwise(["", *content, ""]) if pair[0] == "not" or NUMBER.match(pair[1])
    ]
    if not text.isascii():
        claims += [("not", word) for word in content if NEGATING.search(word)]
    return EntryWords(frozenset(content), tuple(dict.fromkeys(claims)))


def words_of(entry: Entry) -> frozenset[str]:
    return said(entry).words


MIN_TITLE = 4  # Words below which a title says too little to be compared by itself.


def title_stems(entry: Entry) -> frozenset[str]:
    """The stems of the title by which it can be compared alone; none where they are too few."""
    stems = frozenset(map(stem, content_words(entry.title)))
    return stems if len(stems) >= MIN_TITLE else frozenset()


def similar_pairs(
    texts: Sequence[AbstractSet[str]], threshold: Fraction = NEAR_DUPLICATE
) -> tuple[tuple[int, int], ...]:
    """All pairs of places (smaller first, in order) whose word sets have a Jaccard index strictly above `threshold`.
    Sets that are equal all make pairs with each other: give each set once where they may be many. An empty set is like
    nothing."""
    holders: defaultdict[str, int] = defaultdict(
        int
    )  # for each word a number with a bit for each text so far
    found: list[tuple[int, int]] = []
    for at, text in enumerate(texts):
        found += ((other, at) for other in _partners(texts, at, holders, threshold))
        for word in text:
            holders[word] |= 1 << at
    return tuple(sorted(found))


def find_partners(
    texts: Sequence[AbstractSet[str]], asked: Iterable[int], threshold: Fraction
) -> Iterator[tuple[int, Iterator[int]]]:
    """For each of the places `asked` those whose word sets have a Jaccard index strictly above `threshold` with its. As
    `similar_pairs`; but few may be asked for, and who wants one partner need not have all."""
    holders: defaultdict[str, int] = defaultdict(int)
    for at, text in enumerate(texts):
        for word in text:
            holders[word] |= 1 << at
    return ((at, _partners(texts, at, holders, threshold)) for at in asked)


def _partners(
    texts: Sequence[AbstractSet[str]], at: int, holders: Mapping[str, int], threshold: Fraction
) -> Iterator[int]:
    # Of n words more than threshold x n are shared with whatever is alike, for the union is no smaller than n.
    least = threshold.numerator * len(texts[at]) // threshold.denominator + 1
    sharing = _count_to(least, [holders.get(word, 0) for word in texts[at]], (1 << len(texts)) - 1)
    while sharing:
        lowest = sharing & -sharing
        sharing ^= lowest
        other = lowest.bit_length() - 1
        shared = len(texts[at] & texts[other])
        union = len(texts[at]) + len(texts[other]) - shared
        if other != at and shared * threshold.denominator > threshold.numerator * union:
            yield other


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
