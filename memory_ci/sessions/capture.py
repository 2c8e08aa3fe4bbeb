"""Capture: one transcript, redacted and shortened, into a ref of this repository; what is too old is forgotten.

Purge: captured sessions taken out of this repository, and of a remote.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.evidence.content import redact
from memory_ci.gitrepo.repo import Repository, list_worktrees
from memory_ci.gitrepo.sessionrefs import (
    DIGEST,
    FULL,
    NOTES,
    SESSIONS,
    StoredSession,
    delete,
    delete_remote,
    list_remote,
    list_stored,
    read_stored,
    session_ref,
    store,
)
from memory_ci.memory.forgotten import tombstones_here
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.records.event import Session
from memory_ci.sessions.marked_notes import read_notes
from memory_ci.sources.transcripts.digest import safe_id, write_digest
from memory_ci.sources.transcripts.registry import is_database

MAX_TRANSCRIPT_BYTES = 256 * 1024 * 1024
MIN_ID = 8  # Characters that an id may be shortened to.
# How much of a transcript is looked through for the directory it was made in: agents say it in the first records.
HEAD_BYTES = 256 * 1024
CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
# Gemini CLI names no directory, but the SHA-256 of its path.
PROJECT_HASH = re.compile(rb'"projectHash"\s*:\s*"([0-9a-f]{64})"')


class SessionHookInput(msgspec.Struct, frozen=True):
    """What Claude Code, Codex and Gemini CLI give a hook as JSON on standard input; more keys are passed over."""

    transcript_path: str | None
    session_id: str = ""
    cwd: str = ""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A session and where it is kept. `is_new`: this capture changed something; `bytes` is the size of the digest. One
    that `is_expired` ended before what `sessions.keep_days` keeps begins: nothing of it was written."""

    session: str
    ref: str
    is_new: bool
    bytes: int
    human_turns: int
    has_full: bool = False
    is_expired: bool = False


def parse_hook_input(data: bytes) -> tuple[Path, str]:
    """The transcript that an agent's hook names, and the directory of the session. Raises UsageError (bad-hook-input):
    not such JSON, or no transcript is kept."""
    try:
        found = msgspec.json.decode(data, type=SessionHookInput)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "`memory-ci install --agent NAME` writes the hook that gives it."
        message = f"standard input is no hook input of an agent: {error}"
        raise UsageError(message, slug="bad-hook-input", hint=hint) from error
    if not found.transcript_path:
        hint = "Let the agent keep its sessions, or uninstall the hook."
        raise UsageError(
            "the agent keeps no transcript of this session", slug="bad-hook-input", hint=hint
        )
    return Path(os.path.expanduser(found.transcript_path)), found.cwd  # noqa: PTH111 - pathlib raises for `~nobody`


def find_newest(workspace: Workspace, home: Path, agent: str = "") -> Path:
    """The transcript of this project (and of one `agent`, if named) that was written last, where agents keep them.
    Raises UsageError (no-transcript), RepositoryError (bare-repository)."""
    from memory_ci.sources.transcripts.registry import (
        default_places,
        find_transcripts,
        read_transcript,
        usual_places,
    )

    roots, top = _roots(workspace.repo), work_tree(workspace)
    files = find_transcripts(default_places(home, top))
    dated = sorted(((path.stat().st_mtime, path) for path in files), reverse=True)
    ours = (path for _, path in dated if not _find_elsewhere(path, "", roots))
    fitting = (
        path
        for path in ours
        if not agent or any(one.agent == agent for one in read_transcript(path))
    )
    if (newest := next(fitting, None)) is None:
        message = f"no transcript {f'of {agent}, made in this project,' if agent else 'of this project'} is in "
        message += ", ".join(map(str, usual_places(home, top)))
        raise UsageError(
            message, slug="no-transcript", hint="Name the file: `memory-ci capture PATH`."
        )
    return newest


def capture(
    workspace: Workspace,
    path: Path,
    now: datetime,
    *,
    agent: str = "",
    cwd: str = "",
    dry_run: bool = False,
) -> tuple[Captured, ...]:
    """Keep the sessions of a transcript (of one `agent`, if named); `cwd` counts if the transcript names no directory.

    First what retention has passed is deleted. Raises UsageError: transcript-unreadable, foreign-transcript,
    unknown-transcript; RepositoryError: ref-moved, git-failed.
    """
    return keep(workspace, path, read_own(workspace, path, agent, cwd), now, dry_run=dry_run)


