"""Limits of asking: what a forge states in the headers of a refusal, and the budget of one run.

GitHub refuses with 403 or 429: over the primary limit `x-ratelimit-remaining` is 0 and `x-ratelimit-reset` says when
it is lifted; over a secondary one there is `retry-after`, or only a sentence, and then a minute is asked for
(docs.github.com, "Rate limits for the REST API"). GitLab refuses with 429 and `retry-after`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from memory_ci.forge.failures import budget_spent

SECONDARY = b"secondary rate limit"
SECONDARY_WAIT = 60.0
UNSTATED_WAIT = 1.0  # Seconds to wait after a 429 that says nothing.


class Limit(NamedTuple):
    """How long to wait in seconds, and when that is over, in words."""

    seconds: float
    until: str


def find_limit(status: int, headers: Mapping[str, str], body: bytes) -> Limit | None:
    """The limit that a reply refuses by, or None when it is no such refusal. Header names are in lower case."""
    if status not in (403, 429):
        return None
    if (asked := headers.get("retry-after", "")) and (limit := _after(asked, headers)):
        return limit
    if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset", "").isdecimal():
        return _reset(headers["x-ratelimit-reset"], headers)
    if SECONDARY in body[:10_000]:
        return Limit(SECONDARY_WAIT, "in a minute")
    return Limit(UNSTATED_WAIT, "later: it did not say when") if status == 429 else None


def _after(asked: str, headers: Mapping[str, str]) -> Limit | None:
    if asked.isdecimal():
        return Limit(float(asked), f"in {asked} s")
    return _at(_date(asked), headers)


def _reset(seconds: str, headers: Mapping[str, str]) -> Limit | None:
    try:
        return _at(datetime.fromtimestamp(int(seconds), UTC), headers)
    except (OverflowError, ValueError, OSError):
        return None


def _at(end: datetime | None, headers: Mapping[str, str]) -> Limit | None:
    """The time until `end` by the forge's own clock; without its Date there is no telling, and so no waiting."""
    if end is None:
        return None
    now = _date(headers.get("date", ""))
    seconds = max((end - now).total_seconds(), UNSTATED_WAIT) if now else math.inf
    return Limit(seconds, f"at {end:%Y-%m-%d %H:%M:%S} UTC")


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


MAX_REQUESTS = 600
"""A GITHUB_TOKEN may ask 1,000 times an hour and repository; other jobs of the hour want some of them."""

MAX_SECONDS = 300.0
MAX_WAIT = 60.0  # Seconds of waiting, in a run, for a limit to pass or a server to come back.


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
