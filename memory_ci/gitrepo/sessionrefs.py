"""Store, push and fetch agent sessions as commits under refs/memory-ci/sessions/<agent>/<id>.

The commits have no parents.
Neither branch, index and work tree nor hooks and signing of the user are involved. The refs
refs/memory-ci/pushed/<remote>/<agent>/<id> record pushes to a remote. Thus one listing shows
whether there is anything to push.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from memory_ci.errors import EngineError, RepositoryError
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.checkouts import NO_HOOKS
from memory_ci.gitrepo.journal import signals_held
from memory_ci.gitrepo.log import EPOCH, parse_date
from memory_ci.gitrepo.network import run_remote_git
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository
from memory_ci.regex import Regex

SESSIONS = "refs/memory-ci/sessions/"
PUSHED = "refs/memory-ci/pushed/"
DIGEST = "digest.jsonl"
TRANSCRIPT = "transcript"
NOTES = "notes.md"
DIGEST_SIZE = 2_000_000  # Bytes of a digest that is written; the oldest turns are left out.
MAX_DIGEST = 100_000_000
"""Bytes of a digest that is read, so that no remote makes us read more."""

REF_PART = Regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""A part of a ref name that needs no change.

Without a dot it cannot hold `..` or end with `.lock` (git-check-ref-format(1)).
"""

REF = Regex(
    rf"refs/memory-ci/(?:sessions|pushed/{REF_PART.pattern})/{REF_PART.pattern}/{REF_PART.pattern}"
)
"""A ref as `session_ref` names it, or the note of its push; others are not ours and are skipped."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "memory-ci",
    "GIT_AUTHOR_EMAIL": "memory-ci@noreply.invalid",
    "GIT_COMMITTER_NAME": "memory-ci",
    "GIT_COMMITTER_EMAIL": "memory-ci@noreply.invalid",
}


class StoredRef(msgspec.Struct, frozen=True):
    """The ref of a stored session, and whether this call stored it."""

    ref: str
    oid: str
    is_new: bool


class StoredSession(msgspec.Struct, frozen=True):
    """A session of this repository, or the note of a push, which has the commit that was pushed.

    Attributes:
        ref: the full name of its ref.
        oid: the commit with its files.
        ended_at: when it ended.
    """

    ref: str
    oid: str
    ended_at: datetime

    @property
    def key(self) -> str:
        """`<agent>:<id>`, both as the ref spells them."""
        return self.ref.removeprefix(SESSIONS).replace("/", ":", 1)

    @property
    def id(self) -> str:
        """The session's id, as the ref spells it."""
        return self.key.partition(":")[2]


def session_ref(agent: str, session_id: str) -> str:
    """Return the full name of a session's ref, whatever characters its id has.

    >>> session_ref("claude-code", "79e9becd-1")
    'refs/memory-ci/sessions/claude-code/79e9becd-1'
    """
    return f"{SESSIONS}{_format_part(agent)}/{_format_part(session_id)}"


# -- sessions of this repository


def store(
    repo: Repository, agent: str, session_id: str, files: Mapping[str, bytes], when: datetime
) -> StoredRef:
    """Store the files of a session as a commit, and point its ref there.

    The same files and time give the same commit, which is stored once. A session that has grown
    replaces its older version, never the other way round.

    Args:
        repo: the repository.
        agent: the name of the agent.
        session_id: the id that the agent gave the session.
        files: the content of the files by name.
        when: the time at which the session ended. One before 1970 is stored as 1970, since git
            knows no earlier time.

    Raises:
        RepositoryError: ref-moved, git-failed.
    """
    ref = session_ref(agent, session_id)
    when = max(when, EPOCH)
    stored = find_stored(repo, ref)
    if stored is not None and stored.ended_at > when:
        return StoredRef(ref, stored.oid, is_new=False)
    oid = _commit(repo, files, f"{agent}:{session_id}", when)
    if stored is not None and stored.oid == oid:
        return StoredRef(ref, oid, is_new=False)
    no_ref = "0" * len(oid)
    _move_ref(repo, ref, oid, stored.oid if stored else no_ref)
    return StoredRef(ref, oid, is_new=True)