def keep(
    workspace: Workspace,
    path: Path,
    sessions: list[Session],
    now: datetime,
    *,
    dry_run: bool = False,
) -> tuple[Captured, ...]:
    """Keep what was read of a transcript, as `capture` does. Raises RepositoryError: ref-moved, git-failed."""
    days = workspace.config.sessions.keep_days
    begin = now - timedelta(days=days) if days else None  # before it nothing is kept
    if begin and not dry_run:
        delete(
            workspace.repo, [stored for stored in list_stored(workspace.repo) if stored.at < begin]
        )
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    full = _read_full(workspace, path)
    # Its id and its agent come from the transcript, too.
    safe = [replace(one, id=safe_id(one.id, _masked), agent=_masked(one.agent)) for one in sessions]
    masked = tombstones_here(workspace).mask_all(safe)
    return tuple(_keep(workspace, session, written, full, begin, dry_run) for session in masked)


def read_own(
    workspace: Workspace, path: Path, agent: str = "", cwd: str = "", own: str = ""
) -> list[Session]:
    """The sessions of a transcript of this repository (of one `agent`, if named); of a database the one called `own`.
    Raises UsageError: transcript-unreadable, foreign-transcript, unknown-transcript."""
    from memory_ci.sources.transcripts.registry import read_transcript

    _refuse_unfit(path)
    roots = _roots(workspace.repo)
    if elsewhere := _find_elsewhere(path, cwd, roots):
        message = f"{path} is of a session in {elsewhere}, not in this repository"
        raise UsageError(
            message, slug="foreign-transcript", hint="Run this in the repository of that session."
        )
    sessions = [
        one
        for one in read_transcript(path, None, roots, own)
        if one.events and agent in ("", one.agent)
    ]
    if not sessions:
        hint = "`memory-ci help sessions` lists the formats; --agent must be the one that wrote it."
        raise UsageError(
            f"{path} holds no session that can be read", slug="unknown-transcript", hint=hint
        )
    return sessions


def _keep(
    workspace: Workspace,
    session: Session,
    written: datetime,
    full: bytes | None,
    begin: datetime | None,
    dry_run: bool,
) -> Captured:
    """Store one session, dated by its end; by when its file was written, if it says no time."""
    ended = session.ended or written
    is_expired = begin is not None and ended < begin
    data = write_digest(session, workspace.config.sessions.max_bytes, _masked)
    ref, is_new = session_ref(session.agent, session.id), not is_expired
    notes = {NOTES: marked} if (marked := _find_notes(workspace, session.key, ref)) else {}
    files = {DIGEST: data} | ({FULL: full} if full is not None else {}) | notes
    if not dry_run and not is_expired:
        is_new = store(workspace.repo, session.agent, session.id, files, ended).is_new
    return Captured(
        session=session.key,
        ref=ref,
        is_new=is_new,
        bytes=len(data),
        human_turns=session.counts.human_turns,
        has_full=full is not None,
        is_expired=is_expired,
    )


def _find_notes(workspace: Workspace, key: str, ref: str) -> bytes:
    """The notes of a session that were kept beside it before, and those that no commit has yet."""
    stored = [one for one in list_stored(workspace.repo) if one.ref == ref]
    kept = b"".join(data for _, data in read_stored(workspace.repo, stored, name=NOTES))
    return b"\n".join(
        filter(None, [kept, *(data for data in read_notes(workspace, key) if data not in kept)])
    )


def _masked(text: str) -> str:
    return redact(text).text


def _read_full(workspace: Workspace, path: Path) -> bytes | None:
    """The whole transcript without secrets, if it is to be kept and fits into `max_bytes`. Of a database nothing: it
    holds other projects. Nor of one that holds what was forgotten: the digest has the rest."""
    config = workspace.config.sessions
    if not config.keep_full or path.stat().st_size > config.max_bytes or is_database(path):
        return None
    text = _masked(path.read_text("utf-8", "replace")).encode()
    return None if tombstones_here(workspace).holds(text) else text


