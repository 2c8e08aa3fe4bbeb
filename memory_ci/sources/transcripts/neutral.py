"""A session in neutral JSON (docs/sessions.md): the way in for agents that no reader here knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, get_args

from memory_ci.records.event import Actor, EventKind, Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Document, Place, SessionBuilder, relative_paths

FIRST = re.compile(rb'\s*\{\s*"memory-ci-transcript"\s*:\s*1\b')
ACTORS: tuple[Actor, ...] = get_args(Actor)
KINDS: tuple[EventKind, ...] = (
    "text",
    "tool_call",
    "tool_result",
    "rejection",
    "interrupt",
    "compaction",
)


def sniff(head: bytes) -> bool:
    """Whether the first key of the document says that it is one."""
    return bool(FIRST.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a document; `Origin.line` is that of the event's id, where it has one."""
    builder = SessionBuilder("neutral", "neutral-json", name)
    document = Document(stream, builder)
    told = document.value
    builder.agent = raw.text(told, "agent") or builder.agent
    builder.id = raw.text(told, "id") or builder.id
    builder.branch = raw.text(told, "branch")
    for event in raw.items(told, "events"):
        builder.records += 1
        found = raw.fields(event)
        actor = next((known for known in ACTORS if known == found.get("actor")), None)
        kind = next((known for known in KINDS if known == found.get("kind", "text")), None)
        if actor is None or kind is None:
            builder.unknown(f"{found.get('actor')} {found.get('kind')}")
            continue
        uid, ok = raw.text(found, "id"), found.get("ok")
        builder.add(
            actor,
            kind,
            raw.text(found, "text"),
            Place(document.line_of(uid), raw.time(found, "at")),
            uid=uid,
            tool=raw.text(found, "tool") or None,
            ok=ok if isinstance(ok, bool) else None,
            paths=relative_paths(map(raw.text, raw.items(found, "paths")), raw.text(told, "root")),
        )
    yield builder.build()