def list_stored(repo: Repository) -> tuple[StoredSession, ...]:
    """Return all sessions of this repository, in order of their refs."""
    return _list_refs(repo, SESSIONS)


def find_stored(repo: Repository, ref: str) -> StoredSession | None:
    """Return the session of this repository with this ref; None if it is not stored."""
    return next(iter(_list_refs(repo, ref)), None)


def list_unpushed(repo: Repository, remote: str) -> tuple[StoredSession, ...]:
    """Return the sessions whose present version was not pushed to a remote, by one git process.

    A push leaves a note: a ref with the version that was pushed (`_name_push_note`).
    """
    sessions_and_notes = _list_refs(repo, "refs/memory-ci/")
    oids = {stored.ref: stored.oid for stored in sessions_and_notes}
    unpushed: list[StoredSession] = []
    for stored in sessions_and_notes:
        is_session = stored.ref.startswith(SESSIONS)
        if not is_session:
            continue
        pushed_oid = oids.get(_name_push_note(remote, stored.ref))
        if stored.oid != pushed_oid:
            unpushed.append(stored)
    return tuple(unpushed)


def read_stored(
    repo: Repository, sessions: Iterable[StoredSession], limit: int = MAX_DIGEST, name: str = DIGEST
) -> Iterator[tuple[StoredSession, bytes]]:
    """Yield sessions, each with the content of one of its files, by one git process.

    Args:
        repo: the repository.
        sessions: the sessions; one without such a file, or with a larger one, is skipped.
        limit: the maximum size of the file in bytes.
        name: the name of the file; default: the digest.
    """
    sessions_by_ref = {stored.ref: stored for stored in sessions}
    files = [TreeFile(ref, f"{stored.oid}:{name}") for ref, stored in sessions_by_ref.items()]
    for content in read_files(repo, files, limit):
        if content.data is not None:
            yield sessions_by_ref[content.file.path], content.data


def delete(repo: Repository, sessions: Collection[StoredSession]) -> None:
    """Delete sessions with the notes of their pushes; none if one changed meanwhile.

    Raises:
        RepositoryError: git-failed.
    """
    if not sessions:
        return
    notes = _list_push_notes(repo, {stored.ref for stored in sessions})
    _update_refs(repo, [f"delete {stored.ref} {stored.oid}" for stored in (*sessions, *notes)])


def rewrite(repo: Repository, stored: StoredSession, files: Mapping[str, bytes]) -> None:
    """Replace the files of a session, and forget that it was pushed.

    Thus the next push replaces the session of a remote.

    Raises:
        RepositoryError: ref-moved, git-failed.
    """
    oid = _commit(repo, files, stored.key, stored.ended_at)
    _move_ref(repo, stored.ref, oid, stored.oid)
    notes = _list_push_notes(repo, {stored.ref})
    _update_refs(repo, [f"delete {note.ref} {note.oid}" for note in notes])


def _list_push_notes(repo: Repository, refs: Collection[str]) -> list[StoredSession]:
    """Return the refs under PUSHED that record pushes of sessions, to any remote.

    Args:
        repo: the repository.
        refs: the refs of the sessions.
    """
    notes: list[StoredSession] = []
    for note in _list_refs(repo, PUSHED):
        _, _, name = note.ref.removeprefix(PUSHED).partition("/")
        if f"{SESSIONS}{name}" in refs:
            notes.append(note)
    return notes


def _list_refs(repo: Repository, prefix: str) -> tuple[StoredSession, ...]:
    """Return the sessions and the notes of pushes with these refs.

    Args:
        repo: the repository.
        prefix: the full name of a ref, or the beginning of names up to a slash.
    """
    if not _may_have_refs(repo, prefix):
        return ()
    format_ = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)"
    listing = run_git(repo.cwd, "for-each-ref", format_, prefix).decode("utf-8", "replace")

    sessions: list[StoredSession] = []
    for line in listing.splitlines():
        ref, oid, raw_date = line.split("\0")
        # Only another program stores anything but a commit here. It has no date, and gets the
        # earliest; so does an impossible date.
        if REF.fullmatch(ref):
            sessions.append(StoredSession(ref, oid, parse_date(raw_date)))
    return tuple(sessions)


