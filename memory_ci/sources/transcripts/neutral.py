"""Reader of memory-ci's own JSON format for transcripts, for agents without a reader of their own.

docs/agents.md describes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, get_args

from memory_ci.records.event import Actor, EventKind, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Document, Place, SessionBuilder, relative_paths

FIRST = Regex(rb'\s*\{\s*"memory-ci-transcript"\s*:\s*1\b')
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
    """Return whether the first key of a document is the one of this format."""
    return bool(FIRST.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of a document; an event's line is that of its id, if it has one."""
    builder = SessionBuilder("neutral", "neutral-json", name)
    document = Document(stream, builder)
    transcript = document.value
    builder.agent = raw.text(transcript, "agent") or builder.agent
    builder.id = raw.text(transcript, "id") or builder.id
    builder.branch = raw.text(transcript, "branch")
    root = raw.text(transcript, "root")
    for value in raw.items(transcript, "events"):
        builder.records += 1
        event = raw.fields(value)
        actor = event.get("actor")
        kind = event.get("kind", "text")
        if actor not in ACTORS or kind not in KINDS:
            builder.count_unknown(f"{actor} {event.get('kind')}")
            continue
        uid = raw.text(event, "id")
        ok = event.get("ok")
        builder.add_event(
            actor,
            kind,
            raw.text(event, "text"),
            Place(document.line_of(uid), raw.time(event, "at")),
            uid=uid,
            tool=raw.text(event, "tool") or None,
            ok=ok if isinstance(ok, bool) else None,
            paths=relative_paths((raw.text(path) for path in raw.items(event, "paths")), root),
        )
    yield builder.build()
