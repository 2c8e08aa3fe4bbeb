"""Time limits for whole calls, and the end of programs that exceed them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


def call_bounded(call: Callable[[float], T], seconds: float) -> T:
    """Return the result of a call, or raise TimeoutError if all of it takes too long.

    The timeout of an HTTP client limits each read only: a reply of one byte a second never ends. So
    the call runs in a thread, which after a timeout ends with its connection or the process.

    Args:
        call: the call, which gets `seconds` as its own timeout.
        seconds: the time for all of it.

    Raises:
        TimeoutError: the call takes longer. Errors of the call are raised as well.
    """
    from concurrent.futures import Future  # Not at the top: it takes 5 ms, which hooks do not have.

    outcome: Future[T] = Future()

    def work() -> None:
        """Set the result or the error of the call."""
        try:
            outcome.set_result(call(seconds))
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that waits
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()
    return await_outcome(outcome, seconds)


def await_outcome(outcome: Future[T], seconds: float) -> T:
    """Return the result of a future, or raise its error.

    Raises:
        TimeoutError: the future has no result after `seconds`.
    """
    return outcome.result(timeout=seconds)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that was started with `start_new_session`, and its children.

    On Windows only the program is killed. It is no error if all have ended already.
    """
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
