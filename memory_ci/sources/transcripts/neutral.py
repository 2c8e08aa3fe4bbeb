"""Reader of memory-ci's own JSON format for transcripts, for agents without a reader of their own.

docs/agents.md describes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, get_args

from memory_ci.records.event import Actor, EventKind, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    make_relative_paths,
)

FIRST_KEY = Regex(rb'\s*\{\s*"memory-ci-transcript"\s*:\s*1\b')
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
    return bool(FIRST_KEY.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of a document.

    The line of an event is where the document has its `id`. An event without an id gets the line
    of the event before it.
    """
    builder = SessionBuilder("neutral", "neutral-json", name)
    document = Document(stream, builder)
    transcript = document.value
    builder.agent = raw.get_text(transcript, "agent") or builder.agent
    builder.id = raw.get_text(transcript, "id") or builder.id
    builder.branch = raw.get_text(transcript, "branch")
    root = raw.get_text(transcript, "root")
    for value in raw.get_list(transcript, "events"):
        builder.records += 1
        event = raw.get_object(value)
        actor = event.get("actor")
        kind = event.get("kind", "text")
        if actor not in ACTORS or kind not in KINDS:
            builder.count_unknown(f"{actor} {event.get('kind')}")
            continue
        uid = raw.get_text(event, "id")
        ok = event.get("ok")
        builder.add_event(
            actor,
            kind,
            raw.get_text(event, "text"),
            Place(document.find_line(uid), raw.get_time(event, "at")),
            uid=uid,
            tool=raw.get_text(event, "tool") or None,
            ok=ok if isinstance(ok, bool) else None,
            paths=make_relative_paths(
                (raw.get_text(path) for path in raw.get_list(event, "paths")), root
            ),
        )
    yield builder.build()
