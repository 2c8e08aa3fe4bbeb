"""List the sessions in agents' transcripts with the turns of people, copies merged."""

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
    """The sessions of some transcripts.

    Attributes:
        sessions: the sessions, the earliest first.
        skipped: named files that no reader recognises.
        places: the places that were searched.
    """

    sessions: tuple[Session, ...]
    skipped: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def list_sessions(paths: Sequence[Path], home: Path, start: Path) -> SessionList:
    """Return the sessions of some transcripts, or of the project around a directory.

    Their `events` are the events of people only, redacted.

    Args:
        paths: transcripts, or directories of them; if empty, those that agents keep.
        home: the home of the user.
        start: a directory in the project.

    Raises:
        UsageError: transcript-unreadable.
    """
    # Agents name the places of their sessions after the top of the work tree.
    top = start
    with suppress(RepositoryError):
        top = find_repository(start).root or start
    if paths:
        searched_paths = paths
        existing_paths = paths  # a path that was named and does not exist is an error
    else:
        searched_paths = usual_places(home, top)
        existing_paths = [path for path in searched_paths if path.exists()]

    sessions: list[Session] = []
    skipped: list[str] = []
    for path, name in _iter_files(existing_paths):
        file_sessions = read_transcript(path, name)
        sessions += file_sessions
        if not file_sessions and path in paths:
            skipped.append(format_path(path))
    merged = tuple(_select_turns(session) for session in merge_sessions(sessions))
    return SessionList(merged, tuple(skipped), tuple(format_path(path) for path in searched_paths))


def _select_turns(session: Session) -> Session:
    """Return a session with the events of people only, redacted."""
    events = tuple(
        replace(event, text=redact(event.text).text)
        for event in session.events
        if event.actor == "human"
    )
    return replace(session, events=events, path=redact(session.path).text)


def _iter_files(named_paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each transcript at or below some paths once, with its path relative to the directory.

    Args:
        named_paths: transcripts, and directories of them.
    """
    resolved_paths: set[Path] = set()
    for named_path in named_paths:
        for path in find_transcripts([named_path]):
            resolved_path = path.resolve()
            if resolved_path in resolved_paths:
                continue
            resolved_paths.add(resolved_path)
            is_in_directory = named_path.is_dir()
            name = path.relative_to(named_path) if is_in_directory else Path(path.name)
            yield path, format_path(name)


def format_path(path: Path) -> str:
    """Return a path as text that can be printed and written, whatever bytes its name holds."""
    return os.fsencode(path).decode("utf-8", "replace")
