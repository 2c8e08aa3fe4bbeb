"""Calls that are given up when something has happened, not when a time is over."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Semaphore
from typing import TypeVar

import pytest

from memory_ci import deadline

T = TypeVar("T")


def give_up_when(stuck: Semaphore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every bounded call pass its deadline as soon as a server says by `stuck` that it hangs.

    Args:
        stuck: released once for each call that the server does not answer to its end.
        monkeypatch: takes the place of the clock in `memory_ci.deadline`.
    """

    def await_outcome(outcome: Future[T], seconds: float) -> T:
        outcome.add_done_callback(lambda _: stuck.release())  # a call that ends is not waited for
        stuck.acquire()
        return outcome.result(timeout=0)

    monkeypatch.setattr(deadline, "await_outcome", await_outcome)
