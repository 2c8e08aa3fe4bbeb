"""What every transcript reader shares: numbering, addresses, times, and the counts that let one trust a parser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from memory_ci.records.event import (
    MID_TURN,
    UNKNOWN_TIME,
    Actor,
    Event,
    EventKind,
    Origin,
    Session,
    SessionCounts,
    Severity,
)

MAX_TOOL_TEXT = 2_000
"""Characters kept of what a tool was given or answered: it only corroborates, and is never quoted."""


class SessionBuilder:
    """Collects the events of one session in the order of its file; `build` gives the frozen value."""

    def __init__(self, agent: str, session_id: str, format_name: str, path: str) -> None:
        self.agent, self.id, self.format, self.path = agent, session_id, format_name, path
        self.branch = ""
        self.pull_requests: list[int] = []
        self.events: list[Event] = []
        self._seen: set[str] = set()
        self._unknown: Counter[str] = Counter()
        self._records = self._bad = self._duplicates = 0

    def record(self) -> None:
        """Count one line or object of the file."""
        self._records += 1

    def bad_line(self) -> None:
        """Count a line that could not be read."""
        self._bad += 1

    def unknown(self, type_name: str) -> None:
        """Count a record of a type that this reader does not know."""
        self._unknown[type_name[:60]] += 1

    def add(
        self,
        actor: Actor,
        kind: EventKind,
        text: str,
        *,
        line: int,
        at: datetime | None = None,
        uid: str = "",
        tool: str | None = None,
        ok: bool | None = None,
        severity: Severity = "info",
        paths: tuple[str, ...] = (),
        labels: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """One event found at `line` (from 1). An event whose `uid` was seen before is counted as a duplicate."""
        if uid and uid in self._seen:
            self._duplicates += 1
            return
        self._seen.add(uid)
        self.events.append(
            Event(
                seq=len(self.events),
                at=at or UNKNOWN_TIME,
                actor=actor,
                kind=kind,
                text=text[:MAX_TOOL_TEXT] if kind in ("tool_call", "tool_result") else text,
                origin=Origin(kind="session", id=f"{self.agent}:{self.id}", path=self.path, line=line),
                tool=tool,
                ok=ok,
                severity=severity,
                paths=paths,
                labels=labels,
                session=f"{self.agent}:{self.id}",
                uid=uid,
            )
        )

    def build(self) -> Session:
        """The session, its events in the order of the file."""
        times = [event.at for event in self.events if event.at != UNKNOWN_TIME]
        return Session(
            agent=self.agent,
            id=self.id,
            format=self.format,
            path=self.path,
            events=tuple(self.events),
            counts=count_events(
                self.events,
                records=self._records,
                bad_lines=self._bad,
                duplicates=self._duplicates,
                unknown=self._unknown,
            ),
            branch=self.branch,
            started=min(times, default=None),
            ended=max(times, default=None),
            pull_requests=tuple(dict.fromkeys(self.pull_requests)),
        )


def count_events(
    events: Sequence[Event], *, records: int, bad_lines: int, duplicates: int, unknown: Mapping[str, int]
) -> SessionCounts:
    """What `events` hold, beside what only the reading of the file could count."""
    kinds = Counter((event.actor, event.kind) for event in events)
    of_kind = Counter(event.kind for event in events)
    return SessionCounts(
        records=records,
        human_turns=kinds["human", "text"],
        mid_turn=sum(MID_TURN in event.labels for event in events),
        rejections=of_kind["rejection"],
        rejections_with_reason=sum(event.kind == "rejection" and bool(event.text) for event in events),
        interrupts=of_kind["interrupt"],
        compactions=of_kind["compaction"],
        agent_texts=kinds["agent", "text"],
        subagent_events=sum(event.actor == "subagent" for event in events),
        tool_calls=of_kind["tool_call"],
        tool_results=of_kind["tool_result"],
        injected=sum(event.actor == "injected" for event in events),
        duplicates=duplicates,
        bad_lines=bad_lines,
        unknown=dict(sorted(unknown.items())),
    )


def parse_time(value: object) -> datetime | None:
    """An ISO 8601 time as an aware value in UTC, or None for anything else; a time without a zone is taken as UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
