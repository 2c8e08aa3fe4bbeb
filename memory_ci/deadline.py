"""One deadline over a whole call of a client, from the connection on; the end of a program that passed its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def call_bounded(call: Callable[[float], T], seconds: float) -> T:
    """What `call` returns within `seconds` in all. Raises TimeoutError, or what `call` raises.

    A time-out of an HTTP client bounds each read: a reply of one byte a second never ends. So the call has a thread of
    its own; one that is given up ends with its connection, or with the process.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call(seconds))
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that waits
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()
    return await_outcome(outcome, seconds)


def await_outcome(outcome: Future[T], seconds: float) -> T:
    """Return the result of a future. Raises TimeoutError after `seconds`, or what the call raised."""
    return outcome.result(timeout=seconds)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that was started with `start_new_session` and what it started; on Windows the program alone. Where
    nothing is left, or (macOS) only what has ended, none is hit."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
