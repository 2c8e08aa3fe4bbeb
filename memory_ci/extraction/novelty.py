"""Novelty: whether a learning is one that is known already, so that it reinforces instead of repeating."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from memory_ci.records.candidate import Candidate
from memory_ci.records.entry import Entry
from memory_ci.text import content_words, jaccard, words

SAME = 0.8  # Jaccard of content words strictly above this is the same learning in other words.


def find_restated(candidate: Candidate, existing: Sequence[Entry]) -> str | None:
    """The id of the first entry that says what `candidate` says: equal words, the same quote, or nearly all words."""
    text, quotes = _text(candidate), {_folded(quote.text) for quote in candidate.quotes}
    for entry in existing:
        proofs = {_folded(line.partition(" ")[2]) for line in entry.evidence}
        if is_same(text, quotes, _text(entry), proofs):
            return entry.id
    return None


class CandidateWords(NamedTuple):
    """What a candidate says, taken apart once: its words in order, those that carry meaning, and its quotes."""

    words: tuple[str, ...]
    content: frozenset[str]
    quotes: frozenset[str]


def said_by(candidate: Candidate) -> CandidateWords:
    """What `candidate` says, to be compared with others of the same run."""
    text = _text(candidate)
    return CandidateWords(
        tuple(words(text)), content_words(text), frozenset(_folded(quote.text) for quote in candidate.quotes)
    )


def is_same_said(one: CandidateWords, other: CandidateWords) -> bool:
    """Whether two candidates of one run are one learning: a branch commit and the squash message repeat it."""
    is_equal = one.words == other.words or not one.quotes.isdisjoint(other.quotes)
    return is_equal or jaccard(one.content, other.content) > SAME


def is_same(text: str, quotes: Collection[str], other_text: str, other_quotes: Collection[str]) -> bool:
    """Equal words, a quote in common, or a Jaccard of content words above `SAME`."""
    if list(words(text)) == list(words(other_text)) or set(quotes) & set(other_quotes):
        return True
    return jaccard(content_words(text), content_words(other_text)) > SAME


def _text(learning: Candidate | Entry) -> str:
    """The body repeats a title that was cut; a title that says it all has no body."""
    return learning.body or learning.title


def _folded(text: str) -> str:
    return " ".join(text.split())
