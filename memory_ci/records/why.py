"""Why: what an entry counts today, and what made it so."""

from __future__ import annotations

from datetime import date, datetime

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.records.episode import FeedbackKind, Outcome
from memory_ci.records.report import Finding


class Heard(msgspec.Struct, frozen=True):
    """One event of feedback: what it added, what the utility was after it, and the episode that it came with.

    `delta` is what was added before the value was kept within [0, 1]. `episode` is "" where none is known.
    """

    at: datetime
    kind: FeedbackKind
    delta: float
    value: float
    by: str = ""
    ref: str = ""
    episode: str = ""
    outcome: Outcome | None = None
    summary: str = ""


class Memory(msgspec.Struct, frozen=True):
    """What FSRS makes of the reviews: the days until 90 % are left, and what is left today."""

    stability: float
    retrievability: float
    reviews: int
    reviewed_on: date


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """An entry and all that its rank depends on besides the words of a task.

    `parts` multiply to `prominence`, the seed's figure; `factors` are those by which retrieve multiplies relevance,
    none where the entry is not ranked. `notes` say why it is not, and what else is to be known.
    """

    located: Located
    today: date
    prominence: float
    parts: tuple[tuple[str, float], ...]
    utility: float
    heard: tuple[Heard, ...] = ()
    is_low: bool = False
    memory: Memory | None = None
    factors: tuple[tuple[str, float], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
