"""Capture of agents' transcripts, redacted and shortened, into git refs; retention and purge."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.evidence.content import redact
from memory_ci.gitrepo.repo import Repository, list_worktrees
from memory_ci.gitrepo.sessionrefs import (
    DIGEST,
    DIGEST_SIZE,
    NOTES,
    SESSIONS,
    StoredSession,
    delete,
    delete_remote,
    find_stored,
    list_remote,
    list_stored,
    read_stored,
    session_ref,
    store,
)
from memory_ci.memory.forgotten import read_tombstones_here
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.records.event import Session
from memory_ci.regex import Regex
from memory_ci.repetition.commands import list_forms
from memory_ci.sessions.marked_notes import read_notes
from memory_ci.sessions.moments import list_failing_commands, load_timed_lines
from memory_ci.sources.transcripts.digest import make_safe_id, write_digest
from memory_ci.sources.transcripts.registry import is_database

MAX_TRANSCRIPT_BYTES = 256 * 1024 * 1024  # Bytes of a transcript that is captured.
MIN_ID = 8  # Characters that an id may be shortened to.

HEAD_BYTES = 256 * 1024
"""Bytes of a transcript that are searched for its directory: the first records name it."""

CWD = Regex(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')

PROJECT_HASH = Regex(rb'"projectHash"\s*:\s*"([0-9a-f]{64})"')
"""Gemini CLI names no directory, but the SHA-256 of its path."""


class SessionHookInput(msgspec.Struct, frozen=True):
    """The JSON that Claude Code, Codex and Gemini CLI pass to a hook; other keys are ignored."""

    transcript_path: str | None
    session_id: str = ""
    cwd: str = ""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A captured session.

    Attributes:
        session: its key, `<agent>:<id>`.
        ref: the ref that it is kept in.
        is_new: whether this capture changed the ref.
        bytes: the size of the digest.
        human_turns: how many turns of people it has.
        is_expired: whether it ended before the time that `sessions.keep_days` covers; then nothing
            was written.
    """

    session: str
    ref: str
    is_new: bool
    bytes: int
    human_turns: int
    is_expired: bool = False


def parse_hook_input(data: bytes) -> tuple[Path, str]:
    """Return the transcript that an agent's hook names, and the directory of the session.

    Raises:
        UsageError: bad-hook-input, for other input or if the agent keeps no transcript.
    """
    try:
        hook_input = msgspec.json.decode(data, type=SessionHookInput)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "`memory-ci init --clone --agent NAME` writes the hook that gives it."
        message = f"standard input is no hook input of an agent: {error}"
        raise UsageError(message, slug="bad-hook-input", hint=hint) from error
    if not hook_input.transcript_path:
        hint = "Let the agent keep its sessions, or uninstall the hook."
        message = "the agent keeps no transcript of this session"
        raise UsageError(message, slug="bad-hook-input", hint=hint)
    # pathlib raises for `~nobody`
    path = os.path.expanduser(hook_input.transcript_path)  # noqa: PTH111
    return Path(path), hook_input.cwd


def find_newest_transcript(workspace: Workspace, home: Path) -> Path:
    """Return the newest transcript of this project in the directories where agents keep them.

    Args:
        workspace: the workspace of the project.
        home: the home of the user.

    Raises:
        UsageError: no-transcript.
        RepositoryError: bare-repository.
    """
    from memory_ci.sources.transcripts.registry import (
        default_places,
        find_transcripts,
        usual_places,
    )

    roots = _list_roots(workspace.repo)
    top = work_tree(workspace)
    transcripts = list(find_transcripts(default_places(home, top)))
    for path in sorted(transcripts, key=lambda path: (path.stat().st_mtime, path), reverse=True):
        if not _find_foreign_directory(path, "", roots):
            return path

    directories = ", ".join(str(directory) for directory in usual_places(home, top))
    hint = "Name the file: `memory-ci sessions --capture PATH`."
    raise UsageError(
        f"no transcript of this project is in {directories}", slug="no-transcript", hint=hint
    )


