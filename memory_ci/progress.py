"""Progress of long work, reported to a listener.

Work that may take more than a second calls `report` or `count`, with a label in plain words. The
command line shows it at a terminal (`cli.plain.progress`); without a listener nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]
"""Called with the label, the number of items that are done, and their total; 0 if unknown."""

_listener: ContextVar[Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Pass all progress that is reported in the block to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(label: str, done: int = 0, total: int = 0) -> None:
    """Report that work goes on: "Reading sessions", 3 of 12; without a total only the label."""
    listener = _listener.get()
    if listener is not None:
        listener(label, done, total)


def count(label: str, items: Iterable[T], total: int | None = None) -> Iterator[T]:
    """Yield the items, and report before each one how many are done.

    Args:
        label: the work, in plain words.
        items: the items.
        total: the number of items; None to take the length of a collection.

    >>> list(count("Reading files", ["a", "b"]))
    ['a', 'b']
    """
    if total is None:
        total = len(items) if isinstance(items, Sized) else 0
    for done, item in enumerate(items):
        report(label, done, total)
        yield item