def _refuse_unfit(path: Path) -> None:
    """Make sure that a path, which may come from outside, is a file of a size to read; a link or a pipe is none."""
    try:
        found = path.lstat()
    except (OSError, ValueError) as error:
        raise _unreadable(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise _unreadable(f"{path} is not a regular file")
    if found.st_size > MAX_TRANSCRIPT_BYTES and not is_database(path):
        raise _unreadable(
            f"{path} is {found.st_size} bytes, over the limit of {MAX_TRANSCRIPT_BYTES}"
        )


def _unreadable(message: str) -> UsageError:
    return UsageError(
        message, slug="transcript-unreadable", hint="Name a transcript file of an agent."
    )


def _find_elsewhere(path: Path, cwd: str, roots: tuple[Path, ...]) -> str:
    """Where a session was, if not in one of the work trees; empty also if neither transcript nor hook says where."""
    if is_database(path):
        from memory_ci.sources.transcripts.opencode import read_database

        return "" if next(read_database(path, path.name, roots), None) else "other projects"
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    place = cwd
    with suppress(ValueError):
        if found := CWD.search(head):  # the directory that it names first
            place = str(json.loads(found[1])) or cwd
    if place and not _is_within(place, roots):
        return place
    project = PROJECT_HASH.search(head)
    known = {hashlib.sha256(os.fsencode(root)).hexdigest() for root in (*roots, Path(place))}
    return (
        f"project {project[1].decode()[:12]}"
        if project and project[1].decode() not in known
        else ""
    )


def _is_within(place: str, roots: tuple[Path, ...]) -> bool:
    """Whether a directory that somebody names is in one of the work trees; a name that is none, or a loop, is not."""
    try:
        real = Path(os.path.realpath(place))
    except (OSError, ValueError):  # a NUL, or half a character
        return False
    return any(real.is_relative_to(root) for root in roots)


def _roots(repo: Repository) -> tuple[Path, ...]:
    return tuple(tree.path.resolve() for tree in list_worktrees(repo))


def list_captured(workspace: Workspace) -> tuple[StoredSession, ...]:
    """The sessions that are kept in this repository."""
    return list_stored(workspace.repo)


def places_of(remote: str = "") -> tuple[str, ...]:
    """Where captured sessions are looked for, in words: here, and on `remote` if one is named."""
    return (SESSIONS, f"{SESSIONS} of {remote}") if remote else (SESSIONS,)


def purge(
    workspace: Workspace,
    ids: Sequence[str],
    *,
    every: bool = False,
    remote: str = "",
    dry_run: bool = False,
) -> tuple[str, ...]:
    """Take sessions out of here, and of `remote` if one is named; the refs that are gone are returned.

    An id is `<agent>:<id>`, the id alone, or at least eight characters that it begins with. Raises UsageError
    (unknown-session) before anything is deleted, EngineError (remote-failed), RepositoryError (git-failed).
    """
    here = list_stored(workspace.repo)
    there = list_remote(workspace.repo, remote) if remote else {}
    refs = sorted({stored.ref for stored in here} | set(there))
    chosen = (
        frozenset(refs) if every else frozenset(ref for id_ in ids for ref in _matching(refs, id_))
    )
    if not dry_run:
        delete_remote(
            workspace.repo, remote, sorted(chosen & there.keys())
        )  # first: it may fail, and be tried again
        delete(workspace.repo, [stored for stored in here if stored.ref in chosen])
    return tuple(sorted(chosen))


def _matching(refs: Sequence[str], wanted: str) -> list[str]:
    agent, _, uid = wanted.rpartition(":")
    parts = [(ref, *ref.split("/")[-2:]) for ref in refs]
    theirs = [(ref, one) for ref, of, one in parts if agent in ("", of)]
    found = [
        ref for ref, one in theirs if one == uid or (len(uid) >= MIN_ID and one.startswith(uid))
    ]
    if not found:
        hint = "`memory-ci sessions --captured` lists them."
        raise UsageError(
            f"no captured session is named {wanted!r}", slug="unknown-session", hint=hint
        )
    return found