def capture(
    workspace: Workspace,
    path: Path,
    now: datetime,
    *,
    cwd: str = "",
    dry_run: bool = False,
) -> tuple[Captured, ...]:
    """Store the sessions of a transcript in refs, and delete captured sessions that are too old.

    Args:
        workspace: the workspace.
        path: the transcript.
        now: the current time.
        cwd: the directory of the session if the transcript names none.
        dry_run: whether to write and delete nothing.

    Raises:
        UsageError: transcript-unreadable, foreign-transcript, unknown-transcript.
        RepositoryError: ref-moved, git-failed.
    """
    sessions = read_repository_sessions(workspace, path, cwd=cwd)
    return store_sessions(workspace, path, sessions, now, dry_run=dry_run)


def store_sessions(
    workspace: Workspace,
    path: Path,
    sessions: list[Session],
    now: datetime,
    *,
    dry_run: bool = False,
) -> tuple[Captured, ...]:
    """Store sessions that were read from a transcript in refs, and delete those that are too old.

    Their ids and texts are redacted, and forgotten text (`memory-ci forget`) is masked.

    Args:
        workspace: the workspace.
        path: the transcript; a session without a time has that of the file.
        sessions: the sessions.
        now: the current time.
        dry_run: whether to write and delete nothing.

    Raises:
        RepositoryError: ref-moved, git-failed.
    """
    days = workspace.config.sessions.keep_days
    oldest = now - timedelta(days=days) if days else None
    if oldest and not dry_run:
        expired = [stored for stored in list_stored(workspace.repo) if stored.ended_at < oldest]
        delete(workspace.repo, expired)

    written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    # Id and agent come from the transcript, too, and may hold secrets.
    masked_sessions = [
        replace(session, id=make_safe_id(session.id, _mask), agent=_mask(session.agent))
        for session in sessions
    ]
    captured = []
    for session in read_tombstones_here(workspace).mask_all(masked_sessions):
        ended = session.ended or written_at
        is_expired = oldest is not None and ended < oldest
        stored_time = None if is_expired else ended
        captured.append(_store_session(workspace, session, stored_time, dry_run=dry_run))
    return tuple(captured)


def read_repository_sessions(
    workspace: Workspace, path: Path, agent: str = "", cwd: str = "", session_id: str = ""
) -> list[Session]:
    """Return the sessions in a transcript, if they ran in a work tree of this repository.

    Args:
        workspace: the workspace.
        path: the transcript.
        agent: if not empty, only this agent's sessions are returned.
        cwd: the directory of the session if the transcript names none.
        session_id: if not empty, the id of the only session to read from a database.

    Raises:
        UsageError: transcript-unreadable, foreign-transcript, unknown-transcript.
    """
    from memory_ci.sources.transcripts.registry import read_transcript

    _refuse_unreadable_transcript(path)
    roots = _list_roots(workspace.repo)
    if directory := _find_foreign_directory(path, cwd, roots):
        message = f"{path} is of a session in {directory}, not in this repository"
        hint = "Run this in the repository of that session."
        raise UsageError(message, slug="foreign-transcript", hint=hint)
    sessions = [
        session
        for session in read_transcript(path, None, roots, session_id)
        if session.events and agent in ("", session.agent)
    ]
    if not sessions:
        message = f"{path} holds no session that can be read"
        hint = "`memory-ci help agents` lists the formats; --agent must be the one that wrote it."
        raise UsageError(message, slug="unknown-transcript", hint=hint)
    return sessions


