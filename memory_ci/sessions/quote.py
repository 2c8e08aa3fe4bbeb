"""Quotes of a person in a session.

They are proved by the transcript when they are noted, and by the digest of the session later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from memory_ci.errors import UsageError
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.records.event import Session
from memory_ci.sessions.capture import read_repository_sessions
from memory_ci.sessions.session_note import list_live
from memory_ci.sources.transcripts.registry import OPENCODE, default_places, find_transcripts
from memory_ci.text import plural


def read_session(workspace: Workspace, keys: Sequence[str], home: Path, now: datetime) -> Session:
    """Return the session of some keys, else the session at work in this work tree.

    Args:
        workspace: the workspace.
        keys: `<agent>:<id>`, or an id; empty for any session.
        home: the home of the user.
        now: the current time.

    Raises:
        UsageError: no-session, no-transcript, transcript-unreadable, foreign-transcript,
            unknown-transcript.
    """
    live = [
        sign
        for sign in list_live(workspace, now)
        if not keys or {sign.key, sign.session} & set(keys)
    ]
    if len(live) > 1 or not (live or len(keys) == 1):
        raise _ambiguous(len(live) or len(keys))

    root = work_tree(workspace)
    if live:
        key = live[0].key
        agent = live[0].agent
        session_id = live[0].session
    else:
        key = keys[0]
        agent, _, session_id = key.rpartition(":")
    if live and live[0].transcript:
        paths = iter([Path(live[0].transcript).expanduser()])
    else:
        paths = _iter_transcripts(root, home, session_id)

    for path in paths:
        for session in read_repository_sessions(workspace, path, agent, session_id=session_id):
            if session.id == session_id:
                return session
    hint = (
        "`memory-ci help agents` says whose transcripts are read. "
        "Leave --quote out: a person reviews the note."
    )
    message = f"no transcript of the session {key} was found"
    raise UsageError(message, slug="no-transcript", hint=hint)


def _ambiguous(count: int) -> UsageError:
    sessions = plural(count, "session") if count else "no session"
    hint = "Set MEMORY_CI_SESSION=<agent>:<id>, or leave --quote out: a person reviews the note."
    message = f"{sessions} could be the one that is quoted"
    return UsageError(message, slug="no-session", hint=hint)


def _iter_transcripts(root: Path, home: Path, session_id: str) -> Iterator[Path]:
    """Yield the files that may be the transcript of a session, where agents keep them.

    Files in the work tree `root` are left out: an agent edits them.
    """
    database = home / OPENCODE
    is_of_opencode = session_id.startswith("ses_")
    outside = [place for place in default_places(home, root) if not place.is_relative_to(root)]
    for path in find_transcripts(outside):
        if path == database:
            if is_of_opencode:
                yield path
        elif not is_of_opencode and session_id[:8] in f"{path.parent.name}/{path.name}":
            yield path
