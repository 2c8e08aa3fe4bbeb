"""Plan: everything a record run decided, as one JSON document (docs/plan.schema.json)."""

from __future__ import annotations

import msgspec

from memory_ci.records.candidate import Judged
from memory_ci.records.change import Change, Step
from memory_ci.records.report import Finding

PLAN_VERSION = 1


class EngineUse(msgspec.Struct, frozen=True):
    """Which engine ran, and why that one."""

    name: str
    reason: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run looked at. `left_out` counts events by the reason they are not evidence."""

    merged_changes: int = 0
    commits: int = 0
    redactions: int = 0
    left_out: dict[str, int] = {}


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step, which become one commit."""

    step: Step
    changes: tuple[Change, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions for the range since..until, valid on the tree of `base` of branch `ref`.

    `until` is None for a plan of upkeep alone: it covers no merged work. `counted` are the tips of the merged changes
    that the reinforce step counts.
    """

    schema_version: int
    ref: str
    base: str
    since: str | None
    until: str | None
    engine: EngineUse
    counts: Counts
    steps: tuple[PlannedStep, ...] = ()
    counted: tuple[str, ...] = ()
    judged: tuple[Judged, ...] = ()
    findings: tuple[Finding, ...] = ()
