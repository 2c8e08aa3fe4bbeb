"""Reader of the agent sessions that were captured into refs of the repository."""

from __future__ import annotations

import io
from functools import cached_property

from memory_ci.gitrepo.sessionrefs import DIGEST_SIZE, StoredSession, list_stored, read_stored
from memory_ci.memory.quotes import MAX_DIGEST_FACTOR
from memory_ci.memory.workspace import Workspace
from memory_ci.records.event import Session
from memory_ci.sources.transcripts.digest import read
from memory_ci.text import plural

MAX_SESSIONS = 2_000  # Captured sessions that one run reads, the newest first.
MAX_BYTES = 200_000_000  # Bytes of captured sessions that one run reads, the newest first.


class CapturedSessions:
    """The sessions kept in refs of a repository.

    Attributes:
        problems: messages on sessions that were not read.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._repo = workspace.repo
        self._limit = DIGEST_SIZE * MAX_DIGEST_FACTOR
        self._stored_by_key: dict[str, StoredSession] = {}
        self.problems: list[str] = []

    @cached_property
    def stored(self) -> tuple[StoredSession, ...]:
        """All captured sessions."""
        return list_stored(self._repo)

    @cached_property
    def headers(self) -> tuple[Session, ...]:
        """The captured sessions without their events, in the order of their refs.

        Within the limits the newest are read; `problems` gets a message on those that were not.
        """
        newest_first = sorted(self.stored, key=lambda stored: stored.at, reverse=True)
        read_count = min(len(newest_first), MAX_SESSIONS)
        sessions: dict[str, Session] = {}

        total_bytes = 0
        for stored, data in read_stored(self._repo, newest_first[:read_count], self._limit):
            total_bytes += len(data)
            if total_bytes > MAX_BYTES:
                read_count = newest_first.index(stored)
                break
            first_line = data[: data.find(b"\n") + 1]
            for session in read(io.BytesIO(first_line), stored.id):
                sessions[stored.ref] = session
                self._stored_by_key[session.key] = stored

        for stored in newest_first[:read_count]:
            if stored.ref not in sessions:
                self.problems.append(
                    f"{stored.key} holds no digest of at most {self._limit} bytes that can be read"
                )
        if read_count < len(newest_first):
            unread = plural(len(newest_first) - read_count, "captured session")
            self.problems.append(
                f"{unread} not read, the oldest: over {MAX_SESSIONS} sessions or {MAX_BYTES} bytes"
            )
        return tuple(sessions[ref] for ref in sorted(sessions))

    def load_events(self, session: Session) -> Session:
        """Return a captured session with its events; any other session as it is."""
        stored = self._stored_by_key.get(session.key)
        if session.events or stored is None:
            return session
        for _, data in read_stored(self._repo, [stored], self._limit):
            for complete in read(io.BytesIO(data), session.id):
                return complete
        return session
