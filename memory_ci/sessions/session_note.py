"""Notes on agent sessions in the git directory: which entries each was served, and when it worked.

By them an entry is served again to a session only if it changed. There is one file for each
session. Lines are only appended, because hooks of one session run at the same time. A line is a
fingerprint of a served value, CLEARED where the agent lost its context (compaction),
HELD_OUT_LINE, or a `SessionActivity` as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.digests import blake2b
from memory_ci.errors import RepositoryError
from memory_ci.files import lock_file, read_regular
from memory_ci.gitrepo.repo import find_repository
from memory_ci.memory.workspace import Workspace, repository_path
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Hit, Norm, Retrieval, SimilarTask

ServedItem = Hit | Norm | SimilarTask | str
"""A value served to a session; str: a line of hints, or the path of a file whose entries it got."""

CLEARED = "-"
HELD_OUT_LINE = "held-out"  # The session is served nothing, for comparison (`retrieve.holdout`).
MAX_BYTES = 1 << 20  # Some 60,000 lines; no single session writes more.
DAYS_KEPT = 30  # Days that a clone keeps what a session was served.

MAX_IDLE_TIME = timedelta(hours=8)
"""How long after its last prompt a session whose end was not noted may still be at work."""


class SessionActivity(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"served": "given", "served_requests": "told"},
):
    """An activity of a session: a prompt, an edit, served entries, or its end.

    Attributes:
        agent: the name of the agent.
        session: the id of the session.
        at: the time of the activity.
        transcript: the path of the session's transcript.
        notes: the number of notes when the prompt was written.
        steers: whether a person corrects the agent by the prompt.
        branch: the full name of the branch of HEAD, or its commit if detached.
        head: the commit of HEAD.
        edited: files that were edited.
        served: ids of entries that were served.
        served_requests: keys of requests that were served and that nobody agreed to yet.
        is_over: whether the session ended.
    """

    agent: str
    session: str
    at: datetime
    transcript: str = ""
    notes: int = 0
    steers: bool = False
    branch: str = ""
    head: str = ""
    edited: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    served_requests: tuple[str, ...] = ()
    is_over: bool = False

    @property
    def is_prompt(self) -> bool:
        """Whether the activity is a prompt."""
        return not (self.edited or self.served or self.served_requests or self.is_over)

    @property
    def key(self) -> str:
        """`<agent>:<id>`, as the `Memory-Session:` trailer names the session."""
        return f"{self.agent}:{self.session}"


def list_served_fingerprints(workspace: Workspace, session: str) -> frozenset[str]:
    """Return the fingerprints (hashes) of all entries and hints that a session's context has.

    These are the values served since the agent last lost its context (compaction).
    """
    lines = _read(get_note_path(workspace, session))
    if CLEARED in lines:
        last_cleared = len(lines) - lines[::-1].index(CLEARED)
        lines = lines[last_cleared:]
    return frozenset(lines)


def list_unserved_files(workspace: Workspace, session: str, files: Iterable[Path]) -> list[Path]:
    """Return the files about which a session was not served entries yet."""
    served = list_served_fingerprints(workspace, session)
    return [
        file
        for file in files
        if compute_fingerprint(repository_path(workspace, file)) not in served
    ]


def open_bare_workspace(start: Path) -> Workspace:
    """Return the repository around `start` without its configuration, which notes do not need."""
    return Workspace(find_repository(start), Config())


def read_head(workspace: Workspace) -> str:
    """Return the full name of HEAD's branch, or its commit.

    It starts no git process: each edit of an agent waits for it.
    """
    with suppress(OSError):
        head = (workspace.repo.git_dir / "HEAD").read_text("utf-8", "replace")
        return head.strip().removeprefix("ref: ")
    return ""


def note_served(
    workspace: Workspace,
    session: str,
    retrieval: Retrieval,
    now: datetime,
    about: str | None = None,
) -> None:
    """Note in the git directory what a session was served, by the fingerprint of each value.

    If the session is held out (served nothing, for comparison), that is noted once.

    Args:
        workspace: the workspace.
        session: the id of the session.
        retrieval: the answer that served the values.
        now: the current time.
        about: the path of the file that the answer is about, if any.

    Raises:
        RepositoryError: write-failed.
    """
    if retrieval.held_out:
        if HELD_OUT_LINE not in list_served_fingerprints(workspace, session):
            _append(workspace, session, [HELD_OUT_LINE], now)
        return
    values: list[ServedItem] = [*retrieval.norms, *retrieval.hits, *retrieval.organisation]
    values += [*retrieval.hints.changes, *retrieval.hints.habits]
    if about is not None:
        values.append(about)
    _append(workspace, session, [compute_fingerprint(value) for value in values], now)


def note_cleared(workspace: Workspace, session: str, now: datetime) -> None:
    """Note that a session has lost its context, and all entries in it.

    Raises:
        RepositoryError: write-failed.
    """
    if get_note_path(workspace, session).exists():
        _append(workspace, session, [CLEARED], now)


def claim_event(workspace: Workspace, session: str, event: str, now: datetime) -> bool:
    """Return whether this hook is the first of those that run at once for one event of a session.

    Each hook appends a line with a hash of the event and a random number to the note of the
    session. The hook whose line comes first is the first.

    Raises:
        RepositoryError: write-failed.
    """
    event_hash = _hash("event", event)
    own_line = f"{event_hash}:{os.urandom(6).hex()}"
    _append(workspace, session, [own_line], now)
    for line in _read(get_note_path(workspace, session)):
        if line.startswith(event_hash):
            return line == own_line
    return True


@contextmanager
def lock_hooks(workspace: Workspace) -> Iterator[None]:
    """Lock the git directory, so that all other hooks of this work tree wait until the block ends.

    An agent runs hooks at the same time, and each would serve all memory. Where a directory cannot
    be locked, nothing waits.
    """
    handle = None
    try:
        with suppress(OSError):
            handle = os.open(workspace.repo.git_dir, os.O_RDONLY)
            lock_file(handle, wait=True)  # until this process ends, at the latest
        yield
    finally:
        if handle is not None:
            os.close(handle)


def note_activity(workspace: Workspace, activity: SessionActivity) -> None:
    """Append an activity (a prompt, an edit, served entries or the end) to a session's note.

    Once the note is half full, edits and served entries are left out: prompts and the end of the
    session must fit.

    Raises:
        RepositoryError: write-failed.
    """
    if activity.edited or activity.served or activity.served_requests:
        with suppress(OSError):
            if get_note_path(workspace, activity.session).stat().st_size > MAX_BYTES // 2:
                return
    _append(workspace, activity.session, [msgspec.json.encode(activity).decode()], activity.at)


def note_session_end(workspace: Workspace, agent: str, session: str, now: datetime) -> None:
    """Note as an activity that a session is over, if any note on the session exists.

    Raises:
        RepositoryError: write-failed.
    """
    if get_note_path(workspace, session).exists():
        end = SessionActivity(agent=agent, session=session, at=now, is_over=True)
        note_activity(workspace, end)


def list_activities(workspace: Workspace, session: str) -> list[SessionActivity]:
    """Return the activities of a session, the earliest first."""
    return _parse_activities(get_note_path(workspace, session))


def list_activities_of_recent_sessions(
    workspace: Workspace, now: datetime
) -> list[list[SessionActivity]]:
    """Return the activities (prompts, edits …) of each session of this work tree that may go on.

    These are sessions with an activity in the last hours (MAX_IDLE_TIME).
    """
    recent = []
    for path in sorted(_list_notes(workspace)):
        activities = _parse_activities(path)
        if activities and now - MAX_IDLE_TIME <= activities[-1].at:
            recent.append(activities)
    return recent


def list_sessions_at_work(workspace: Workspace, now: datetime) -> list[SessionActivity]:
    """Return the last activity of each session that is at work in this work tree.

    Not all activities name the transcript of the session. The returned activity gets the last
    transcript that was named.
    """
    last_activities = []
    for activities in list_activities_of_recent_sessions(workspace, now):
        if activities[-1].is_over:
            continue
        transcripts = [activity.transcript for activity in activities if activity.transcript]
        transcript = transcripts[-1] if transcripts else ""
        last_activities.append(replace(activities[-1], transcript=transcript))
    return last_activities


def list_all_activities(workspace: Workspace) -> list[SessionActivity]:
    """Return the activities (prompts, edits …) of all sessions of this work tree, by time.

    The notes of a session are deleted `DAYS_KEPT` days after its last activity.
    """
    activities: list[SessionActivity] = []
    for path in _list_notes(workspace):
        activities += _parse_activities(path)
    return sorted(activities, key=lambda activity: activity.at)


def find_last_activity_times(workspace: Workspace) -> dict[str, datetime]:
    """Return by agent when a session of this work tree was last active."""
    return {activity.agent: activity.at for activity in list_all_activities(workspace)}


def _list_notes(workspace: Workspace) -> Iterator[Path]:
    return get_note_path(workspace, "").parent.glob("*")


def _parse_activities(path: Path) -> list[SessionActivity]:
    activities = []
    for line in _read(path):
        if line.startswith("{"):
            with suppress(msgspec.DecodeError):
                activities.append(msgspec.json.decode(line, type=SessionActivity))
    return activities


def _read(path: Path) -> list[str]:
    """Return the complete lines of a note; the last one may be cut."""
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8", "replace").split("\n")[:-1]
    except OSError:
        return []


def compute_fingerprint(served: ServedItem) -> str:
    """Return a hash of what was served (an entry, a norm, a path …), which changes if it does.

    For an entry the verdicts on its cites are part of it: whether the code that it cites is still
    the same. If one changes, the entry is served again.
    """
    if isinstance(served, str):
        return _hash("text", served)
    if isinstance(served, SimilarTask):
        return _hash("task", served.task.label, served.task.outcome)
    if isinstance(served, Norm):
        return _hash(served.entry_id or served.path, served.text)
    entry = served.located.entry
    verdicts = sorted(f"{verdict.kind} {verdict.path}" for verdict in served.verdicts)
    return _hash(
        entry.id,
        entry.title,
        entry.body,
        entry.adoption or "",
        entry.instead or "",
        entry.status,
        *verdicts,
    )


def hash_session_id(session: str) -> str:
    """Return a hash of a session's id, by which it is decided whether the session is held out.

    The id cannot be found by it. The key `agent:ID` has the mark of `ID`.
    """
    session_id = session.rpartition(":")[2].encode("utf-8", "replace")
    return blake2b(session_id, digest_size=8, person=b"memory-ci-arm").hexdigest()


def is_held_out(session_hash: str, share: float) -> bool:
    """Return whether a session is among those that are served nothing, for comparison.

    It is if its hash, read as a number in [0, 1), is below the share of such sessions.

    Args:
        session_hash: the hash of its id, from `hash_session_id`.
        share: the share, in [0, 1].
    """
    return int(session_hash, 16) / 2**64 < share


def get_note_path(workspace: Workspace, session: str) -> Path:
    """Return the path of a session's note in the git directory of this work tree.

    It is named by a hash, which does not disclose the id of the session.
    """
    return workspace.repo.git_dir / "memory-ci" / "given" / _hash(session)


def _hash(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _append(workspace: Workspace, session: str, lines: Iterable[str], now: datetime) -> None:
    """Append lines to the note of a session; a new note deletes those that are too old.

    Raises:
        RepositoryError: write-failed.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    if not data:
        return
    path = get_note_path(workspace, session)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _delete_old(path.parent, now)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, data)  # in one piece, whatever other hooks write
        finally:
            os.close(handle)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise RepositoryError(message, slug="write-failed") from error


def _delete_old(folder: Path, now: datetime) -> None:
    """Delete the notes in a folder that nobody wrote to for DAYS_KEPT days."""
    if folder.is_symlink():  # it may lead to files of the person
        return
    oldest = now.timestamp() - DAYS_KEPT * 86_400
    for path in folder.iterdir():
        with suppress(OSError):
            if path.lstat().st_mtime < oldest:
                path.unlink()
