"""Event: one raw thing that happened, and where it was found."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Actor = Literal["human", "agent", "subagent", "tool", "system", "injected", "bot"]
EventKind = Literal[
    "text",
    "tool_call",
    "tool_result",
    "rejection",
    "interrupt",
    "compaction",
    "commit",
    "review",
    "pr",
    "adr",
    "check",
    "diff",
    "intent",
    "premortem",
    "assumption",
    "intervention",
    "entry",
]
Severity = Literal["info", "warn", "error"]

MID_TURN = ("via", "queue")
"""The label of what a person typed while the agent worked."""


class Origin(msgspec.Struct, frozen=True):
    """An address: a commit, a pull request, a review or a line of a file."""

    kind: Literal["commit", "pr", "review", "session", "file"]
    id: str
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f" {self.path}" if self.path else ""
        line = f":{self.line}" if self.line is not None else ""
        return f"{self.kind}:{self.id}{place}{line}"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event, text unedited. `paths` are the files it touched, `labels` its trailers and marks.

    `uid` is the source's own id of it, by which copies are known; `is_outside`: a fork, or someone who may not write
    to the repository, brought it.
    """

    seq: int
    at: datetime
    actor: Actor
    kind: EventKind
    text: str
    origin: Origin
    author: str = ""
    session: str | None = None
    tool: str | None = None
    ok: bool | None = None
    severity: Severity = "info"
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    is_merge: bool = False
    uid: str = ""
    is_outside: bool = False