def _may_have_refs(repo: Repository, prefix: str) -> bool:
    """Return False if the files of a repository show that it has no such refs.

    Most repositories have no sessions, and the files take no process to read: a ref is a file of
    its own, or a line of `packed-refs`. They are read in this order because git writes the line
    before it deletes the file. True also where refs have another store (gitformat-reftable(5)).

    Args:
        repo: the repository.
        prefix: the full name of a ref, or the beginning of names up to a slash.
    """
    if not (repo.common_dir / "refs" / "heads").is_dir():
        return True
    if os.path.lexists(repo.common_dir / prefix):
        return True
    try:
        packed_refs = (repo.common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return f" {prefix}".encode() in packed_refs


def _commit(repo: Repository, files: Mapping[str, bytes], key: str, when: datetime) -> str:
    """Write a commit of files without parents, and return its id."""
    entries = ""
    for name, data in sorted(files.items()):
        oid = _run_plumbing(repo, "hash-object", "-w", "--no-filters", "--stdin", input=data)
        entries += f"100644 blob {oid}\t{name}\0"
    tree = _run_plumbing(repo, "mktree", "-z", input=entries.encode())

    date = f"@{int(when.timestamp())} +0000"
    env = IDENTITY | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    message = f"memory-ci: session {' '.join(key.split())[:200]}\n".encode("utf-8", "replace")
    args = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree)
    return _run_plumbing(repo, *args, input=message, env=env)


def _run_plumbing(
    repo: Repository, *args: str, input: bytes, env: Mapping[str, str] | None = None
) -> str:
    return run_git(repo.cwd, *NO_HOOKS, *args, input=input, env=env).decode().strip()


def _move_ref(repo: Repository, ref: str, oid: str, expected: str) -> None:
    """Set a ref to `oid` if it points to `expected`; zeros mean that the ref does not exist yet.

    Raises:
        RepositoryError: ref-moved, if the ref points to another object.
    """
    try:
        # A killed git would leave its lock behind, which no later capture removes.
        with signals_held():
            args = (*NO_HOOKS, "update-ref", ref, oid, expected)
            run_git(repo.cwd, *args, shared_files=())
    except RepositoryError as error:
        stored = find_stored(repo, ref)
        if stored is not None and stored.oid == oid:
            return  # Another capture of the same session was faster.
        message = f"{ref} is no longer where it was: another capture moved it meanwhile"
        hint = "Nothing was changed. Run again."
        raise RepositoryError(message, slug="ref-moved", hint=hint) from error


def _update_refs(repo: Repository, commands: list[str]) -> None:
    """Run commands of `git update-ref --stdin`, for example `delete <ref> <old id>`."""
    if not commands:
        return
    lines = "".join(f"{command}\n" for command in commands).encode()
    with signals_held():
        run_git(repo.cwd, *NO_HOOKS, "update-ref", "--stdin", input=lines, shared_files=())


def _format_part(text: str) -> str:
    """Return a text as a part of a ref name.

    In a text that is no REF_PART, such as one with a slash, other characters than letters and
    digits become `-`, and a hash of the text is added, so that two texts never share a name.
    """
    if REF_PART.fullmatch(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60]
    import hashlib  # Not at the top: it takes 4 ms, and a push without sessions does not need it.

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable or 'x'}-{digest[:16]}"


# -- sessions of a remote


def list_pushed(repo: Repository) -> Mapping[str, tuple[StoredSession, ...]]:
    """Return the notes of pushes: which version of a session was pushed, by remote.

    A session may have grown since. A remote is named as `_format_part` writes it in a ref.
    """
    notes_by_remote: dict[str, list[StoredSession]] = {}
    for note in _list_refs(repo, PUSHED):
        remote, _, _ = note.ref.removeprefix(PUSHED).partition("/")
        notes_by_remote.setdefault(remote, []).append(note)
    return {remote: tuple(notes) for remote, notes in notes_by_remote.items()}


