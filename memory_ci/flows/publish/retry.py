"""Pace: how often a lost race is run again, and how long a run waits before it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import SystemRandom

MAX_TRIES = 8
MAX_SECONDS = 60.0
BASE_SECONDS = 0.25
CAP_SECONDS = 10.0
"""Waits are drawn evenly between 0 and a bound that doubles: full jitter keeps writers apart that met once."""

RANDOM = SystemRandom()


class Pace:
    """`clock` gives seconds that never go back, `sleep` waits, `draw` gives a number between two others."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[float, float], float] = RANDOM.uniform,
    ) -> None:
        self._clock, self._sleep, self._draw = clock, sleep, draw

    def tries(self) -> Iterator[int]:
        """1, 2, 3 … with a wait before each but the first, until there were enough or the time is over."""
        end = self._clock() + MAX_SECONDS
        yield 1
        for number in range(2, MAX_TRIES + 1):
            wait = self._draw(0, min(CAP_SECONDS, BASE_SECONDS * 2**number))
            if self._clock() + wait >= end:
                return
            self._sleep(wait)
            yield number
