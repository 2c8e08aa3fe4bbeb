"""BlamedLines: lines of a file, and the work that brought them."""

from __future__ import annotations

from datetime import date

import msgspec


class NamedEntry(msgspec.Struct, frozen=True):
    """An entry by id, with its title where memory has it still; whether the work said that it used it."""

    id: str
    title: str = ""
    is_used: bool = False


class BlamedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file that one piece of work brought. `number` is that of its request; `commit` "": not committed."""

    path: str
    first: int
    last: int
    commit: str
    day: date
    subject: str
    number: int | None = None
    given: tuple[NamedEntry, ...] = ()
    learned: tuple[NamedEntry, ...] = ()