def list_remote(
    repo: Repository, remote: str, env: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Ask a remote for its session refs, and return their commits by ref.

    Args:
        repo: the repository.
        remote: the name or address of the remote.
        env: variables with credentials for git, as of `network.connect`.

    Raises:
        EngineError: remote-failed.
    """
    answer = run_remote_git(repo.cwd, "ls-remote", "--quiet", "--", remote, f"{SESSIONS}*", env=env)
    oids: dict[str, str] = {}
    for line in answer.decode("utf-8", "replace").splitlines():
        oid, _, ref = line.partition("\t")
        if REF.fullmatch(ref):
            oids[ref] = oid
    return oids


def fetch(repo: Repository, remote: str, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Fetch the sessions that this repository lacks.

    A session that it has is never replaced, for it may have grown since.

    Args:
        repo: the repository.
        remote: the name or address of the remote.
        env: variables with credentials for git, as of `network.connect`.

    Returns:
        The refs that were fetched.

    Raises:
        EngineError: remote-failed, if none could be fetched.
    """
    local_refs = {stored.ref for stored in list_stored(repo)}
    remote_oids = list_remote(repo, remote, env)
    fetched_oids = {ref: oid for ref, oid in remote_oids.items() if ref not in local_refs}
    if not fetched_oids:
        return ()
    try:
        _fetch_refs(repo, remote, fetched_oids, env)
    except EngineError:
        # A ref that git refuses does not keep the others from being fetched.
        local_refs = {stored.ref for stored in list_stored(repo)}
        fetched_oids = {ref: oid for ref, oid in fetched_oids.items() if ref in local_refs}
        if not fetched_oids:
            raise
    # The remote has this version of them: they need not be pushed.
    _update_refs(
        repo, [f"update {_name_push_note(remote, ref)} {oid}" for ref, oid in fetched_oids.items()]
    )
    return tuple(fetched_oids)


def _fetch_refs(
    repo: Repository, remote: str, refs: Iterable[str], env: Mapping[str, str] | None
) -> None:
    """Fetch refs of a remote into refs of the same names."""
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head")
    options = (*quiet, "--no-recurse-submodules", "--no-auto-maintenance", "--stdin")
    refspecs = "".join(f"{ref}:{ref}\n" for ref in refs).encode()
    args = (*NO_HOOKS, "fetch", *options, "--", remote)
    run_remote_git(repo.cwd, *args, input=refspecs, env=env)


def push(repo: Repository, remote: str, sessions: Collection[StoredSession]) -> None:
    """Push sessions to a remote, and leave a note of each push in this repository.

    The remote's versions of these sessions are replaced.

    Raises:
        EngineError: remote-failed.
    """
    forced_refspecs = [f"+{stored.oid}:{stored.ref}" for stored in sessions]
    _push_refspecs(repo, remote, forced_refspecs)
    _write_push_notes(repo, remote, {stored.ref: stored.oid for stored in sessions})


def delete_remote(repo: Repository, remote: str, refs: Collection[str]) -> None:
    """Delete sessions of a remote.

    Raises:
        EngineError: remote-failed.
    """
    _push_refspecs(repo, remote, [f":{ref}" for ref in refs if ref.startswith(SESSIONS)])


def _push_refspecs(repo: Repository, remote: str, refspecs: list[str]) -> None:
    if refspecs:
        args = ("push", "--no-verify", "--quiet", "--no-signed", "--", remote, *refspecs)
        run_remote_git(repo.cwd, *NO_HOOKS, *args)


def _write_push_notes(repo: Repository, remote: str, oids: Mapping[str, str]) -> None:
    """Record that a remote has sessions: the commit of each, by its ref."""
    commands = [f"update {_name_push_note(remote, ref)} {oid}" for ref, oid in oids.items()]
    _update_refs(repo, commands)


def _name_push_note(remote: str, ref: str) -> str:
    """Return the ref that records the push of a session to a remote."""
    return f"{PUSHED}{_format_part(remote)}/{ref.removeprefix(SESSIONS)}"
