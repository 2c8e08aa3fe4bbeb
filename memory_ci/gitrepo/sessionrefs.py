"""Sessions as git objects: each one a commit without parents under refs/memory-ci/sessions/<agent>/<id>.

No branch, index or work tree is involved, and no hook or signing of the user's takes part. What was pushed to a remote
is remembered as refs/memory-ci/pushed/<remote>/<agent>/<id>, so that one look says whether there is anything to push.
"""

from __future__ import annotations

import hashlib
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

SESSIONS = "refs/memory-ci/sessions/"
PUSHED = "refs/memory-ci/pushed/"
DIGEST = "digest.jsonl"
FULL = "transcript"
NOTES = "notes.md"
MAX_DIGEST = 100_000_000  # Bytes: the most that `sessions.max_bytes` may allow, so that no remote makes us read more.
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""A part of a ref name that needs no change; without a dot, `..` and `.lock` are none (git-check-ref-format(1))."""

NAME = re.compile(
    rf"refs/memory-ci/(?:sessions|pushed/{SAFE.pattern})/{SAFE.pattern}/{SAFE.pattern}"
)
"""A ref as `session_ref` names it, or its mark of having been pushed. Any other is somebody else's, and passed over."""

IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "memory-ci"), ("EMAIL", "memory-ci@noreply.invalid"))
}


class StoredRef(msgspec.Struct, frozen=True):
    """Where a session is kept, and whether this call put it there."""

    ref: str
    oid: str
    is_new: bool


class StoredSession(msgspec.Struct, frozen=True):
    """A session that is kept here; `at` is when it ended."""

    ref: str
    oid: str
    at: datetime

    @property
    def key(self) -> str:
        """`<agent>:<id>`, both as the ref spells them."""
        return self.ref.removeprefix(SESSIONS).replace("/", ":", 1)

    @property
    def id(self) -> str:
        """The session's id, as the ref spells it."""
        return self.key.partition(":")[2]


def session_ref(agent: str, session_id: str) -> str:
    """The full name of a session's ref, whatever its id holds.

    >>> session_ref("claude-code", "79e9becd-1")
    'refs/memory-ci/sessions/claude-code/79e9becd-1'
    """
    return f"{SESSIONS}{_part(agent)}/{_part(session_id)}"


def store(
    repo: Repository, agent: str, session_id: str, files: Mapping[str, bytes], when: datetime
) -> StoredRef:
    """Keep the files of a session that ended at `when`; the same files and time give the same commit, kept once.

    A session that has grown replaces its older self, never the other way round. One that ended before 1970 is dated to
    its begin, since git knows no earlier time. Raises RepositoryError: ref-moved, git-failed.
    """
    ref, when = session_ref(agent, session_id), max(when, EPOCH)
    before = next(iter(_list(repo, ref)), None)
    if before is not None and before.at > when:
        return StoredRef(ref, before.oid, is_new=False)
    oid = _commit(repo, files, f"{agent}:{session_id}", when)
    if before is not None and before.oid == oid:
        return StoredRef(ref, oid, is_new=False)
    _move(repo, ref, oid, before.oid if before else "0" * len(oid))  # zeros: there is none
    return StoredRef(ref, oid, is_new=True)


def list_stored(repo: Repository) -> tuple[StoredSession, ...]:
    """All sessions kept here, in order of their refs."""
    return _list(repo, SESSIONS)


def list_unpushed(repo: Repository, remote: str) -> tuple[StoredSession, ...]:
    """The sessions that this remote was not sent as they are now, so far as we know. One git process."""
    known = {stored.ref: stored for stored in _list(repo, "refs/memory-ci/")}
    sessions = (stored for ref, stored in known.items() if ref.startswith(SESSIONS))
    return tuple(
        stored
        for stored in sessions
        if stored.oid != getattr(known.get(_pushed(remote, stored.ref)), "oid", "")
    )


def read_stored(
    repo: Repository, sessions: Iterable[StoredSession], limit: int = MAX_DIGEST, name: str = DIGEST
) -> Iterator[tuple[StoredSession, bytes]]:
    """The digests of sessions (or their files of that name), by one git process. A ref without one within `limit` bytes
    is passed over."""
    wanted = {stored.ref: stored for stored in sessions}
    for content in read_files(
        repo, (TreeFile(ref, f"{stored.oid}:{name}") for ref, stored in wanted.items()), limit
    ):
        if content.data is not None:
            yield wanted[content.file.path], content.data


def delete(repo: Repository, sessions: Collection[StoredSession]) -> None:
    """Forget sessions, and that they were pushed; one that changed meanwhile stops all. Raises RepositoryError."""
    names = {stored.ref.removeprefix(SESSIONS) for stored in sessions}
    pushed = [
        one
        for one in _list(repo, PUSHED)
        if one.ref.removeprefix(PUSHED).partition("/")[2] in names
    ]
    _update(repo, [f"delete {stored.ref} {stored.oid}" for stored in (*sessions, *pushed)])


def rewrite(repo: Repository, stored: StoredSession, files: Mapping[str, bytes]) -> None:
    """Give a session these files, and forget that it was pushed, so that the next push replaces what a remote has.
    Raises RepositoryError: ref-moved, git-failed."""
    _move(repo, stored.ref, _commit(repo, files, stored.key, stored.at), stored.oid)
    name = stored.ref.removeprefix(SESSIONS)
    pushed = [
        one for one in _list(repo, PUSHED) if one.ref.removeprefix(PUSHED).partition("/")[2] == name
    ]
    _update(repo, [f"delete {one.ref} {one.oid}" for one in pushed])


