"""Search for the session from which a note quotes a person, to prove the quote by its transcript.

Later the quote is proved by the captured digest of the session.
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
    """Return the session with one of some keys, read from its transcript.

    Without keys it is the one session that is at work in this work tree.

    Args:
        workspace: the workspace.
        keys: `<agent>:<id>`, or an id; empty for any session.
        home: the home of the user.
        now: the current time.

    Raises:
        UsageError: no-session, no-transcript, transcript-unreadable, foreign-transcript,
            unknown-transcript.
    """
    live = list_live(workspace, now)
    if keys:
        live = [sign for sign in live if sign.key in keys or sign.session in keys]
    if len(live) > 1:
        raise _ambiguous(len(live))
    if not live and len(keys) != 1:
        raise _ambiguous(len(keys))

    root = work_tree(workspace)
    transcript = ""
    if live:
        key = live[0].key
        agent = live[0].agent
        session_id = live[0].session
        transcript = live[0].transcript
    else:
        key = keys[0]
        agent, _, session_id = key.rpartition(":")
    if transcript:
        paths = iter([Path(transcript).expanduser()])
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
    """Return the error that the quoted session is unclear: none or several could be meant."""
    sessions = plural(count, "session") if count else "no session"
    hint = "Set MEMORY_CI_SESSION=<agent>:<id>, or leave --quote out: a person reviews the note."
    message = f"{sessions} could be the one that is quoted"
    return UsageError(message, slug="no-session", hint=hint)


def _iter_transcripts(root: Path, home: Path, session_id: str) -> Iterator[Path]:
    """Yield the files that may be the transcript of a session, from where agents keep transcripts.

    Files in the work tree `root` are left out, because an agent may edit them.
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
