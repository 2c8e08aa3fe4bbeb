"""The patterns of checks: regular expressions of Python with a limit on their time.

Python's engine may take exponential time, and an engine that does not (RE2) has no wheel for every
system that memory-ci runs on. It looks for signals while it matches, so that a timer ends it. Only
the main thread of a process gets signals; in others a pattern is not judged.
"""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType

MAX_PATTERN = 500  # Characters of a pattern.
MAX_LINE = 10_000  # Characters of a line that is searched.
SECONDS = 0.5  # Seconds for all lines that one check searches in one change.


class PatternError(ValueError):
    """A pattern that is not allowed; the message says why."""


class UnjudgedError(Exception):
    """A text could not be searched for a pattern; the message says why."""


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern of a check.

    Raises:
        PatternError: it is empty, too long or no regular expression.
    """
    if not text.strip():
        raise PatternError("is empty")
    if len(text) > MAX_PATTERN:
        raise PatternError(f"has more than {MAX_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise PatternError(f"is no regular expression: {error}") from None


def find_match(pattern: re.Pattern[str], texts: Iterable[str]) -> int | None:
    """Return the position of the first text in which a pattern is found.

    Patterns are searched inside a block of `limit_time`, which all searches of a check share.

    Args:
        pattern: the pattern.
        texts: lines, or messages.

    Returns:
        The position from 0; None if the pattern is in none of them.

    Raises:
        UnjudgedError: it is in none that was searched, and a text is too long.
    """
    unjudged = ""
    for position, text in enumerate(texts):
        if len(text) > MAX_LINE:
            unjudged = f"a line has more than {MAX_LINE:,} characters"
        elif pattern.search(text):
            return position
    if unjudged:
        raise UnjudgedError(unjudged)
    return None


@contextmanager
def limit_time() -> Iterator[None]:
    """End a block with an error after `SECONDS`, the time of one check for one change.

    Raises:
        UnjudgedError: the time is over, or this is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UnjudgedError("patterns are only searched in the main thread, where time is limited")
    previous_handler = signal.signal(signal.SIGALRM, _raise_unjudged)
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, previous_handler)


def _raise_unjudged(_signal: int, _frame: FrameType | None) -> None:
    raise UnjudgedError(f"the pattern took more than {SECONDS:g} s")
