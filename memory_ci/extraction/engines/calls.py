"""Calls: at most three tries, waits that we choose and not the server, a bound on each call and on the whole run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from memory_ci.deadline import call_bounded
from memory_ci.errors import EngineError

T = TypeVar("T")

TRIES = 3
MAX_WAIT = 60.0  # Seconds between two tries at most, whatever a Retry-After says: it may name an hour.


class Clock(NamedTuple):
    """What a loop of tries needs of the outer world, in seconds; `jitter` gives [0, 1)."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


SYSTEM_CLOCK = Clock()


class CallLimits(NamedTuple):
    """`deadline` is a time of the clock, for the whole run; `call_seconds` bounds each call."""

    deadline: float
    call_seconds: float
    tries: int = TRIES


class CallFailure(NamedTuple):
    """Why a call failed, and whether the same call may work later; `retry_after` is the server's wish in seconds."""

    error: EngineError
    is_transient: bool = False
    retry_after: float | None = None


def call_with_tries(
    call: Callable[[float], T], explain: Callable[[Exception], CallFailure], limits: CallLimits, clock: Clock
) -> T:
    """What `call(seconds it may take)` returns, tried again while its failure is transient.

    Raises the EngineError that `explain` makes of the last failure, or [engine-deadline] when the run's time is up.
    """
    for number in range(1, limits.tries + 1):
        left = limits.deadline - clock.now()
        if left <= 0:
            raise _deadline("before the call was made")
        try:
            return call_bounded(call, min(left, limits.call_seconds))
        except Exception as error:  # noqa: BLE001 - the one boundary: an SDK may throw anything
            failure = explain(error)
        if not failure.is_transient or number == limits.tries:
            raise failure.error
        wait = wait_seconds(failure, number, clock.jitter())
        if clock.now() + wait >= limits.deadline:
            raise _deadline(f"while the call was tried again; last: {failure.error.message}")
        clock.sleep(wait)
    raise AssertionError("unreachable: the last try returns or raises")


def wait_seconds(failure: CallFailure, number: int, jitter: float) -> float:
    """Seconds to wait after try `number` (from 1): what the server asks for, else 1, 2, 4 … less up to half."""
    if failure.retry_after is not None:
        return min(failure.retry_after, MAX_WAIT)
    return min(2.0 ** (number - 1), MAX_WAIT) * (1 - jitter / 2)


def _deadline(when: str) -> EngineError:
    return EngineError(
        f"the time for all calls of this run was up {when}",
        slug="engine-deadline",
        hint="run again: the same range is taken; or raise engine.deadline_seconds",
    )
