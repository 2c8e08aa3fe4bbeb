"""Sessions for a terminal: what a reader found in each, and what people said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memory_ci.records.event import MID_TURN, Event, Session
from memory_ci.rendering.table import printable

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

HEADINGS = (
    "format",
    "agent",
    "id",
    "started",
    "records",
    "human (mid-turn)",
    "rejections (reason)",
    "interrupts",
    "compactions",
    "sub-agent",
    "duplicates",
    "bad lines",
    "unknown",
)


def render_sessions(sessions: Sequence[Session]) -> str:
    """One line a session under a line of headings; nothing for none."""
    if not sessions:
        return ""
    rows = [HEADINGS, *(_row(session) for session in sessions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _row(session: Session) -> tuple[str, ...]:
    counts = session.counts
    unknown = ", ".join(f"{name} {count}" for name, count in counts.unknown.items())
    cells = (
        session.format,
        session.agent,
        _short_id(session.id),
        session.started.strftime("%Y-%m-%d %H:%M") if session.started else "-",
        str(counts.records),
        f"{counts.human_turns} ({counts.mid_turn})",
        f"{counts.rejections} ({counts.rejections_with_reason})",
        str(counts.interrupts),
        str(counts.compactions),
        str(counts.subagent_events),
        str(counts.duplicates),
        str(counts.bad_lines),
        unknown or "-",
    )
    return tuple(printable(cell) for cell in cells)


def _short_id(session: str) -> str:
    """The start of a UUID tells sessions apart; of other ids, which begin with a file's name, the end does."""
    return session[:8] if UUID.fullmatch(session) else session[-24:]


def render_human(sessions: Sequence[Session]) -> str:
    """What people said, each turn with its file and line; further lines of a turn are indented."""
    return "".join(f"{line}\n" for session in sessions for line in _said(session))


def _said(session: Session) -> Iterator[str]:
    yield printable(f"{session.key} ({session.format})")
    for event in session.events:
        first, *rest = event.text.splitlines() or [""]
        yield printable(f"  {event.origin.path}:{event.origin.line}: {_label(event)}{first}").rstrip()
        yield from (printable(f"    {line}").rstrip() for line in rest)


def _label(event: Event) -> str:
    if event.kind == "text":
        return "[mid-turn] " if MID_TURN in event.labels else ""
    return f"[{event.kind}{f' {event.tool}' if event.tool else ''}] "
