"""BM25 ranking of the entries that a query finds in an index on PostgreSQL.

Entries whose words cannot reach the score of the best ones need not be read (MaxScore: Turtle and
Flood 1995).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from memory_ci.commands.org.stems import K1, StemPattern, idf, score
from memory_ci.search.rows import Row


class WeightedPattern(NamedTuple):
    """A pattern of a query: a word, or several words in sequence, in their stemmed form.

    Attributes:
        pattern: the pattern.
        weight: its IDF times its frequency in the query.
        entry_count: how many entries contain it.
    """

    pattern: StemPattern
    weight: float
    entry_count: int


class ScoredRow(NamedTuple):
    """An entry that a query finds, and its score."""

    score: float
    row: int
    id: str
    path: str
    line: int


class AudienceCounts(NamedTuple):
    """Word statistics of an audience.

    Attributes:
        entries: the number of entries.
        words: the number of words of all entries.
        by_pattern: the number of entries that contain each pattern.
    """

    entries: int
    words: int
    by_pattern: dict[StemPattern, int]


def weigh_patterns(
    frequencies: Counter[StemPattern], counts: AudienceCounts
) -> list[WeightedPattern]:
    """Return the patterns of a query that an entry contains, those of the highest weight first.

    Args:
        frequencies: the patterns, and how often the query has each.
        counts: the statistics that the weights depend on.
    """
    weighted = []
    for pattern, frequency in frequencies.items():
        entry_count = counts.by_pattern[pattern]
        if entry_count:
            weight = frequency * idf(entry_count, counts.entries)
            weighted.append(WeightedPattern(pattern, weight, entry_count))
    return sorted(weighted, key=lambda item: (-item.weight, item.pattern))


def score_candidates(
    rows: Iterable[Row], weighted: Sequence[WeightedPattern], mean_words: float
) -> Iterator[ScoredRow]:
    """Yield the candidates that score above zero.

    Args:
        rows: rows of `CANDIDATES`.
        weighted: the patterns of the query.
        mean_words: the mean number of words of an entry.
    """
    texts = [(item.pattern.text, item.weight) for item in weighted]
    for row, entry_id, path, line, size, stems in rows:
        bm25 = score(stems, size, mean_words, texts)
        if bm25 > 0:
            yield ScoredRow(bm25, row, entry_id, path, line)


def count_first_round_patterns(weighted: Sequence[WeightedPattern], candidate_count: int) -> int:
    """Return how many patterns are read first: as many as find `candidate_count` entries.

    The patterns of the highest weight come first. An entry with two of them counts twice.

    Args:
        weighted: the patterns of the query, those of the highest weight first.
        candidate_count: the number of entries to find.
    """
    sums = accumulate(item.entry_count for item in weighted)
    for number, found_count in enumerate(sums, 1):
        if found_count >= candidate_count:
            return number
    return len(weighted)


def count_patterns_to_read(weighted: Sequence[WeightedPattern], least_score: float) -> int:
    """Return how many of the first patterns must be read to find all entries above `least_score`.

    An entry with none of these patterns cannot reach the score by all others together. A pattern
    contributes (K1 + 1) times its weight at most.
    """
    bound = 0.0
    number = len(weighted)
    for item in reversed(weighted):
        bound += (K1 + 1) * item.weight
        if bound > least_score:
            break
        number -= 1
    return number
