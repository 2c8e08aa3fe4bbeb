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
        self._max_session_bytes = DIGEST_SIZE * MAX_DIGEST_FACTOR
        self._stored_by_session_key: dict[str, StoredSession] = {}  # as `headers` found them
        self.problems: list[str] = []

    @cached_property
    def stored(self) -> tuple[StoredSession, ...]:
        """The refs of all captured sessions, without their content."""
        return list_stored(self._repo)

    @cached_property
    def headers(self) -> tuple[Session, ...]:
        """The captured sessions without their events, in the order of their refs.

        A session is stored as a digest, a file of lines whose first line is the header. Within the
        limits the newest sessions are read; `problems` gets a message on each other one.
        """
        newest_first = sorted(self.stored, key=lambda stored: stored.ended_at, reverse=True)
        read_count = min(len(newest_first), MAX_SESSIONS)
        header_by_ref: dict[str, Session] = {}

        total_bytes = 0
        contents = read_stored(self._repo, newest_first[:read_count], self._max_session_bytes)
        for stored, data in contents:
            total_bytes += len(data)
            if total_bytes > MAX_BYTES:
                read_count = newest_first.index(stored)
                break
            first_line = data[: data.find(b"\n") + 1]
            for header in read(io.BytesIO(first_line), stored.id):
                header_by_ref[stored.ref] = header
                self._stored_by_session_key[header.key] = stored

        self._report_unread(newest_first, read_count, header_by_ref)
        return tuple(header_by_ref[ref] for ref in sorted(header_by_ref))

    def _report_unread(
        self, newest_first: list[StoredSession], read_count: int, header_by_ref: dict[str, Session]
    ) -> None:
        """Add messages on the sessions that are broken, and on those beyond the limits.

        Args:
            newest_first: all captured sessions.
            read_count: how many of them were read; the others are beyond the limits.
            header_by_ref: the sessions that could be read.
        """
        for stored in newest_first[:read_count]:
            if stored.ref not in header_by_ref:
                limit = f"at most {self._max_session_bytes} bytes"
                self.problems.append(f"{stored.key} holds no digest of {limit} that can be read")
        if read_count < len(newest_first):
            unread = plural(len(newest_first) - read_count, "captured session")
            self.problems.append(
                f"{unread} not read, the oldest: over {MAX_SESSIONS} sessions or {MAX_BYTES} bytes"
            )

    def load_events(self, session: Session) -> Session:
        """Return a captured session with its events; any other session as it is."""
        stored = self._stored_by_session_key.get(session.key)
        if session.events or stored is None:
            return session
        for _, data in read_stored(self._repo, [stored], self._max_session_bytes):
            for complete in read(io.BytesIO(data), session.id):
                return complete
        return session