def _store_session(
    workspace: Workspace,
    session: Session,
    ended: datetime | None,
    *,
    dry_run: bool,
) -> Captured:
    """Store a session in its ref: its digest, and the notes that the agent made in it.

    The digest is a short form of the transcript. Of the commands, it keeps those that are known to
    fail, although they succeeded.

    Args:
        workspace: the workspace.
        session: the session, without secrets in its id and agent.
        ended: when the session ended, None if that is too long ago to store it.
        dry_run: whether to write nothing; the session then counts as new.
    """
    ref = session_ref(session.agent, session.id)
    failing_commands = list_failing_commands(load_timed_lines(workspace.repo.common_dir))
    digest = write_digest(
        session,
        DIGEST_SIZE,
        _mask,
        lambda command_line: _find_failing_commands(command_line, failing_commands),
    )
    files = {DIGEST: digest}
    if notes := _find_notes(workspace, session.key, ref):
        files[NOTES] = notes

    is_expired = ended is None
    is_new = not is_expired
    if ended is not None and not dry_run:
        is_new = store(workspace.repo, session.agent, session.id, files, ended).is_new
    return Captured(
        session=session.key,
        ref=ref,
        is_new=is_new,
        bytes=len(digest),
        human_turns=session.counts.human_turns,
        is_expired=is_expired,
    )


def _find_failing_commands(command_line: str, failing_commands: Collection[str]) -> str:
    """Return the commands in a command line that are known to fail, joined by `&&`; "" for none.

    Args:
        command_line: the command line.
        failing_commands: commands that are known to fail, each without changing arguments. A
            command with more arguments is the same command.
    """
    runs = list_forms(command_line)
    found_commands = []
    for failing_command in sorted(failing_commands):
        for form in list_forms(failing_command):
            if any(form.covers(run) for run in runs):
                found_commands.append(str(form))
    return " && ".join(found_commands)


def _find_notes(workspace: Workspace, key: str, ref: str) -> bytes:
    """Return the notes in the ref of a session, and its notes that no commit has yet."""
    stored_notes = b""
    stored = find_stored(workspace.repo, ref)
    if stored is not None:
        for _, data in read_stored(workspace.repo, [stored], name=NOTES):
            stored_notes += data
    notes = [stored_notes] if stored_notes else []
    for note in read_notes(workspace, key):
        if note and note not in stored_notes:
            notes.append(note)
    return b"\n".join(notes)


def _mask(text: str) -> str:
    return redact(text).text


def _refuse_unreadable_transcript(path: Path) -> None:
    """Raise an error for a transcript that is no regular file (a link, a pipe) or too large.

    The path may come from the input of a hook.
    """
    try:
        status = path.lstat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _unreadable(f"{path} cannot be read: {reason}") from error
    if not stat.S_ISREG(status.st_mode):
        raise _unreadable(f"{path} is not a regular file")
    if status.st_size > MAX_TRANSCRIPT_BYTES and not is_database(path):
        message = f"{path} is {status.st_size} bytes, over the limit of {MAX_TRANSCRIPT_BYTES}"
        raise _unreadable(message)


def _unreadable(message: str) -> UsageError:
    hint = "Name a transcript file of an agent."
    return UsageError(message, slug="transcript-unreadable", hint=hint)


def _find_foreign_directory(path: Path, cwd: str, roots: tuple[Path, ...]) -> str:
    """Return where the session of a transcript was made, if that is outside of the work trees.

    - A database has sessions of many projects: one of them must be of the work trees.
    - Other transcripts name the directory, or the hook does.
    - Gemini CLI records only a hash of the directory.

    Args:
        path: the transcript.
        cwd: the directory that the hook names, for a transcript that names none.
        roots: the work trees.

    Returns:
        The directory, `other projects` or `project <hash>`, for a message. "" for a session in one
        of the work trees, or if neither transcript nor hook names a directory.
    """
    if is_database(path):
        from memory_ci.sources.transcripts.opencode import read_database

        has_own_session = next(read_database(path, path.name, roots), None) is not None
        return "" if has_own_session else "other projects"

    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    directory = _find_first_directory(head) or cwd
    if directory and not _is_within(directory, roots):
        return directory

    hash_match = PROJECT_HASH.search(head)
    if not hash_match:
        return ""
    project_hash = hash_match[1].decode()
    own_directories = (*roots, Path(directory))
    own_hashes = {hashlib.sha256(os.fsencode(own)).hexdigest() for own in own_directories}
    return "" if project_hash in own_hashes else f"project {project_hash[:12]}"


