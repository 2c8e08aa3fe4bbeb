"""How near a text is to a task besides BM25: letters in common, and what stands next to it in its session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Match
from memory_ci.retrieval.query import told
from memory_ci.retrieval.rank import Lane, Place, place_of, shares
from memory_ci.text import STOP_WORDS, UNSPACED

GRAM_WEIGHT, GRAM, PAIR = 0.4, 4, 2
"""What the share of the first line's letters in a row counts beside BM25 (docs/ranking.md)."""

NEIGHBOUR_WEIGHT = 0.3  # What a note gets of the relevance of the better one of those beside it.
LETTERS = re.compile(r"[^\W_]+")
BLANKED = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))
"""A table for bytes.translate: letters, digits and what is beyond ASCII as it is; all else is a blank."""


def lexical_lane(task: str, matches: Sequence[Match], neighbours: Mapping[Place, Sequence[Place]]) -> Lane:
    """BM25 as a share of the best, and 0.4 x the share of the 4-grams of the task's first line that an entry holds.

    `neighbours` are the notes beside some: a note gets 0.3 of what the better of those beside it has.
    """
    asked = _grams(told(task).partition("\n")[0])
    lane = dict(shares({place_of(match.located): match.lexical for match in matches}))
    for match in matches:
        lane[place_of(match.located)] += GRAM_WEIGHT * _share(asked, match.located.entry)
    beside = {
        place: max((lane.get(other, 0.0) for other in others), default=0.0) for place, others in neighbours.items()
    }
    return {place: score + NEIGHBOUR_WEIGHT * beside.get(place, 0.0) for place, score in lane.items()}


def most_letters(line: str, entries: Iterable[Entry]) -> float:
    """The largest share of the 4-grams of `line` that one of `entries` holds."""
    asked = _grams(line)
    return max((_share(asked, entry) for entry in entries), default=0.0)


def _grams(line: str) -> frozenset[bytes]:
    """Four letters in a row of each word, its edges counting as one each; two of a script without blanks."""
    found = [word for word in LETTERS.findall(line.lower()) if word not in STOP_WORDS]
    sized = [(word, PAIR) if UNSPACED.search(word) else (f" {word} ", GRAM) for word in found]
    return frozenset(word[at : at + size].encode() for word, size in sized for at in range(len(word) - size + 1))


def _share(asked: frozenset[bytes], entry: Entry) -> float:
    text = f" {entry.title} {entry.body} ".lower().encode().translate(BLANKED)
    return sum(gram in text for gram in asked) / len(asked) if asked else 0.0
