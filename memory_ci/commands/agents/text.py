"""Sessions, recalled episodes, a pre-mortem and a reminder, for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory_ci.cli.terminal import render_rows
from memory_ci.findings import printable
from memory_ci.records.event import MID_TURN, Session

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

HEADINGS = (
    "format", "agent", "id", "started", "records", "human (mid-turn)", "rejections (reason)", "interrupts",
    "compactions", "sub-agent", "duplicates", "bad lines", "unknown",
)  # fmt: skip


def render_sessions(sessions: Sequence[Session]) -> str:
    """One line a session under a line of headings; nothing for none."""
    return render_rows([HEADINGS, *(_row(session) for session in sessions)]) if sessions else ""


def _row(session: Session) -> tuple[str, ...]:
    counts = session.counts
    # The start of a UUID tells sessions apart; of other ids, which begin with a file's name, the end does.
    cells = (
        session.format,
        session.agent,
        session.id[:8] if UUID.fullmatch(session.id) else session.id[-24:],
        session.started.strftime("%Y-%m-%d %H:%M") if session.started else "-",
        str(counts.records),
        f"{counts.human_turns} ({counts.mid_turn})",
        f"{counts.rejections} ({counts.rejections_with_reason})",
        str(counts.interrupts),
        str(counts.compactions),
        str(counts.subagent_events),
        str(counts.duplicates),
        str(counts.bad_lines),
        ", ".join(f"{name} {count}" for name, count in counts.unknown.items()) or "-",
    )
    return tuple(printable(cell) for cell in cells)


def render_human(sessions: Sequence[Session]) -> str:
    """What people said, each turn with its file and line; further lines of a turn are indented."""
    lines = []
    for session in sessions:
        lines.append(f"{session.key} ({session.format})")
        for event in session.events:
            label = f"[{event.kind}{f' {event.tool}' if event.tool else ''}] "
            if event.kind == "text":
                label = "[mid-turn] " if MID_TURN in event.labels else ""
            first, *rest = event.text.splitlines() or [""]
            lines.append(f"  {event.origin.path}:{event.origin.line}: {label}{first}")
            lines += [f"    {line}" for line in rest]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def render_asking_to_mark(has_quote: bool, is_end: bool = False) -> str:
    """What an agent is asked that a person corrects, at the prompt or at the end of the turn."""
    quote = ' --quote "WORDS OF THE PERSON, EXACTLY"' if has_quote else ""
    if is_end:
        head, tail = (
            "a person corrected you, and nothing was noted",
            "now. If not, end without a word about this.",
        )
    else:
        head, tail = (
            "this prompt may be a correction",
            "at the end of this turn. If not, do nothing about it.",
        )
    rule = "If it will still hold next month for others who work here, run"
    return f'memory-ci: {head}. {rule} `memory-ci add "RULE IN ONE SENTENCE" --body "WHY"{quote}` {tail}'


def render_asking_for_feedback(ids: Sequence[str]) -> str:
    """What an agent is asked whose person says that what memory gave it before does not hold."""
    commands = ", ".join(f"`memory-ci feedback {one[:8]} rejected`" for one in ids)
    return f"memory-ci: if this is about an entry that you were given, say so: {commands}. If not, do nothing about it."
