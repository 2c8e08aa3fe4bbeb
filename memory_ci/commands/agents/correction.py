"""Correction: an agent that a person corrects is asked to note what it was taught, at the prompt and at the turn's end.

What was asked is kept in the note of the session. Whether a note was added is seen by the notes that there are, for the
commands of an agent may not write to the git directory (Codex's sandbox).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from msgspec.structs import replace

from memory_ci.commands.agents.text import render_asking_for_feedback, render_asking_to_mark
from memory_ci.errors import MemoryCIError
from memory_ci.files import open_regular
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.workspace import Workspace
from memory_ci.sessions.marked_notes import list_note_ids
from memory_ci.sessions.session_note import Sign, claim, list_signs, note_sign, read_head
from memory_ci.sources.agent_events import AgentEvent

MAX_NUDGES = 3
MAX_DOUBTED = 3  # Entries that one question names.
MAX_DOUBT = 300  # Characters of a prompt that says no more than that something does not hold.
# How a person says of what memory gave that it does not hold.
DOUBT = re.compile(
    r"\b(?:outdated|out[- ]of[- ]date|obsolete|stale|superseded|no longer (?:true|so|valid|holds?|applies|the case)"
    r"|not (?:true|valid|so|the case) any ?more|(?:does|do) ?(?:n.t| not) (?:hold|apply) any ?more)\b",
    re.IGNORECASE,
)

# What stands in a transcript where a person refused a tool call (Claude Code, Gemini CLI); Codex keeps no words.
REFUSED = re.compile(rb"user doesn't want to|\[Operation Cancelled\] Reason:")
TAIL = 1 << 18  # Bytes of a transcript that one turn seldom exceeds.
# Agents whose transcripts are read: of others no words can be proved, and none are asked for.
QUOTABLE = ("claude-code", "codex", "gemini", "copilot", "opencode")


def note_prompt(
    where: Workspace, event: AgentEvent, now: datetime, environ: Mapping[str, str], asks: bool
) -> str:
    """Note a prompt; what the agent is asked if a person steers by it, or says that what it was given does not hold:
    each three times in a session; "" otherwise. Raises RepositoryError (write-failed)."""
    from memory_ci.extraction.wording import find_steering  # 20 ms that the end of a turn spares

    # A program may write the prompt: Claude Code tells, and `codex exec` runs no hooks.
    is_headless = (
        event.agent == "claude-code" and environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") != "cli"
    )
    may_ask = asks and not is_headless
    steers = may_ask and bool(find_steering(event.prompt))
    doubted: Iterable[str] = ()
    if may_ask and len(event.prompt) <= MAX_DOUBT and DOUBT.search(event.prompt):
        # the entries that the turn before was given, the last first
        turn = takewhile(
            lambda sign: not sign.is_prompt, reversed(list_signs(where, event.session))
        )
        doubted = dict.fromkeys(one for sign in turn for one in sign.given)
    sign = Sign(
        agent=event.agent, session=event.session, at=now, transcript=event.transcript, steers=steers
    )
    head = find_commit(where.repo, "HEAD") or ""
    note_sign(
        where, replace(sign, notes=len(list_note_ids(where)), branch=read_head(where), head=head)
    )
    if doubted and any(
        claim(where, event.session, f"doubt {number}", now) for number in range(MAX_NUDGES)
    ):
        return render_asking_for_feedback(tuple(doubted)[:MAX_DOUBTED])
    if steers and any(
        claim(where, event.session, f"nudge {number}", now) for number in range(MAX_NUDGES)
    ):
        return render_asking_to_mark(event.agent in QUOTABLE)
    return ""


def ask_once(where: Workspace, event: AgentEvent, now: datetime) -> str:
    """The question at the end of a turn, once a session: a person steered, or refused a tool call with words, and no
    note was added since; "" otherwise. Raises RepositoryError (write-failed)."""
    signs = (
        []
        if event.is_again
        else [sign for sign in list_signs(where, event.session) if sign.is_prompt]
    )
    steered = [sign for sign in signs if sign.steers] or (
        signs[-1:] if signs and _has_refused(where, event) else []
    )
    if not steered or len(list_note_ids(where)) > steered[-1].notes:
        return ""
    return (
        render_asking_to_mark(event.agent in QUOTABLE, True)
        if claim(where, event.session, "asked", now)
        else ""
    )


def _has_refused(where: Workspace, event: AgentEvent) -> bool:
    """Whether a person's last words refuse a tool call; of most transcripts the end alone is looked at."""
    with suppress(OSError, MemoryCIError):
        with open_regular(path := Path(event.transcript).expanduser()) as stream:
            stream.seek(-min(TAIL, stream.seek(0, os.SEEK_END)), os.SEEK_CUR)
            if not REFUSED.search(stream.read(TAIL)):
                return False
        from memory_ci.memory.quotes import list_turns
        from memory_ci.sessions.capture import read_own

        own = (
            session for session in read_own(where, path, event.agent) if session.id == event.session
        )
        return [turn.kind for session in own for turn in list_turns(session)][-1:] == ["rejection"]
    return False
