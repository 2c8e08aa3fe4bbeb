"""Candidate: a learning proposed, not yet kept; and what was decided about it."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records.entry import Adoption, Domain, EntryType

Verdict = Literal["written", "restates", "suspected", "quarantined", "over_limit"]


class Quote(msgspec.Struct, frozen=True):
    """Words that prove a candidate: the evidence they stand in, its origin, and the exact text."""

    evidence: str
    text: str
    origin: str = ""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposed learning. `scope` is a target as in Entry.scope; `is_marked`: its author marked it.

    `engine` found it; `session` is that of its first quote; `relations` are as in Entry.relations.
    """

    title: str
    body: str
    type: EntryType
    domain: Domain
    importance: float
    scope: str
    extraction_scope: str
    quotes: tuple[Quote, ...]
    is_marked: bool
    marker: str = ""
    cites: tuple[str, ...] = ()
    adoption: Adoption | None = None
    instead: str | None = None
    source: str = ""
    occurred_at: date | None = None
    engine: str = "rules"
    session: str | None = None
    relations: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A candidate and what became of it; `entry_id` is the entry written or restated."""

    candidate: Candidate
    verdict: Verdict
    reason: str
    change: str = ""
    entry_id: str | None = None
