"""Event: one raw thing that happened. Session: what a transcript holds. Evidence: what may be read of both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

Actor = Literal["human", "agent", "subagent", "tool", "system", "injected", "bot"]
EventKind = Literal[
    "text", "tool_call", "tool_result", "rejection", "interrupt", "compaction", "commit", "review", "pr", "adr",
    "check", "diff", "intent", "premortem", "assumption", "intervention", "entry",
]  # fmt: skip
Severity = Literal["info", "warn", "error"]

MID_TURN = ("via", "queue")  # The label of what a person typed while the agent worked.
REFUSED = "refused"  # The key of the label of a rejection that has the input of the refused call.


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
    """One event, text unedited. `paths` are the files it touched, `labels` its trailers and marks. `uid` is the
    source's own id of it, by which copies are known; `is_outside`: a fork, or someone who may not write to the
    repository, brought it."""

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


Trust = Literal["T0", "T1", "T2", "T3"]


SHOWN_PATHS = 5  # Of the files of a piece, those that a prompt names.


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One readable piece. `id` is its address inside one request ("e1"); `text` and `before` hold no secrets. `before`
    is what the agent had said, or wanted to run, before a person said this: never quoted."""

    id: str
    kind: EventKind
    text: str
    trust: Trust
    origin: Origin
    at: datetime
    actor: Actor = "human"
    session: str | None = None
    tool: str | None = None
    ok: bool | None = None
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    before: str = ""


class LeftOut(msgspec.Struct, frozen=True):
    """An event that is not evidence, and why: a count in the report, never a silent drop."""

    origin: Origin
    reason: str


class EvidenceSet(msgspec.Struct, frozen=True):
    """What may be read of one merged change, what was left out, and how many credentials were masked. `about` says what
    the change is, `changed` has hunks of the files that people spoke about: neither is ever quoted."""

    pieces: tuple[Evidence, ...]
    left_out: tuple[LeftOut, ...] = ()
    redactions: int = 0
    about: str = ""
    changed: str = ""


UNKNOWN_TIME = datetime.min.replace(
    tzinfo=UTC
)  # No time in a transcript: that of its commit is put here.


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
    `pull_requests` are those that the transcript itself says it made; `branch` is the last that it names."""

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
