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
from memory_ci.sessions.session_note import list_sessions_at_work
from memory_ci.sources.transcripts.registry import OPENCODE, default_places, find_transcripts
from memory_ci.text import plural


def read_session(workspace: Workspace, keys: Sequence[str], home: Path, now: datetime) -> Session:
    """Return the session that a quotation is from, read from its transcript.

    It is the one session at work in this work tree, or with keys the one of these that is at work.
    If none of them is at work, a single key names the session.

    Args:
        workspace: the workspace.
        keys: `<agent>:<id>`, or an id; empty for any session.
        home: the home of the user.
        now: the current time.

    Raises:
        UsageError: no-session, if none or several sessions can be meant; no-transcript, if no file
            has the session; transcript-unreadable, foreign-transcript or unknown-transcript, if its
            file cannot be read, is of another repository, or has no known format.
    """
    candidates = list_sessions_at_work(workspace, now)
    if keys:
        candidates = [
            activity for activity in candidates if activity.key in keys or activity.session in keys
        ]
    if len(candidates) > 1:
        raise _make_ambiguity_error(len(candidates))
    if not candidates and len(keys) != 1:
        raise _make_ambiguity_error(len(keys))

    root = work_tree(workspace)
    transcript = ""
    if candidates:
        session_at_work = candidates[0]
        key = session_at_work.key
        agent = session_at_work.agent
        session_id = session_at_work.session
        transcript = session_at_work.transcript
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


def _make_ambiguity_error(count: int) -> UsageError:
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
