"""Metrics of extraction: matches with gold learnings, and agreement of labellers."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.commands.evaluate.records import GoldLearning, GoldWindow
from memory_ci.records.candidate import Candidate
from memory_ci.text import content_words, jaccard

SAME_WORDS = 0.5  # Least Jaccard index of the content words of a quote and of its gold quote.


def is_match(candidate: Candidate, learning: GoldLearning) -> bool:
    """Return whether a candidate quotes the words that prove a learning of the gold data.

    One quote may be a part of the other, or have half of the same words.
    """
    gold_quote = " ".join(learning.quote.split())
    for candidate_quote in candidate.quotes:
        quote = " ".join(candidate_quote.text.split())
        if gold_quote in quote or quote in gold_quote:
            return True
        if jaccard(content_words(gold_quote), content_words(quote)) >= SAME_WORDS:
            return True
    return False


def kappa(windows: Sequence[GoldWindow]) -> tuple[float | None, int]:
    """Return Cohen's kappa of the first two labels of windows, and how many windows have two."""
    labels = [window.labels for window in windows if len(window.labels) > 1]
    return cohen_kappa([(first.is_durable, second.is_durable) for first, second, *_ in labels])


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> tuple[float | None, int]:
    """Return Cohen's kappa (Cohen 1960) of two readers' answers, and the number of pairs.

    Kappa is (agreement - agreement expected by chance) / (1 - agreement expected by chance); None
    without answers.
    """
    if not pairs:
        return None, 0
    count = len(pairs)
    agreement = sum(first == second for first, second in pairs) / count
    first_yes = sum(first for first, _ in pairs) / count
    second_yes = sum(second for _, second in pairs) / count
    expected = first_yes * second_yes + (1 - first_yes) * (1 - second_yes)
    if expected == 1:
        return 1.0, count
    return round((agreement - expected) / (1 - expected), 3), count
