"""Evidence: redacted, bounded, trust-tiered text that extraction may read."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from memory_ci.records.event import Actor, EventKind, Origin

Trust = Literal["T0", "T1", "T2", "T3"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One readable piece. `id` is its address inside one request ("e1"); `text` holds no secrets."""

    id: str
    kind: EventKind
    text: str
    trust: Trust
    origin: Origin
    at: datetime
    actor: Actor = "human"
    session: str | None = None
    tool: str | None = None
    ok: bool | None = None
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class LeftOut(msgspec.Struct, frozen=True):
    """An event that is not evidence, and why: a count in the report, never a silent drop."""

    origin: Origin
    reason: str


class EvidenceSet(msgspec.Struct, frozen=True):
    """What may be read of one merged change, what was left out, and how many credentials were masked."""

    pieces: tuple[Evidence, ...]
    left_out: tuple[LeftOut, ...] = ()
    redactions: int = 0
