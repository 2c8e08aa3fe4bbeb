"""Keep near-duplicates from filling the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from memory_ci.records.retrieval import Hit
from memory_ci.text import content_words, jaccard

MMR_WEIGHT = 0.7
"""Measured: near-duplicates go, quality stays (docs/ranking.md)."""

ALIKE = 0.8
"""Copies of one id whose words are no more alike than this are two entries, of which one has the other's id."""


def diversify(hits: Sequence[Hit], *, weight: float = MMR_WEIGHT) -> list[Hit]:
    """`hits`, best first, in the order of maximal marginal relevance; an entry that stands in two files is served once.

    At each step the next hit is the one with the highest weight x score - (1 - weight) x likeness, where a score is
    a share of the best one and likeness is the Jaccard index of content words with the nearest hit already chosen
    (Carbonell and Goldstein, SIGIR 1998). Likeness is carried from step to step instead of being computed anew.
    """
    unique = list(_once_each(hits))
    best = max((hit.score for hit in unique), default=1.0)
    bits = _bits([content_words(f"{hit.located.entry.title}\n{hit.located.entry.body}") for hit in unique])
    sizes = [own.bit_count() for own in bits]
    gains = [weight * hit.score / best for hit in unique]
    likeness = [0.0] * len(unique)
    left = list(range(len(unique)))
    order: list[int] = []
    while left:
        chosen = max(left, key=lambda place: gains[place] - (1 - weight) * likeness[place])
        left.remove(chosen)
        order.append(chosen)
        for place in left:
            shared = (bits[chosen] & bits[place]).bit_count()
            alike = shared / (sizes[chosen] + sizes[place] - shared or 1)
            if alike > likeness[place]:
                likeness[place] = alike
    return [unique[place] for place in order]


def _once_each(hits: Iterable[Hit]) -> Iterator[Hit]:
    served: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for hit in hits:
        entry = hit.located.entry
        words = content_words(f"{entry.title}\n{entry.body}")
        if all(words != other and jaccard(words, other) <= ALIKE for other in served[entry.id]):
            yield hit
        served[entry.id].append(words)


def _bits(texts: Iterable[frozenset[str]]) -> list[int]:
    """Each set of words as one integer, a bit for a word: comparing all pairs is then five times faster."""
    vocabulary: dict[str, int] = {}
    return [sum(1 << vocabulary.setdefault(word, len(vocabulary)) for word in text) for text in texts]