def list_pushed(repo: Repository) -> Mapping[str, tuple[StoredSession, ...]]:
    """By remote, as its ref spells it, the sessions that were sent there, as they were then."""
    found: dict[str, list[StoredSession]] = {}
    for one in _list(repo, PUSHED):
        found.setdefault(one.ref.removeprefix(PUSHED).partition("/")[0], []).append(one)
    return {remote: tuple(sent) for remote, sent in found.items()}


def list_remote(
    repo: Repository, remote: str, env: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """The session refs of a remote and their commits. Raises EngineError (remote-failed)."""
    answer = run_remote_git(repo.cwd, "ls-remote", "--quiet", "--", remote, f"{SESSIONS}*", env=env)
    lines = (line.partition("\t") for line in answer.decode("utf-8", "replace").splitlines())
    return {ref: oid for oid, _, ref in lines if NAME.fullmatch(ref)}


def fetch(repo: Repository, remote: str, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Fetch the sessions that are not here; one that is here is never replaced, for it may have grown since.

    `env` holds what git needs to be let in, such as `network.connect` gives.
    Returns their refs, without those that could not be had. Raises EngineError (remote-failed) if none could.
    """
    here = {stored.ref for stored in list_stored(repo)}
    missing = {ref: oid for ref, oid in list_remote(repo, remote, env).items() if ref not in here}
    if missing:
        asked = (
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
        )
        specs = "".join(f"{ref}:{ref}\n" for ref in missing).encode()
        try:
            run_remote_git(
                repo.cwd, *NO_HOOKS, "fetch", *asked, "--stdin", "--", remote, input=specs, env=env
            )
        except EngineError:
            come = {
                stored.ref for stored in list_stored(repo)
            }  # one that git refuses keeps no other away
            missing = {ref: oid for ref, oid in missing.items() if ref in come}
            if not missing:
                raise
        _update(repo, [f"update {_pushed(remote, ref)} {oid}" for ref, oid in missing.items()])
    return tuple(missing)


def push(repo: Repository, remote: str, sessions: Collection[StoredSession]) -> None:
    """Send sessions to a remote, replacing what it has of them, and remember it. Raises EngineError (remote-failed)."""
    _push(repo, remote, [f"+{stored.oid}:{stored.ref}" for stored in sessions])
    _update(repo, [f"update {_pushed(remote, stored.ref)} {stored.oid}" for stored in sessions])


def delete_remote(repo: Repository, remote: str, refs: Collection[str]) -> None:
    """Take sessions out of a remote. Raises EngineError (remote-failed)."""
    _push(repo, remote, [f":{ref}" for ref in refs if ref.startswith(SESSIONS)])


def _part(text: str) -> str:
    """One part of a ref name; what had to be changed keeps a hash of the whole, so that two stay two."""
    if SAFE.fullmatch(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60]
    return f"{readable or 'x'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _pushed(remote: str, ref: str) -> str:
    return f"{PUSHED}{_part(remote)}/{ref.removeprefix(SESSIONS)}"


def _list(repo: Repository, pattern: str) -> tuple[StoredSession, ...]:
    fields = "%(refname)%00%(objectname)%00%(committerdate:unix)"
    lines = (
        run_git(repo.cwd, "for-each-ref", f"--format={fields}", pattern)
        .decode("utf-8", "replace")
        .splitlines()
    )
    found = (line.split("\0") for line in lines)
    # Something else than a commit, which only another program puts there, counts as old as can be; so does a mad date.
    return tuple(
        StoredSession(ref, oid, parse_date(at)) for ref, oid, at in found if NAME.fullmatch(ref)
    )


def _commit(repo: Repository, files: Mapping[str, bytes], key: str, when: datetime) -> str:
    tree = ""
    for name, data in sorted(files.items()):
        oid = (
            run_git(repo.cwd, *NO_HOOKS, "hash-object", "-w", "--no-filters", "--stdin", input=data)
            .decode()
            .strip()
        )
        tree += f"100644 blob {oid}\t{name}\0"
    root = run_git(repo.cwd, *NO_HOOKS, "mktree", "-z", input=tree.encode()).decode().strip()
    date = f"@{int(when.timestamp())} +0000"
    env = IDENTITY | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    message = f"memory-ci: session {' '.join(key.split())[:200]}\n".encode("utf-8", "replace")
    command = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", root)
    return run_git(repo.cwd, *NO_HOOKS, *command, input=message, env=env).decode().strip()


def _move(repo: Repository, ref: str, oid: str, expected: str) -> None:
    try:
        with (
            signals_held()
        ):  # a git that is killed leaves its lock behind, and no later capture gets past it
            run_git(repo.cwd, *NO_HOOKS, "update-ref", ref, oid, expected, shared_files=())
    except RepositoryError as error:
        now = next(iter(_list(repo, ref)), None)
        if now is not None and now.oid == oid:
            return  # another capture of the same session was faster
        message = f"{ref} is no longer where it was: another capture moved it meanwhile"
        raise RepositoryError(
            message, slug="ref-moved", hint="Nothing was changed. Run again."
        ) from error


def _update(repo: Repository, commands: list[str]) -> None:
    if commands:
        lines = "".join(f"{one}\n" for one in commands).encode()
        with signals_held():
            run_git(repo.cwd, *NO_HOOKS, "update-ref", "--stdin", input=lines, shared_files=())


def _push(repo: Repository, remote: str, specs: list[str]) -> None:
    if specs:
        run_remote_git(
            repo.cwd,
            *NO_HOOKS,
            "push",
            "--no-verify",
            "--quiet",
            "--no-signed",
            "--",
            remote,
            *specs,
        )
