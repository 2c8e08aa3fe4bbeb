"""Match, Hit, Retrieval: what the index found, what was ranked, what is served."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding
from memory_ci.records.task import SimilarTask

Strength = Literal["HIT", "WEAK", "MISS"]
"""Whether memory speaks of what was asked: yes; of a part of it; no, what is served is the nearest there is."""


Mode = Literal["lexical", "hybrid", "degraded"]
"""Which lanes answered: words alone, words and vectors, or words because the vectors failed."""


class Match(msgspec.Struct, frozen=True):
    """An entry the index found. `lexical` is -bm25(): higher is better, comparable within one query."""

    located: Located
    lexical: float


class Hit(msgspec.Struct, frozen=True):
    """A ranked entry: final score and the factors whose product it is, in the order they apply.

    `lanes` are the raw scores of the lanes that found it; `verdicts` say what became of the code it cites. `related`
    says by what relation it came, if not by the task's words: such a hit follows the others. `events`: how often
    something was said of it; `is_low`: so much against it that a person should look at it.
    """

    located: Located
    score: float
    factors: tuple[tuple[str, float], ...]
    lanes: tuple[tuple[str, float], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    related: str = ""
    events: int = 0
    is_low: bool = False


class Withheld(msgspec.Struct, frozen=True):
    """A ranked entry that is not served although there may be room for it, and why."""

    hit: Hit
    why: str


class Norm(msgspec.Struct, frozen=True):
    """A part of institutional memory, loaded whole and never ranked: an entry, or prose of the file."""

    path: str
    line: int
    text: str
    entry_id: str | None = None
    prominence: float = 0.0


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one task: what is injected, what was dropped for want of room, what was not read.

    `notes` is what the caller should know of how it was answered, one sentence each. `verdict` is None where nothing
    was judged.
    """

    task: str
    mode: Mode
    norms: tuple[Norm, ...] = ()
    norms_dropped: tuple[Norm, ...] = ()
    hits: tuple[Hit, ...] = ()
    hits_dropped: tuple[Hit, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    verdict: Strength | None = None
    similar: tuple[SimilarTask, ...] = ()
