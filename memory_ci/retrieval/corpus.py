"""How rare words are in the entries at hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class Corpus(NamedTuple):
    """`total` entries, and how many of them hold a term."""

    total: int
    df: Callable[[str], int]


def idf(df: int, total: int) -> float:
    """log(1 + (N - n + 0.5) / (n + 0.5)), as Lucene has it: above zero also for what every entry says."""
    return math.log1p((max(total, df) - df + 0.5) / (df + 0.5))
