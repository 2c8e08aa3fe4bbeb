"""A proportion with its interval."""

from __future__ import annotations

import math

import msgspec

Z = 1.959964  # The normal deviate of a 95 % interval.


class Share(msgspec.Struct, frozen=True):
    """`hits` of `total`, with its 95 % interval; no share where there was nothing to count."""

    hits: int
    total: int
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None


def share(hits: int, total: int) -> Share:
    """A share with its Wilson interval (Wilson 1927), which also holds for few and for extreme ones."""
    if not total:
        return Share(hits, total)
    rate, spread = hits / total, Z * Z / total
    middle = (rate + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(rate * (1 - rate) / total + spread / (4 * total))
    return Share(hits, total, round(max(0.0, middle - half), 3), round(min(1.0, middle + half), 3))
