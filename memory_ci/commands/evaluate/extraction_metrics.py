"""Metrics of extraction: matches with gold learnings, and agreement of labellers."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.commands.evaluate.records import GoldLearning, GoldWindow
from memory_ci.records.candidate import Candidate
from memory_ci.text import content_words, jaccard

SAME_WORDS = 0.5  # Least Jaccard index of the content words of a quote and of its gold quote.


def is_match(candidate: Candidate, learning: GoldLearning) -> bool:
    """Return whether a quote of a candidate is the gold quote, in part or in whole."""
    gold = " ".join(learning.quote.split())
    for quote in candidate.quotes:
        text = " ".join(quote.text.split())
        if gold in text or text in gold:
            return True
        if jaccard(content_words(gold), content_words(text)) >= SAME_WORDS:
            return True
    return False


def kappa(windows: Sequence[GoldWindow]) -> tuple[float | None, int]:
    """Return Cohen's kappa of the first two labels of windows, and how many windows have two."""
    labels = [window.labels for window in windows if len(window.labels) > 1]
    return cohen_kappa([(first.is_durable, second.is_durable) for first, second, *_ in labels])


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> tuple[float | None, int]:
    """Return Cohen's kappa (Cohen 1960) of two readers' answers, and how many both gave.

    Kappa is None without answers.
    """
    if not pairs:
        return None, 0
    count = len(pairs)
    agreement = sum(first == second for first, second in pairs) / count
    first_yes = sum(first for first, _ in pairs) / count
    second_yes = sum(second for _, second in pairs) / count
    chance = first_yes * second_yes + (1 - first_yes) * (1 - second_yes)
    if chance == 1:
        return 1.0, count
    return round((agreement - chance) / (1 - chance), 3), count