def _find_first_directory(head: bytes) -> str:
    """Return the value of the first key `cwd` in the start of a transcript, "" without one."""
    match = CWD.search(head)
    if match is None:
        return ""
    try:
        return str(json.loads(match[1]))
    except ValueError:
        return ""


def _is_within(directory: str, roots: tuple[Path, ...]) -> bool:
    """Return whether a directory is in one of the work trees, once links are resolved.

    An invalid name is not.
    """
    try:
        real = Path(os.path.realpath(directory))
    except (OSError, ValueError):  # a loop of links, a NUL, or half a character
        return False
    return any(real.is_relative_to(root) for root in roots)


def _list_roots(repo: Repository) -> tuple[Path, ...]:
    return tuple(tree.path.resolve() for tree in list_worktrees(repo))


def list_captured(workspace: Workspace) -> tuple[StoredSession, ...]:
    """Return the sessions that are kept in this repository."""
    return list_stored(workspace.repo)


def describe_places(remote: str = "") -> tuple[str, ...]:
    """Return in words where captured sessions are searched: locally, and on a remote if named."""
    return (SESSIONS, f"{SESSIONS} of {remote}") if remote else (SESSIONS,)


def purge_sessions(
    workspace: Workspace,
    ids: Sequence[str],
    *,
    every: bool = False,
    remote: str = "",
    dry_run: bool = False,
) -> tuple[str, ...]:
    """Delete captured sessions from this repository, and from a remote, if named.

    Args:
        workspace: the workspace.
        ids: `<agent>:<id>`, an id alone, or at least eight characters of its beginning.
        every: whether to delete all sessions.
        remote: the name of a remote.
        dry_run: whether to delete nothing.

    Returns:
        The refs of the sessions.

    Raises:
        UsageError: unknown-session, before anything is deleted.
        EngineError: remote-failed.
        RepositoryError: git-failed.
    """
    local_sessions = list_stored(workspace.repo)
    remote_refs = set(list_remote(workspace.repo, remote)) if remote else set()
    all_refs = sorted({stored.ref for stored in local_sessions} | remote_refs)
    refs_to_delete = set(all_refs) if every else _choose_refs(all_refs, ids)

    if not dry_run:
        # The remote first: it may fail, and then the purge can be repeated.
        delete_remote(workspace.repo, remote, sorted(refs_to_delete & remote_refs))
        delete(
            workspace.repo, [stored for stored in local_sessions if stored.ref in refs_to_delete]
        )
    return tuple(sorted(refs_to_delete))


def _choose_refs(refs: Sequence[str], names: Iterable[str]) -> set[str]:
    """Return the refs of the sessions that are named by key, id or beginning of an id.

    Raises:
        UsageError: unknown-session.
    """
    named_refs: set[str] = set()
    for name in names:
        matching_refs = _list_matching(refs, name)
        if not matching_refs:
            hint = "`memory-ci sessions --captured` lists them."
            message = f"no captured session is named {name!r}"
            raise UsageError(message, slug="unknown-session", hint=hint)
        named_refs.update(matching_refs)
    return named_refs


def _list_matching(refs: Sequence[str], name: str) -> list[str]:
    """Return the refs of the sessions with this key, id or beginning of an id."""
    agent, _, uid = name.rpartition(":")
    matching = []
    for ref in refs:
        ref_agent, ref_id = ref.split("/")[-2:]
        if agent not in ("", ref_agent):
            continue
        if ref_id == uid or (len(uid) >= MIN_ID and ref_id.startswith(uid)):
            matching.append(ref)
    return matching
