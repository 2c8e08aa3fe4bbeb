"""Who asks, and where: what the server was started with, which no client can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.serve.options import RetrieveOptions
from memory_ci.flows.workspace import Workspace, open_workspace


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The repository, the session and the role that hold for every call; a clock, and the environment of embedders."""

    start: Path
    clock: Callable[[], datetime]
    environ: Mapping[str, str]
    session: str | None = None
    role: str | None = None

    @property
    def now(self) -> datetime:
        return self.clock()

    @property
    def today(self) -> date:
        return self.clock().date()

    def workspace(self) -> Workspace:
        """Opened for each call: what somebody edits holds from the next call on."""
        return open_workspace(self.start)

    def options(self, **asked: object) -> RetrieveOptions:
        """What is asked of entries, by this session in this role."""
        return RetrieveOptions(**asked, session=self.session, role=self.role)  # type: ignore[arg-type] # by its callers

    def own_session(self, named: str | None) -> str | None:
        """The server's own session, which a client may name and may not change. Raises UsageError (other-session)."""
        if named and named != self.session:
            mine = f"This server speaks for the session {self.session!r}" if self.session else "This server has none"
            hint = f"{mine}; leave the session out, or start a server with --session."
            raise UsageError("another session cannot be asked or written for", slug="other-session", hint=hint)
        return self.session
