"""Requests to an agent to note a person's corrections, at the prompt and at the end of the turn.

The file of the session records each request. Whether the agent has added a note since is found by
counting notes, because an agent's commands may not write to the git directory (Codex's sandbox).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from memory_ci.commands.agents.text import render_feedback_request, render_note_request
from memory_ci.errors import MemoryCIError
from memory_ci.files import open_regular
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.workspace import Workspace
from memory_ci.regex import Regex
from memory_ci.sessions.marked_notes import list_note_ids
from memory_ci.sessions.session_note import (
    SessionActivity,
    claim_event,
    list_activities,
    note_activity,
    read_head,
)
from memory_ci.sources.agent_events import AgentEvent

MAX_REQUESTS = 3  # requests of each kind in a session
MAX_DOUBTED = 3  # entries that one question names
MAX_DOUBTING_PROMPT = 300  # characters; a longer prompt says more than that an entry does not hold
NO_LONGER_HOLDS = Regex(
    r"\b(?:outdated|out[- ]of[- ]date|obsolete|stale|superseded"
    r"|no longer (?:true|so|valid|holds?|applies|the case)"
    r"|not (?:true|valid|so|the case) any ?more"
    r"|(?:does|do) ?(?:n.t| not) (?:hold|apply) any ?more)\b",
    re.IGNORECASE,
)
"""A person says that an entry does not hold any more, as "that is outdated"."""

REFUSED_TOOL_CALL = Regex(rb"user doesn't want to|\[Operation Cancelled\] Reason:")
"""Text of a transcript where a person refused a tool call: Claude Code, Gemini CLI.

Codex stores no words.
"""

TURN_BYTES = 1 << 18  # bytes of a transcript that one turn seldom exceeds
AGENTS_WITH_QUOTES = ("claude-code", "codex", "gemini", "copilot", "opencode")
"""Agents whose transcripts are read; of others no quote can be proved, and none is asked for."""


def note_prompt(
    workspace: Workspace,
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    may_ask: bool,
) -> str:
    """Record a prompt in the note of its session, and return a request to the agent.

    If the person says by the prompt that a served entry does not hold, the agent is asked for
    feedback on it. Else, if the person corrects the agent, it is asked to note the correction. Each
    kind of request is made `MAX_REQUESTS` times a session at most.

    Args:
        workspace: the workspace.
        event: the prompt.
        now: the time.
        environ: the environment.
        may_ask: whether the agent may be asked.

    Returns:
        The request, "" for none.

    Raises:
        RepositoryError: write-failed.
    """
    from memory_ci.extraction.suspects import find_steering  # 20 ms that the end of a turn saves

    # A program may write the prompt: Claude Code says so, and `codex exec` runs no hooks.
    entrypoint = environ.get("CLAUDE_CODE_ENTRYPOINT", "cli")
    is_headless = event.agent == "claude-code" and entrypoint != "cli"
    may_ask = may_ask and not is_headless
    is_correction = may_ask and bool(find_steering(event.prompt))
    doubted_ids: list[str] = []
    if (
        may_ask
        and len(event.prompt) <= MAX_DOUBTING_PROMPT
        and NO_LONGER_HOLDS.search(event.prompt)
    ):
        doubted_ids = _list_last_served(workspace, event.session)

    prompt_sign = SessionActivity(
        agent=event.agent,
        session=event.session,
        at=now,
        transcript=event.transcript,
        steers=is_correction,
        notes=len(list_note_ids(workspace)),
        branch=read_head(workspace),
        head=find_commit(workspace.repo, "HEAD") or "",
    )
    note_activity(workspace, prompt_sign)
    if doubted_ids and _claim_request(workspace, event.session, "doubt", now):
        return render_feedback_request(doubted_ids[:MAX_DOUBTED])
    if is_correction and _claim_request(workspace, event.session, "nudge", now):
        return render_note_request(event.agent in AGENTS_WITH_QUOTES)
    return ""


def _list_last_served(workspace: Workspace, session: str) -> list[str]:
    """Return the ids of entries that were served since the last prompt, each once.

    Those of the newest event come first.
    """
    ids: list[str] = []
    for activity in reversed(list_activities(workspace, session)):
        if activity.is_prompt:
            break
        ids += activity.served
    return list(dict.fromkeys(ids))


def _claim_request(workspace: Workspace, session: str, kind: str, now: datetime) -> bool:
    """Return whether a session may get one more request of a kind, and count it."""
    return any(
        claim_event(workspace, session, f"{kind} {number}", now) for number in range(MAX_REQUESTS)
    )


def ask_for_note_once(workspace: Workspace, event: AgentEvent, now: datetime) -> str:
    """Return the request to note a correction at the end of a turn, once a session, "" for none.

    It is made if a person corrected the agent by a prompt, or by refusing a tool call with words,
    and no note was added since.

    Raises:
        RepositoryError: write-failed.
    """
    if (
        event.was_continued
    ):  # The agent goes on because of an earlier question at the end of this turn.
        return ""
    prompts = [
        activity for activity in list_activities(workspace, event.session) if activity.is_prompt
    ]
    correcting_prompts = [activity for activity in prompts if activity.steers]
    if not correcting_prompts and prompts and _ends_with_refusal(workspace, event):
        correcting_prompts = prompts[-1:]
    if not correcting_prompts:
        return ""
    note_count_at_prompt = correcting_prompts[-1].notes
    if len(list_note_ids(workspace)) > note_count_at_prompt:  # A note was added since.
        return ""
    if not claim_event(workspace, event.session, "asked", now):
        return ""
    return render_note_request(event.agent in AGENTS_WITH_QUOTES, is_end=True)


def _ends_with_refusal(workspace: Workspace, event: AgentEvent) -> bool:
    """Return whether the last turn of a person in a session refuses a tool call.

    A transcript is parsed only if its end looks as if it held a refusal.
    """
    path = Path(event.transcript).expanduser()
    with suppress(OSError, MemoryCIError):
        with open_regular(path) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(-min(TURN_BYTES, size), os.SEEK_CUR)
            if not REFUSED_TOOL_CALL.search(stream.read(TURN_BYTES)):
                return False
        from memory_ci.memory.quotes import list_turns
        from memory_ci.sessions.capture import read_repository_sessions

        turn_kinds: list[str] = []
        for session in read_repository_sessions(workspace, path, event.agent):
            if session.id == event.session:
                turn_kinds += [turn.kind for turn in list_turns(session)]
        return turn_kinds[-1:] == ["rejection"]
    return False
