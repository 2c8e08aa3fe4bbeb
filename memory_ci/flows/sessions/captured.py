"""Captured sessions: each is asked what it says of itself, and only one that a change is joined with is read whole.

Whoever may push to the remote fills these refs, so what one run reads of them is bounded.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cached_property

from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.sessionrefs import StoredSession, list_stored, read_stored
from memory_ci.records.event import Session
from memory_ci.sources.transcripts.digest import read
from memory_ci.text import plural

MAX_SESSIONS = 2_000
MAX_BYTES = 200_000_000
"""What one run reads of captured sessions, the newest first."""

TOLERANCE = 2
"""A digest may be that many times as large as `sessions.max_bytes` here: who captured it may have set another limit."""


class CapturedSessions:
    """The sessions kept in refs of a repository. `problems` tell what was not read."""

    def __init__(self, workspace: Workspace) -> None:
        self._repo = workspace.repo
        self._limit = workspace.config.sessions.max_bytes * TOLERANCE
        self._places: dict[str, StoredSession] = {}
        self.problems: list[str] = []

    @cached_property
    def stored(self) -> tuple[StoredSession, ...]:
        """All that are kept here."""
        return list_stored(self._repo)

    @cached_property
    def said(self) -> tuple[Session, ...]:
        """What each session says of itself, without events, in the order of their refs."""
        newest = sorted(self.stored, key=lambda stored: stored.at, reverse=True)
        said: dict[str, Session] = {}
        end, room = min(len(newest), MAX_SESSIONS), MAX_BYTES
        for stored, data in read_stored(self._repo, newest[:end], self._limit):
            room -= len(data)
            if room < 0:
                end = newest.index(stored)
                break
            for session in read(io.BytesIO(data[: data.find(b"\n") + 1]), stored.id):
                said[stored.ref] = session
                self._places[session.key] = stored
        self._tell(newest, end, said)
        return tuple(said[ref] for ref in sorted(said))

    def whole(self, session: Session) -> Session:
        """The session with its events, if it is one of `said`; any other as it is."""
        stored = None if session.events else self._places.get(session.key)
        for _, data in read_stored(self._repo, [stored] if stored else [], self._limit):
            return next(read(io.BytesIO(data), session.id), session)
        return session

    def _tell(self, newest: list[StoredSession], end: int, said: Mapping[str, Session]) -> None:
        for stored in newest[:end]:
            if stored.ref not in said:
                self.problems.append(f"{stored.key} holds no digest of at most {self._limit} bytes that can be read")
        if end < len(newest):
            left = plural(len(newest) - end, "captured session")
            self.problems.append(f"{left} not read, the oldest: over {MAX_SESSIONS} sessions or {MAX_BYTES} bytes")
