"""Correction: an agent that a person corrects is asked to note what it was taught, at the prompt and at the turn's end.

What was asked is kept in the note of the session. Whether a note was added is seen in the inbox alone, for the commands
of an agent may not write to the git directory (Codex's sandbox).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from memory_ci.flows.serve.session_note import Sign, claim, list_signs, note_sign
from memory_ci.flows.workspace import Workspace
from memory_ci.rendering.sessions import render_asking_to_mark
from memory_ci.sources.agent_events import AgentEvent
from memory_ci.store.layout import INBOX

MAX_NUDGES = 3
QUOTABLE = ("claude-code", "codex", "gemini")
"""Agents whose transcripts are read: of others no words can be proved, and none are asked for."""


def note_prompt(
    where: Workspace, event: AgentEvent, now: datetime, environ: Mapping[str, str], *, asks: bool = True
) -> str:
    """Note a prompt; what the agent is asked if a person steers by it, three times in a session, "" otherwise.

    Raises RepositoryError (write-failed).
    """
    from memory_ci.extraction.suspects import find_steering  # 20 ms that the end of a turn spares

    steers = asks and not _is_headless(event, environ) and bool(find_steering(event.prompt))
    notes = _count_notes(where) if steers else None
    sign = Sign(agent=event.agent, session=event.session, at=now, transcript=event.transcript, notes=notes)
    note_sign(where, sign)
    if steers and any(claim(where, event.session, f"nudge {number}", now) for number in range(MAX_NUDGES)):
        return render_asking_to_mark(event.agent in QUOTABLE)
    return ""


def ask_once(where: Workspace, event: AgentEvent, now: datetime) -> str:
    """The question at the end of a turn, once a session: a person steered, and no note was added since; "" otherwise.

    Raises RepositoryError (write-failed).
    """
    steered = [sign.notes for sign in list_signs(where, event.session) if sign.notes is not None]
    if event.is_again or not steered or _count_notes(where) > steered[-1]:
        return ""
    return render_asking_to_mark(event.agent in QUOTABLE, True) if claim(where, event.session, "asked", now) else ""


def _is_headless(event: AgentEvent, environ: Mapping[str, str]) -> bool:
    """Whether a program wrote the prompt, where the agent tells: Claude Code does, and `codex exec` runs no hooks."""
    return event.agent == "claude-code" and environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") != "cli"


def _count_notes(where: Workspace) -> int:
    return sum(1 for _ in (where.repo.root / INBOX).glob("*.md")) if where.repo.root else 0
