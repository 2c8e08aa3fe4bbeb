"""Judging: from the evidence of one merged change to what is written, restated, proposed or refused, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from memory_ci.extraction.cites import SHA_WIDTH, find_cites
from memory_ci.extraction.engines import Engine, Request
from memory_ci.extraction.gate import check_candidate
from memory_ci.extraction.grounding import find_ungrounded
from memory_ci.extraction.novelty import find_restated, is_restated_by
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.scopes import SCOPES
from memory_ci.records.candidate import Candidate, Judged, Quote
from memory_ci.records.entry import Entry
from memory_ci.records.event import Origin
from memory_ci.records.evidence import Evidence, EvidenceSet


def judge(
    change_label: str, evidence: EvidenceSet, engine: Engine, existing: Sequence[Entry], limit: int
) -> tuple[Judged, ...]:
    """Every candidate of one merged change with its verdict; at most `limit` are written, the most important first.

    `existing` are the entries known so far, those of earlier changes of the same run included.
    Raises EngineError when the engine failed or its reply cannot be read.
    """
    if not evidence.pieces:
        return ()
    titles = tuple(entry.title for entry in existing)
    reply = engine.extract(Request(change=change_label, evidence=evidence.pieces, existing=titles))
    pieces = {piece.id: piece for piece in evidence.pieces}
    first = [_judged(learning, pieces, change_label, existing) for learning in parse_reply(reply.text).learnings]
    return _limited(_deduplicated(first), limit)


def _judged(learning: Learning, pieces: Mapping[str, Evidence], label: str, existing: Sequence[Entry]) -> Judged:
    """The verdict on one learning by itself; the limit is applied to all of them together."""
    candidate = _candidate(learning, pieces, label)
    refusal = find_ungrounded(learning, pieces) or check_candidate(candidate, tuple(pieces.values()))
    if refusal:
        return Judged(candidate=candidate, verdict="quarantined", reason=refusal, change=label)
    if doubt := _doubt(learning, pieces):
        return Judged(candidate=candidate, verdict="suspected", reason=doubt, change=label)
    if known := find_restated(candidate, existing):
        return Judged(candidate=candidate, verdict="restates", reason="known already", change=label, entry_id=known)
    reason = f"marked by its author ({learning.marker})"
    return Judged(candidate=candidate, verdict="written", reason=reason, change=label)


def _doubt(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why a sound learning is only proposed: a mark counts when a trusted author made it."""
    if not learning.is_marked:
        return learning.doubt or "not marked by its author"
    is_trusted = any(pieces[quote.evidence].trust == "T0" for quote in learning.quotes)
    return None if is_trusted else "marked by an author who is not trusted"


def _deduplicated(judged: Sequence[Judged]) -> list[Judged]:
    """Candidates of one verdict that say the same become one, proven by the quotes of both."""
    kept: list[Judged] = []
    for one in judged:
        same = (at for at, other in enumerate(kept) if _is_same(one, other))
        if (at := next(same, None)) is None:
            kept.append(one)
        else:
            quotes = tuple(dict.fromkeys(kept[at].candidate.quotes + one.candidate.quotes))
            kept[at] = msgspec.structs.replace(
                kept[at], candidate=msgspec.structs.replace(kept[at].candidate, quotes=quotes)
            )
    return kept


def _is_same(one: Judged, other: Judged) -> bool:
    return one.verdict == other.verdict and is_restated_by(one.candidate, other.candidate)


def _limited(judged: Sequence[Judged], limit: int) -> tuple[Judged, ...]:
    """The `limit` most important of those to be written stay so; among equals the earlier."""
    written = [at for at, one in enumerate(judged) if one.verdict == "written"]
    over = sorted(written, key=lambda at: -judged[at].candidate.importance)[limit:]
    reason = f"more than {limit} of one merged change"
    return tuple(
        msgspec.structs.replace(one, verdict="over_limit", reason=reason) if at in over else one
        for at, one in enumerate(judged)
    )


def _candidate(learning: Learning, pieces: Mapping[str, Evidence], label: str) -> Candidate:
    """The learning with what code knows better than an engine: origin, date, anchors, and the defaults of its scope."""
    scope = SCOPES[learning.extraction_scope]
    piece = next((pieces[quote.evidence] for quote in learning.quotes if quote.evidence in pieces), None)
    return Candidate(
        title=learning.title,
        body=learning.body,
        type=learning.type or scope.type,
        domain=learning.domain or scope.domain,
        importance=scope.importance if learning.importance is None else learning.importance,
        scope=learning.scope or scope.writes_to,
        extraction_scope=learning.extraction_scope,
        quotes=tuple(_quote(quote.evidence, quote.text, pieces) for quote in learning.quotes),
        is_marked=learning.is_marked,
        marker=learning.marker,
        cites=find_cites(f"{learning.title}\n{learning.body}", piece.paths, piece.origin.id) if piece else (),
        adoption=learning.adoption,
        instead=learning.instead,
        source=_source(label, piece.origin) if piece else "",
        occurred_at=piece.at.date() if piece else None,
    )


def _quote(evidence: str, text: str, pieces: Mapping[str, Evidence]) -> Quote:
    return Quote(evidence, text, _address(pieces[evidence].origin) if evidence in pieces else "")


def _source(label: str, origin: Origin) -> str:
    """`pr:128 commit:3f2ab91…`; a change without a number is its commit alone."""
    request = f"pr:{label[1:]} " if label.startswith("#") else ""
    return request + _address(origin).partition(" ")[0]


def _address(origin: Origin) -> str:
    """An origin as provenance: commits shortened, in one word, so that a quote can follow it."""
    return f"commit:{origin.id[:SHA_WIDTH]}" if origin.kind == "commit" else str(origin).replace(" ", "#")
