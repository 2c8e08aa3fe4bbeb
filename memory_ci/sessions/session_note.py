"""Notes on agent sessions in the git directory: which entries each was served, and when it worked.

By them an entry is served again to a session only if it changed. There is one file for each
session. Lines are only appended, because hooks of one session run at the same time. A line is a
fingerprint of a served value, CLEARED where the agent lost its context (compaction), HELD_OUT, or a
`Sign` as JSON.
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
HELD_OUT = "held-out"  # The session is served nothing, for comparison (`retrieve.holdout`).
MAX_BYTES = 1 << 20  # Some 60,000 lines; no single session writes more.
DAYS_KEPT = 30  # Days that a clone keeps what a session was served.

LIVE = timedelta(hours=8)
"""How long after its last prompt a session whose end was not noted may still be at work."""


class Sign(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"served": "given", "served_requests": "told"},
):
    """A sign of life of a session: a prompt, an edit, served entries, or its end.

    Attributes:
        agent: the name of the agent.
        session: the id of the session.
        at: the time of the sign.
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
        """Whether the sign is a prompt."""
        return not (self.edited or self.served or self.served_requests or self.is_over)

    @property
    def key(self) -> str:
        """`<agent>:<id>`, as the `Memory-Session:` trailer names the session."""
        return f"{self.agent}:{self.session}"


def list_served(workspace: Workspace, session: str) -> frozenset[str]:
    """Return the fingerprints of all values that a session's context still has.

    These are the values served since the context was last cleared.
    """
    lines = _read(note_path(workspace, session))
    if CLEARED in lines:
        last_cleared = len(lines) - lines[::-1].index(CLEARED)
        lines = lines[last_cleared:]
    return frozenset(lines)


def list_unserved(workspace: Workspace, session: str, files: Iterable[Path]) -> list[Path]:
    """Return the files about which a session was not served entries yet."""
    served = list_served(workspace, session)
    return [file for file in files if fingerprint(repository_path(workspace, file)) not in served]


def bare_workspace(start: Path) -> Workspace:
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
    workspace: Workspace, session: str, answer: Retrieval, now: datetime, about: str | None = None
) -> None:
    """Note in the git directory which values an answer serves to a session.

    Args:
        workspace: the workspace.
        session: the id of the session.
        answer: the answer.
        now: the current time.
        about: the path of the file that the answer is about, if any.

    Raises:
        RepositoryError: write-failed.
    """
    if answer.held_out:
        _append(workspace, session, {HELD_OUT} - list_served(workspace, session), now)
        return
    values: list[ServedItem] = [*answer.norms, *answer.hits, *answer.organisation]
    values += [*answer.hints.changes, *answer.hints.habits]
    if about is not None:
        values.append(about)
    _append(workspace, session, [fingerprint(value) for value in values], now)


def note_cleared(workspace: Workspace, session: str, now: datetime) -> None:
    """Note that a session has lost its context, and all entries in it.

    Raises:
        RepositoryError: write-failed.
    """
    if note_path(workspace, session).exists():
        _append(workspace, session, [CLEARED], now)


def claim_event(workspace: Workspace, session: str, event: str, now: datetime) -> bool:
    """Return whether this hook is the first of those that run at once for one event of a session.

    Each appends a line of its own to the note; the first line counts.

    Raises:
        RepositoryError: write-failed.
    """
    mark = _hash("event", event)
    own_claim = f"{mark}:{os.urandom(6).hex()}"
    _append(workspace, session, [own_claim], now)
    for line in _read(note_path(workspace, session)):
        if line.startswith(mark):
            return line == own_claim
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


def note_sign(workspace: Workspace, sign: Sign) -> None:
    """Note a sign of life of a session (a prompt, an edit, served entries or its end).

    Once the note of a session is half full, its edits and the entries it is served are left out.

    Raises:
        RepositoryError: write-failed.
    """
    if sign.edited or sign.served or sign.served_requests:
        with suppress(OSError):
            if note_path(workspace, sign.session).stat().st_size > MAX_BYTES // 2:
                return
    _append(workspace, sign.session, [msgspec.json.encode(sign).decode()], sign.at)


def note_end(workspace: Workspace, agent: str, session: str, now: datetime) -> None:
    """Note that a session is over.

    Raises:
        RepositoryError: write-failed.
    """
    if note_path(workspace, session).exists():
        note_sign(workspace, Sign(agent=agent, session=session, at=now, is_over=True))


def list_signs(workspace: Workspace, session: str) -> list[Sign]:
    """Return the signs of life of a session, the earliest first."""
    return _parse_signs(note_path(workspace, session))


def list_recent(workspace: Workspace, now: datetime) -> list[list[Sign]]:
    """Return the signs of each session that gave one in this work tree in the last hours (LIVE)."""
    recent = []
    for path in sorted(_list_notes(workspace)):
        signs = _parse_signs(path)
        if signs and now - LIVE <= signs[-1].at:
            recent.append(signs)
    return recent


def list_live(workspace: Workspace, now: datetime) -> list[Sign]:
    """Return the last sign of each session that is at work in this work tree.

    It gets the path of the transcript that any sign of the session named last.
    """
    live = []
    for signs in list_recent(workspace, now):
        if signs[-1].is_over:
            continue
        transcripts = [sign.transcript for sign in signs if sign.transcript]
        live.append(replace(signs[-1], transcript=transcripts[-1] if transcripts else ""))
    return live


def list_all_signs(workspace: Workspace) -> list[Sign]:
    """Return the signs of life (prompts, edits …) of all sessions of this work tree, by time.

    Notes are kept for DAYS_KEPT days.
    """
    signs: list[Sign] = []
    for path in _list_notes(workspace):
        signs += _parse_signs(path)
    return sorted(signs, key=lambda sign: sign.at)


def list_last_signs(workspace: Workspace) -> dict[str, datetime]:
    """Return by agent when a session of this work tree last gave a sign."""
    return {sign.agent: sign.at for sign in list_all_signs(workspace)}


def _list_notes(workspace: Workspace) -> Iterator[Path]:
    return note_path(workspace, "").parent.glob("*")


def _parse_signs(path: Path) -> list[Sign]:
    signs = []
    for line in _read(path):
        if line.startswith("{"):
            with suppress(msgspec.DecodeError):
                signs.append(msgspec.json.decode(line, type=Sign))
    return signs


def _read(path: Path) -> list[str]:
    """Return the complete lines of a note; the last one may be cut."""
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8", "replace").split("\n")[:-1]
    except OSError:
        return []


def fingerprint(served: ServedItem) -> str:
    """Return a hash of a served value, which changes if the value does.

    The verdicts on the cites of an entry (whether they still hold) are part of it: if one changes,
    the entry is served again.
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


def mark_session(session: str) -> str:
    """Return a hash of a session's id, by which it is decided whether the session is held out.

    The id cannot be found by it. The key `agent:ID` has the mark of `ID`.
    """
    session_id = session.rpartition(":")[2].encode("utf-8", "replace")
    return blake2b(session_id, digest_size=8, person=b"memory-ci-arm").hexdigest()


def is_held_out(mark: str, share: float) -> bool:
    """Return whether a session is among those that are served nothing, for comparison.

    It is if its mark, read as a number in [0, 1), is below the share of such sessions.
    """
    return int(mark, 16) / 2**64 < share


def note_path(workspace: Workspace, session: str) -> Path:
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
    path = note_path(workspace, session)
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
