"""Session: one agent run as its transcript tells it, and how far the parser can be trusted with it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from memory_ci.records.event import Event

UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
"""When a transcript does not say: whoever joins the session to a commit puts that commit's time here."""


class SessionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one session. `human_turns` include the `mid_turn` ones; `unknown` counts record types."""

    records: int = 0
    human_turns: int = 0
    mid_turn: int = 0
    rejections: int = 0
    rejections_with_reason: int = 0
    interrupts: int = 0
    compactions: int = 0
    agent_texts: int = 0
    subagent_events: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    injected: int = 0
    duplicates: int = 0
    bad_lines: int = 0
    unknown: dict[str, int] = {}


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `id` is the agent's own, `path` the name of the file it was read from, never an absolute path.

    `pull_requests` are those that the transcript itself says it made; `branch` is the last that it names.
    """

    agent: str
    id: str
    format: str
    path: str
    events: tuple[Event, ...]
    counts: SessionCounts
    branch: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    pull_requests: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """`<agent>:<id>`, as the `Memory-Session:` trailer names it."""
        return f"{self.agent}:{self.id}"
