"""Deadlines that pass on an event of the test, not on the clock."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Semaphore
from typing import TypeVar

import pytest

from memory_ci import deadline

T = TypeVar("T")


def give_up_when(stuck: Semaphore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each call with a deadline time out as soon as the test's server signals that it hangs.

    Args:
        stuck: the server releases it once for each request that it does not finish answering.
        monkeypatch: replaces the wait in `memory_ci.deadline`.
    """

    def await_outcome(outcome: Future[T], seconds: float) -> T:
        outcome.add_done_callback(lambda _: stuck.release())  # a call that ends needs no timeout
        stuck.acquire()
        return outcome.result(timeout=0)

    monkeypatch.setattr(deadline, "await_outcome", await_outcome)
