"""Match, Hit, Retrieval: what the index found, what was ranked, what is served."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.entry import Located
from memory_ci.records.report import Finding


class Match(msgspec.Struct, frozen=True):
    """An entry the index found. `lexical` is -bm25(): higher is better, comparable within one query."""

    located: Located
    lexical: float


class Hit(msgspec.Struct, frozen=True):
    """A ranked entry: final score and the factors whose product it is, in the order they apply."""

    located: Located
    score: float
    factors: tuple[tuple[str, float], ...]


class Norm(msgspec.Struct, frozen=True):
    """A part of institutional memory, loaded whole and never ranked: an entry, or prose of the file."""

    path: str
    line: int
    text: str
    entry_id: str | None = None
    prominence: float = 0.0


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one task: what is injected, what was dropped for want of room, what was not read."""

    task: str
    mode: Literal["lexical", "hybrid", "degraded"]
    norms: tuple[Norm, ...] = ()
    norms_dropped: tuple[Norm, ...] = ()
    hits: tuple[Hit, ...] = ()
    hits_dropped: tuple[Hit, ...] = ()
    findings: tuple[Finding, ...] = ()
