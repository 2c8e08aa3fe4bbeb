"""Entries from candidates: the same candidate becomes the same entry, whoever runs it."""

from __future__ import annotations

import hashlib
import uuid
from datetime import date

from memory_ci.extraction.gate import check_text, check_words
from memory_ci.records.candidate import Candidate, Quote
from memory_ci.records.entry import Entry


def entry_id(candidate: Candidate) -> str:
    """A UUID (version 4 layout, RFC 9562 section 5.4) made of where the words stand, their marker and what they say."""
    quote = candidate.quotes[0] if candidate.quotes else Quote("", "")
    seed = "\0".join((quote.origin, candidate.marker, candidate.title, candidate.body))
    return str(uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4))


def content_key(title: str, body: str) -> str:
    """A hash of what an entry says, in any case and layout: two that agree in it are one learning."""
    said = "\0".join(" ".join(text.casefold().split()) for text in (title, body))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def list_texts(entry: Entry) -> tuple[str, ...]:
    """All free text of an entry, piece by piece: what the gate looks at, joined."""
    unknown = (f"{key}: {raw}" for key, raw in entry.extra)
    lines = (*entry.evidence, *entry.occurrences, *entry.cites, *entry.relations, *unknown)
    fields = (entry.instead, entry.source, entry.session, entry.engine, entry.scope, entry.promoted_from)
    return (entry.title, entry.body, *filter(None, fields), *lines)


def check_entry(entry: Entry) -> list[str]:
    """Every reason, in a fixed order, why `entry` must not be added."""
    reasons = check_text(entry.title, entry.body) + check_words("\n".join(list_texts(entry)))
    return list(dict.fromkeys(reasons + (["unknown-fields"] if entry.extra else [])))


def to_entry(candidate: Candidate, *, entry_id: str, today: date, merged_on: date) -> Entry:
    """The entry to write: learned `today`, last seen to hold when it was merged, with the words that prove it."""
    return Entry(
        id=entry_id,
        type=candidate.type,
        domain=candidate.domain,
        importance=candidate.importance,
        reinforcement_count=0,
        last_reinforced=merged_on,
        status="active",
        created_at=today,
        occurred_at=candidate.occurred_at,
        source=candidate.source or None,
        session=candidate.session,
        relations=candidate.relations,
        engine=candidate.engine,
        evidence=tuple(f"{quote.origin} {' '.join(quote.text.split())}" for quote in candidate.quotes),
        cites=candidate.cites,
        adoption=candidate.adoption,
        instead=candidate.instead,
        title=candidate.title,
        body=candidate.body,
    )
