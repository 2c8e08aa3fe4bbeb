"""Proportions with 95 % confidence intervals, and the interval of the difference of two."""

from __future__ import annotations

import math

import msgspec

Z = 1.959964  # The normal deviate of a 95 % interval.


class Share(msgspec.Struct, frozen=True):
    """A proportion with its 95 % confidence interval.

    Attributes:
        low: the lower end of the interval; None if `total` is 0.
        high: the upper end, as `low`.
    """

    hits: int
    total: int
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        """The proportion, or None if `total` is 0."""
        return self.hits / self.total if self.total else None


def compute_share(hits: int, total: int) -> Share:
    """Return the proportion `hits / total` with its Wilson score interval (Wilson 1927).

    The interval also holds for small totals and for proportions near 0 or 1.
    """
    if total == 0:
        return Share(hits, total)
    rate = hits / total
    spread = Z * Z / total
    middle = (rate + spread / 2) / (1 + spread)
    variance = rate * (1 - rate) / total + spread / (4 * total)
    half_width = Z / (1 + spread) * math.sqrt(variance)
    low = max(0.0, middle - half_width)
    high = min(1.0, middle + half_width)
    return Share(hits, total, round(low, 3), round(high, 3))


def newcombe_interval(first: Share, second: Share) -> tuple[float, float]:
    """Return the ends of the 95 % interval of `first - second`.

    It is method 10 of Newcombe (Statistics in Medicine, 1998). Both proportions must have a total
    of at least 1, and an interval.
    """
    first_rate = first.hits / first.total
    first_low = first.low or 0.0
    first_high = first.high or 0.0
    second_rate = second.hits / second.total
    second_low = second.low or 0.0
    second_high = second.high or 0.0

    difference = first_rate - second_rate
    low = difference - math.hypot(first_rate - first_low, second_high - second_rate)
    high = difference + math.hypot(first_high - first_rate, second_rate - second_low)
    return low, high
