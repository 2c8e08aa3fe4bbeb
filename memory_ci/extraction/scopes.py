"""The ten extraction scopes: under which label a learning is looked for, and what holds unless a reply says more."""

from __future__ import annotations

from typing import Literal, NamedTuple

from memory_ci.records.entry import Domain, EntryType, ScopeName

Moment = Literal["prospective", "in-flight", "corrective", "retrospective"]


class ExtractionScope(NamedTuple):
    """One row: what it reads, what it asks for, where it writes, and the defaults of what it finds."""

    moment: Moment
    reads: str
    asks_for: str
    writes_to: ScopeName
    type: EntryType
    domain: Domain
    importance: float


SCOPES: dict[str, ExtractionScope] = {
    "observations": ExtractionScope(
        "retrospective",
        "human turns",
        "durable preferences and values of the team",
        "institutional",
        "directive",
        "team",
        0.9,
    ),
    "escalation": ExtractionScope(
        "retrospective",
        "human turns, interruptions, denied operations",
        "when to ask and when to act",
        "institutional",
        "directive",
        "team",
        0.9,
    ),
    "intent-alignment": ExtractionScope(
        "retrospective",
        "the pull request's body or intent document against the merged diff summary",
        "met, missed, deviation",
        "project",
        "corrective",
        "task",
        0.5,
    ),
    "team": ExtractionScope(
        "retrospective",
        "events under one directory or task",
        "norms and procedures of that part",
        "team",
        "procedural",
        "team",
        0.5,
    ),
    "session": ExtractionScope(
        "retrospective",
        "one whole session",
        "coordination and working pattern of the job",
        "session",
        "procedural",
        "team",
        0.5,
    ),
    "project": ExtractionScope(
        "retrospective",
        "the whole merged change",
        "conventions and patterns that will recur here",
        "project",
        "procedural",
        "task",
        0.5,
    ),
    "global": ExtractionScope(
        "retrospective",
        "promoted project entries",
        "strictly project-agnostic norms",
        "global",
        "procedural",
        "team",
        0.5,
    ),
    "prospective": ExtractionScope(
        "prospective",
        "the pre-mortem against what happened",
        "risks that came true, were missed, false alarms",
        "project",
        "declarative",
        "task",
        0.5,
    ),
    "in-flight": ExtractionScope(
        "in-flight",
        "assumption checkpoints against the outcome",
        "which assumptions failed",
        "project",
        "declarative",
        "task",
        0.5,
    ),
    "corrective": ExtractionScope(
        "corrective",
        "requested changes, rejections, reverts, checks that failed and then passed",
        "error, cause, prevention",
        "project",
        "corrective",
        "task",
        0.8,
    ),
}
