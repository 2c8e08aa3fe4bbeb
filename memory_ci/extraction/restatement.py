"""Whether two learnings say the same: equal words, a common quote, or nearly the same words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory_ci.checks.name_rules import (
    NameRule,
    find_name_conflict,
    find_name_rules,
    iter_sentences,
)
from memory_ci.records.candidate import Candidate
from memory_ci.records.entry import Entry
from memory_ci.text import content_words, jaccard, words

MIN_SIMILARITY = 0.8
"""Two texts say the same if the Jaccard similarity of their content words is above this."""


class CandidateWords(NamedTuple):
    """The words of a candidate, prepared for comparison.

    Attributes:
        words: all words in their order.
        content: the words that carry meaning.
        quotes: the quotes, with single spaces.
        names: its rules on the names of things in code.
    """

    words: tuple[str, ...]
    content: frozenset[str]
    quotes: frozenset[str]
    names: tuple[NameRule, ...] = ()


def split_words(candidate: Candidate) -> CandidateWords:
    """Prepare a candidate for comparison with others."""
    return _prepare_words(candidate, (quote.text for quote in candidate.quotes))


def _prepare_words(learning: Candidate | Entry, quotes: Iterable[str]) -> CandidateWords:
    """Return the words and quotes of a candidate or an entry, prepared for comparison."""
    # The body of an older entry repeats its title.
    opening = learning.title.rstrip(".\N{HORIZONTAL ELLIPSIS} ")
    text = learning.body
    if not text.startswith(opening):
        text = f"{learning.title}\n{text}".strip()
    normal_quotes = frozenset(" ".join(quote.split()) for quote in quotes)
    names: list[NameRule] = []
    for sentence in iter_sentences(text):
        names += find_name_rules(sentence)
    return CandidateWords(tuple(words(text)), content_words(text), normal_quotes, tuple(names))


def find_restated(candidate: Candidate, existing: Sequence[Entry]) -> str | None:
    """Return the id of the first entry that says the same as a candidate, or None."""
    candidate_words = split_words(candidate)
    for entry in existing:
        # A line of evidence is the address of a quote, a blank, and the quoted words. With the
        # setting `evidence.quotes = link`, it is the address alone.
        quotes = [line.partition(" ")[2] for line in entry.evidence]
        entry_words = _prepare_words(entry, [quote for quote in quotes if quote])
        if is_same_learning(candidate_words, entry_words):
            return entry.id
    return None


def is_same_learning(left: CandidateWords, right: CandidateWords) -> bool:
    """Return whether two candidates say the same: equal words, a common quote, or similar words.

    A commit on a branch and the message of its squash often repeat each other.
    """
    if left.words == right.words or not left.quotes.isdisjoint(right.quotes):
        return True
    if left.names and find_name_conflict(left.names, right.names):
        return False  # all words are the same, but for a prefix
    return jaccard(left.content, right.content) > MIN_SIMILARITY


def list_comparison_keys(candidate_words: CandidateWords) -> list[str]:
    """Return keys by which duplicates are found: two that say the same have a key in common.

    The keys are the words in their order, each quote, and the first content words in alphabetical
    order, as many as a text with a similarity above `MIN_SIMILARITY` must share (prefix filter of
    PPJoin, Xiao et al. 2008).
    """
    count = len(candidate_words.content)
    prefix_length = count - math.ceil(MIN_SIMILARITY * count) + 1
    prefix = sorted(candidate_words.content)[:prefix_length]
    # The signs keep keys of quotes and of whole texts apart from single words.
    quotes = [f"> {quote}" for quote in candidate_words.quotes]
    all_words = f"= {' '.join(candidate_words.words)}"
    return list({all_words, *quotes, *prefix})
