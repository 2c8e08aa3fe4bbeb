"""Events of git, forges and agent sessions, and the evidence that is made of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

Actor = Literal["human", "agent", "subagent", "tool", "system", "injected", "bot"]
EventKind = Literal[
    "text", "tool_call", "tool_result", "rejection", "interrupt", "compaction", "commit", "review",
    "pr", "adr", "check", "diff", "intent", "premortem", "assumption", "intervention", "entry",
]  # fmt: skip
Severity = Literal["info", "warn", "error"]
Trust = Literal["T0", "T1", "T2", "T3"]

MID_TURN = ("via", "queue")
"""The label of text that a person typed while the agent worked."""

REFUSED = "refused"
"""The key of the label of a rejection that holds the input of the refused call."""

SHOWN_PATHS = 5
"""The number of paths of a piece of evidence that a prompt names."""

UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
"""The time of an event whose transcript has none; the time of its commit replaces it."""


class Origin(msgspec.Struct, frozen=True):
    """The address of an event: a commit, a pull request, a review or a line of a file."""

    kind: Literal["commit", "pr", "review", "session", "file"]
    id: str
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        """Return the address as text, such as `file:a1b2c3d docs/adr/1.md:7`."""
        place = f" {self.path}" if self.path else ""
        line = f":{self.line}" if self.line is not None else ""
        return f"{self.kind}:{self.id}{place}{line}"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event, with its text unedited.

    Attributes:
        paths: the files that it touched.
        labels: its trailers and marks.
        uid: the id that its source gives it; copies have the same.
        is_outside: it comes from a fork, or from a person without write access to the repository.
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


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of evidence, without secrets.

    Attributes:
        id: its address within one request (`e1`).
        before: the preceding words of the agent, or the call that it wanted to make; never quoted.
    """

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
    """An event that is not evidence, and the reason; reports count these events by reason."""

    origin: Origin
    reason: str


class EvidenceSet(msgspec.Struct, frozen=True):
    """The evidence of one merged change.

    Attributes:
        left_out: the events that were refused or dropped as evidence, each with the reason.
        redactions: the number of masked credentials.
        about: a description of the change; never quoted.
        changed: hunks of the files that people spoke about; never quoted.
    """

    pieces: tuple[Evidence, ...]
    left_out: tuple[LeftOut, ...] = ()
    redactions: int = 0
    about: str = ""
    changed: str = ""


class SessionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of events of each sort in one session.

    Attributes:
        human_turns: turns of people, including those of `mid_turn`.
        unknown: records of types that no reader knows, by type.
    """

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
    """One session of an agent, as its transcript records it.

    Attributes:
        id: the id that the agent gave it.
        path: the name of its file, never an absolute path.
        branch: the last branch that the transcript names.
        pull_requests: the pull requests that it made, according to the transcript.
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
        """`<agent>:<id>`, as in the trailer `Memory-Session`."""
        return f"{self.agent}:{self.id}"
