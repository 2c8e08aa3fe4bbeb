"""The sessions that transcripts tell of: found, read, merged, and what people said in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from memory_ci.evidence.redact import redact
from memory_ci.records.event import Event
from memory_ci.records.session import Session
from memory_ci.sources.transcripts.merge import merge_sessions
from memory_ci.sources.transcripts.registry import default_places, find_transcripts, read_transcript


class SessionList(msgspec.Struct, frozen=True):
    """Sessions, the earliest first, and the named files that no reader knows."""

    sessions: tuple[Session, ...]
    skipped: tuple[str, ...] = ()


def list_sessions(paths: Sequence[Path], home: Path, project: Path) -> SessionList:
    """The sessions in `paths`, or those that agents keep of `project`; `events` hold what people said, redacted.

    Raises UsageError transcript-unreadable.
    """
    found: list[Session] = []
    skipped: list[str] = []
    for path, name in _files(paths or default_places(home, project)):
        sessions = read_transcript(path, name)
        found += sessions
        if not sessions and path in paths:
            skipped.append(_utf8(path))
    return SessionList(tuple(_with_words(session) for session in merge_sessions(found)), tuple(skipped))


def _files(places: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Each file once, with its name: its path inside the directory that was named."""
    seen = set()
    for place in places:
        for path in find_transcripts([place]):
            if (real := path.resolve()) not in seen:
                seen.add(real)
                yield path, _utf8(path.relative_to(place) if place.is_dir() else Path(path.name))


def _utf8(path: Path) -> str:
    """A path as text that can be printed and written, whatever bytes its name holds."""
    return os.fsencode(path).decode("utf-8", "replace")


def _with_words(session: Session) -> Session:
    """The session with nothing but the events of people."""
    said = tuple(_redacted(event) for event in session.events if event.actor == "human")
    return msgspec.structs.replace(session, events=said, path=redact(session.path).text)


def _redacted(event: Event) -> Event:
    return msgspec.structs.replace(event, text=redact(event.text).text)
