"""The sessions of transcripts: found, read, merged, and what people said in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.evidence.content import redact
from memory_ci.gitrepo.repo import find_repository
from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import merge_sessions
from memory_ci.sources.transcripts.registry import find_transcripts, read_transcript, usual_places


class SessionList(msgspec.Struct, frozen=True):
    """Sessions, the earliest first, the named files that no reader knows, and the places that were looked at."""

    sessions: tuple[Session, ...]
    skipped: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def list_sessions(paths: Sequence[Path], home: Path, start: Path) -> SessionList:
    """The sessions in `paths`, or those that agents keep of the project around `start`. `events` hold what people said,
    redacted. Raises UsageError transcript-unreadable."""
    found: list[Session] = []
    skipped: list[str] = []
    top = start  # of the work tree, which agents name the places of their sessions after
    with suppress(RepositoryError):
        top = find_repository(start).root or start
    places = paths or usual_places(home, top)
    for path, name in _files(paths or [place for place in places if place.exists()]):
        sessions = read_transcript(path, name)
        found += sessions
        if not sessions and path in paths:
            skipped.append(path_text(path))
    merged = (
        replace(
            session,
            events=tuple(
                replace(one, text=redact(one.text).text)
                for one in session.events
                if one.actor == "human"
            ),
            path=redact(session.path).text,
        )
        for session in merge_sessions(found)
    )
    return SessionList(tuple(merged), tuple(skipped), tuple(map(path_text, places)))


def _files(places: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Each file once, with its name: its path inside the directory that was named."""
    seen = set()
    for place in places:
        for path in find_transcripts([place]):
            if (real := path.resolve()) not in seen:
                seen.add(real)
                yield (
                    path,
                    path_text(path.relative_to(place) if place.is_dir() else Path(path.name)),
                )


def path_text(path: Path) -> str:
    """A path as text that can be printed and written, whatever bytes its name holds."""
    return os.fsencode(path).decode("utf-8", "replace")
