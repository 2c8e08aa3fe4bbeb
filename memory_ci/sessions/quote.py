"""Quotes: words of a person in a session, proved by its transcript when they are noted, and by its digest later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memory_ci.errors import UsageError
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.records.event import Session
from memory_ci.sessions.capture import read_own
from memory_ci.sessions.session_note import list_live
from memory_ci.sources.transcripts.registry import OPENCODE, default_places, find_transcripts
from memory_ci.text import plural


def read_session(workspace: Workspace, keys: Sequence[str], home: Path, now: datetime) -> Session:
    """The session of these keys (`<agent>:<id>`, or an id), else the one that is at work in this work tree. Raises
    UsageError: no-session, no-transcript, transcript-unreadable, foreign-transcript, unknown-transcript."""
    live = [
        sign
        for sign in list_live(workspace, now)
        if not keys or {sign.key, sign.session} & set(keys)
    ]
    if len(live) > 1 or not (live or len(keys) == 1):
        count = plural(len(live) or len(keys), "session") if live or keys else "no session"
        hint = "Set MEMORY_CI_SESSION=<agent>:<id>, or leave --quote and --turn out: a person reviews the note."
        raise UsageError(f"{count} could be the one that is quoted", slug="no-session", hint=hint)
    agent, _, own = (live[0].agent, "", live[0].session) if live else keys[0].rpartition(":")
    told = live[0].transcript if live else ""
    root = work_tree(workspace)  # An agent edits what lies in it.
    kept = find_transcripts(
        place for place in default_places(home, root) if not place.is_relative_to(root)
    )
    files = (
        path
        for path in kept
        if own[:8] in f"{path.parent.name}/{path.name}" or path == home / OPENCODE
    )
    own_files = (path for path in files if (path == home / OPENCODE) == own.startswith("ses_"))
    paths = [Path(told).expanduser()] if told else own_files
    for path in paths:
        for session in read_own(workspace, path, agent, own=own):
            if session.id == own:
                return session
    hint = "`memory-ci help agents` says whose transcripts are read. Leave --quote out: a person reviews the note."
    raise UsageError(
        f"no transcript of the session {live[0].key if live else keys[0]} was found",
        slug="no-transcript",
        hint=hint,
    )
