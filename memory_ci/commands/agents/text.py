"""Text on sessions for a terminal, and the requests that a hook gives to agents."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.findings import printable
from memory_ci.records.event import MID_TURN, Event, Session
from memory_ci.regex import Regex

UUID = Regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # Lower case, as agents write it.

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
    """Return a line for each session under a line of headings, "" for no session."""
    if not sessions:
        return ""
    from memory_ci.cli.terminal import render_rows

    return render_rows([HEADINGS, *(_make_row(session) for session in sessions)])


def _make_row(session: Session) -> tuple[str, ...]:
    """Return the cells of the table's line for a session, under `HEADINGS`."""
    counts = session.counts
    # Sessions differ in the start of a UUID. Other ids begin with the name of a file, and differ
    # in their end.
    short_id = session.id[:8] if UUID.fullmatch(session.id) else session.id[-24:]
    started = session.started.strftime("%Y-%m-%d %H:%M") if session.started else "-"
    unknown = ", ".join(f"{name} {count}" for name, count in counts.unknown.items()) or "-"
    cells = (
        session.format,
        session.agent,
        short_id,
        started,
        str(counts.records),
        f"{counts.human_turns} ({counts.mid_turn})",
        f"{counts.rejections} ({counts.rejections_with_reason})",
        str(counts.interrupts),
        str(counts.compactions),
        str(counts.subagent_events),
        str(counts.duplicates),
        str(counts.bad_lines),
        unknown,
    )
    return tuple(printable(cell) for cell in cells)


def render_human(sessions: Sequence[Session]) -> str:
    """Return the turns of people in sessions, each with its file and line, for a terminal."""
    lines: list[str] = []
    for session in sessions:
        lines.append(f"{session.key} ({session.format})")
        for event in session.events:
            text_lines = event.text.splitlines() or [""]
            origin = f"{event.origin.path}:{event.origin.line}"
            lines.append(f"  {origin}: {_label_event(event)}{text_lines[0]}")
            lines += [f"    {line}" for line in text_lines[1:]]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def _label_event(event: Event) -> str:
    """Return the label of a turn, with a blank behind it; plain prompts have none."""
    if event.kind == "text":
        return "[mid-turn] " if MID_TURN in event.labels else ""
    if event.tool:
        return f"[{event.kind} {event.tool}] "
    return f"[{event.kind}] "


def render_note_request(asks_for_quote: bool, is_end: bool = False) -> str:
    """Return the text that asks an agent to note, by `memory-ci add`, how a person corrected it.

    Args:
        asks_for_quote: ask for the words of the person, too.
        is_end: the request comes at the end of a turn, and not at the prompt.
    """
    reason = "this prompt may be a correction"
    when = "at the end of this turn. If not, do nothing about it."
    if is_end:
        reason = "a person corrected you, and nothing was noted"
        when = "now. If not, end without a word about this."
    quote = ' --quote "WORDS OF THE PERSON, EXACTLY"' if asks_for_quote else ""
    command = f'`memory-ci add "RULE IN ONE SENTENCE" --body "WHY"{quote}`'
    rule = "If it will still hold next month for others who work here, run"
    return f"memory-ci: {reason}. {rule} {command} {when}"


def render_feedback_request(ids: Sequence[str]) -> str:
    """Return the text that asks an agent whether a person's words reject one of some entries."""
    commands = ", ".join(f"`memory-ci feedback {entry_id[:8]} rejected`" for entry_id in ids)
    return (
        f"memory-ci: if this is about an entry that you were given, say so: {commands}. "
        "If not, do nothing about it."
    )
