"""Budget: what one run may spend on asking a forge, so that a slow one never holds up a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_ci.forge.failures import budget_spent

MAX_REQUESTS = 600
"""A GITHUB_TOKEN may ask 1,000 times an hour and repository; other jobs of the hour want some of them."""

MAX_SECONDS = 300.0
MAX_WAIT = 60.0
"""Seconds of waiting, in a run, for a limit to pass or a server to come back."""


class Budget:
    """Requests, seconds and waiting that are left. `clock` gives seconds that never go back; `sleep` waits."""

    def __init__(
        self,
        *,
        requests: int = MAX_REQUESTS,
        seconds: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._requests = requests
        self._wait = MAX_WAIT
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    def now(self) -> float:
        """Seconds of the clock that the budget is measured by."""
        return self._clock()

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self._end - self._clock())

    def spend(self) -> None:
        """Count one request. Raises EngineError (forge-budget-spent) when there is none left, or no time."""
        if self._requests <= 0:
            raise budget_spent("all requests of this run to the forge are made")
        self._requests -= 1
        self.check_deadline()

    def refund(self) -> None:
        """Take the last request back: an unchanged reply costs nothing."""
        self._requests += 1

    @contextmanager
    def half(self) -> Iterator[None]:
        """Within it half of the requests and of the time that are left may be spent: the rest is for what follows."""
        kept, end = self._requests // 2, self._end
        self._requests -= kept
        self._end -= max(0.0, end - self._clock()) / 2
        try:
            yield
        finally:
            self._requests += kept
            self._end = end

    def check_deadline(self) -> None:
        """Raises EngineError (forge-budget-spent) when the time of the run is over."""
        if self._clock() >= self._end:
            raise budget_spent("the time of this run for asking the forge is over")

    def wait(self, seconds: float) -> bool:
        """Wait, or return False at once when that is more than is left."""
        if seconds > self._wait or self._clock() + seconds >= self._end:
            return False
        self._wait -= seconds
        self._sleep(seconds)
        return True
