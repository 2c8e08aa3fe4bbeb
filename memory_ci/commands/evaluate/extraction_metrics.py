"""How well an engine extracts: what is counted, and with how much certainty."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.commands.evaluate.records import GoldLearning, GoldWindow
from memory_ci.records.candidate import Candidate
from memory_ci.text import content_words, jaccard

SAME_WORDS = (
    0.5  # Jaccard of content words from which a quote is taken for the one that gold names.
)


def is_match(candidate: Candidate, learning: GoldLearning) -> bool:
    """Whether a candidate is proven by the words that gold names, in part or in whole."""
    gold = " ".join(learning.quote.split())
    for quote in candidate.quotes:
        text = " ".join(quote.text.split())
        if (
            gold in text
            or text in gold
            or jaccard(content_words(gold), content_words(text)) >= SAME_WORDS
        ):
            return True
    return False


def kappa(windows: Sequence[GoldWindow]) -> tuple[float | None, int]:
    """Cohen's kappa (Cohen 1960) of the first two labels of each window that has two, and how many those are."""
    return cohen_kappa(
        [(w.labels[0].is_durable, w.labels[1].is_durable) for w in windows if len(w.labels) > 1]
    )


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> tuple[float | None, int]:
    """Cohen's kappa of what two said of the same things, and how many these are."""
    if not pairs:
        return None, 0
    count = len(pairs)
    agreed = sum(one == other for one, other in pairs) / count
    yes = [sum(pair[side] for pair in pairs) / count for side in (0, 1)]
    chance = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    return (1.0 if chance == 1 else round((agreed - chance) / (1 - chance), 3)), count
