"""Our own format, JSON lines: what is worth keeping of a session, each event with its address in the first transcript.

The first line says which session it is; then comes one line per event: what people said, whole; the end of what the
agent said and the beginning of what failed; which tools ran on which files, without what they were given or answered,
but for the input of a call that a person refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO, Literal

import msgspec
from msgspec.structs import asdict, replace

from memory_ci.records.event import (
    Actor,
    Event,
    EventKind,
    Origin,
    Session,
    SessionCounts,
    Severity,
)

FIRST = b'{"memory-ci-session":'
MAX_TEXT = 1_000  # Characters kept of what no person said: it only corroborates.
STEERING = ("rejection", "interrupt", "compaction", "commit")


class Header(msgspec.Struct, frozen=True, kw_only=True, rename={"version": "memory-ci-session"}):
    """The first line. `counts` are those of the whole transcript; `left_out` events did not fit into the size limit."""

    version: Literal[1]
    agent: str
    id: str
    format: str
    path: str
    branch: str
    started: datetime | None
    ended: datetime | None
    counts: SessionCounts
    pull_requests: tuple[int, ...]
    left_out: int


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event. `path` is the transcript that it stands in, where that is not the header's."""

    seq: int
    at: datetime
    actor: Actor
    kind: EventKind
    text: str = ""
    line: int | None = None
    path: str = ""
    tool: str | None = None
    ok: bool | None = None
    severity: Severity = "info"
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    uid: str = ""


def write_digest(session: Session, max_bytes: int, redact: Callable[[str], str]) -> bytes:
    """The digest of a session, the same bytes each time; every text in it has passed `redact`.

    Over `max_bytes` the least valuable go first: tool calls, then what no person said, then what people said between
    their first and their last words, the oldest of each first. The header alone may exceed a tiny limit.
    """
    kept = [event for event in session.events if _is_kept(event)]
    lines = {
        at: msgspec.json.encode(_line(event, session, redact)) + b"\n"
        for at, event in enumerate(kept)
    }
    total, whole = sum(map(len, lines.values())), len(kept)
    room = max_bytes - len(_header(session, redact, whole))
    ranks = _ranks(kept)
    for at in sorted(range(whole), key=ranks.__getitem__):
        if total <= room:
            break
        total -= len(lines.pop(at))
    return _header(session, redact, whole - len(lines)) + b"".join(lines.values())


def sniff(head: bytes) -> bool:
    """Whether a file that begins like this is a digest."""
    return head.startswith(FIRST)


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The session of a digest, none if its first line is not ours. Addresses are those of the first transcript."""
    try:
        header = msgspec.json.decode(stream.readline(), type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    key = f"{header.agent}:{header.id}"
    events: list[Event] = []
    bad = header.counts.bad_lines
    for line in stream:
        try:
            told = asdict(msgspec.json.decode(line, type=Line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            bad += 1
            continue
        place = Origin(
            kind="session", id=key, path=told.pop("path") or header.path, line=told.pop("line")
        )
        events.append(Event(**told, origin=place, session=key))
    said = asdict(header) | {"counts": replace(header.counts, bad_lines=bad)}
    del said["version"], said["left_out"]
    yield Session(**said, events=tuple(events))


def _is_kept(event: Event) -> bool:
    if event.actor == "human" or event.kind in STEERING:
        return True
    if event.kind == "tool_result":
        return event.ok is False or event.severity != "info"
    return event.kind == "tool_call" or (
        event.kind == "text" and event.actor in ("agent", "subagent")
    )


def _header(session: Session, redact: Callable[[str], str], left_out: int) -> bytes:
    unknown = {_clean(name, redact): number for name, number in session.counts.unknown.items()}
    header = Header(
        version=1,
        agent=_clean(session.agent, redact),
        id=safe_id(session.id, redact),
        format=_clean(session.format, redact),
        path=_file_name(session.path, redact),
        branch=_clean(session.branch, redact),
        started=session.started,
        ended=session.ended,
        counts=replace(session.counts, unknown=unknown),
        pull_requests=session.pull_requests,
        left_out=left_out,
    )
    return msgspec.json.encode(header) + b"\n"


def _line(event: Event, session: Session, redact: Callable[[str], str]) -> Line:
    """Words are masked before they are cut, for half a credential is known by no pattern."""
    path = event.origin.path or session.path
    text = "" if event.kind == "tool_call" else _clean(event.text, redact)
    if event.actor != "human" and len(text) > MAX_TEXT:
        text = (
            text[: MAX_TEXT - 1] + "…"
            if event.kind == "tool_result"
            else "…" + text[1 - MAX_TEXT :]
        )
    return Line(
        seq=event.seq,
        at=event.at,
        actor=event.actor,
        kind=event.kind,
        text=text,
        line=event.origin.line,
        path="" if path == session.path else _file_name(path, redact),
        tool=event.tool and _clean(event.tool, redact),
        ok=event.ok,
        severity=event.severity,
        paths=tuple(_clean(path, redact) for path in event.paths),
        labels=tuple((_clean(key, redact), _clean(value, redact)) for key, value in event.labels),
        uid=safe_id(event.uid, redact),
    )


def _ranks(events: Sequence[Event]) -> list[int]:
    """How valuable each event is; `sorted` is stable, so that of equals the oldest goes first."""
    ranks = [
        2 if event.actor == "human" else 0 if event.kind == "tool_call" else 1 for event in events
    ]
    people = [number for number, rank in enumerate(ranks) if rank == 2]
    for number in people[-1:]:
        ranks[number] = 3
    for number in people[:1]:
        ranks[number] = 4
    return ranks


def safe_id(text: str, redact: Callable[[str], str]) -> str:
    """An id without control characters; one that holds what must be masked becomes its hash, so that two stay two."""
    bare = "".join(char for char in text.encode("utf-8", "replace").decode() if char.isprintable())
    return bare if redact(bare) == bare else hashlib.sha256(bare.encode()).hexdigest()[:32]


def _clean(text: str, redact: Callable[[str], str]) -> str:
    """Masked, and without half characters (JSON can spell a lone surrogate), which no file can hold."""
    return redact(text.encode("utf-8", "replace").decode())


def _file_name(path: str, redact: Callable[[str], str]) -> str:
    return _clean(path.replace("\\", "/").rpartition("/")[2], redact)
