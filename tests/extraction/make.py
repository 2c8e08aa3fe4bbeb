"""Functions that make pieces of evidence, candidates and marks, and judge them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.judge import JudgedCase, judge_reply
from memory_ci.extraction.markers import MarkedStatement
from memory_ci.extraction.settlement import settle_candidates
from memory_ci.records.candidate import Candidate, Judged, Request
from memory_ci.records.entry import Entry
from memory_ci.records.event import Evidence, EvidenceSet, Origin


def make_piece(text: str = "fix: x", number: int = 1, **fields: Any) -> Evidence:
    defaults: dict[str, Any] = {
        "id": f"e{number}",
        "kind": "commit",
        "text": text,
        "trust": "T0",
        "origin": Origin("commit", f"{number:040x}"),
        "at": datetime(2026, 9, 1, 23, tzinfo=UTC),
    }
    return Evidence(**defaults | fields)


def make_candidate(title: str = "Retry only GET", **fields: Any) -> Candidate:
    defaults: dict[str, Any] = {
        "title": title,
        "body": "",
        "type": "procedural",
        "domain": "task",
        "importance": 0.7,
        "scope": "project",
        "extraction_scope": "project",
        "quotes": (),
        "is_marked": True,
    }
    return Candidate(**defaults | fields)


def judge_messages(
    *messages: str,
    existing: tuple[Entry, ...] = (),
    limit: int = 3,
    **fields: Any,
) -> tuple[Judged, ...]:
    """Return the verdicts of the rules on commit messages."""
    pieces = tuple(
        make_piece(message, number, **fields) for number, message in enumerate(messages, 1)
    )
    return judge("#128", EvidenceSet(pieces), RulesEngine(), existing, limit)


def judge(
    label: str,
    evidence: EvidenceSet,
    engine: Engine,
    existing: tuple[Entry, ...],
    limit: int,
    find_fault: Callable[[Candidate], str | None] = lambda candidate: None,
) -> tuple[Judged, ...]:
    """Return the verdicts on the replies of an engine that is trusted like the rules."""
    case = JudgedCase(label=label, pieces=evidence.pieces, existing=existing, find_fault=find_fault)
    reply = engine.extract(Request(change=label, evidence=evidence.pieces))
    return settle_candidates(judge_reply(case, reply.text).judged, limit)


def written(judged: tuple[Judged, ...]) -> list[str]:
    """Return the titles of the learnings that are written."""
    return [judgement.candidate.title for judgement in judged if judgement.verdict == "written"]


def make_mark(
    text: str, marker: str = "learning", scope: str = "", subject: str = "feat: x", fix: str = ""
) -> MarkedStatement:
    return MarkedStatement(marker, scope, text, text, subject, fix)
