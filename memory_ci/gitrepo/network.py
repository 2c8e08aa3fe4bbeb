"""Git and a remote: commands bounded in time, fetched tips, pushes with compare-and-swap, refusals told apart.

The token is an `http.extraHeader` in the environment of git (git-config(1), GIT_CONFIG_COUNT): it is in no argument, no
address and no file, and git sends it to the server that it is for and to no other.
"""

from __future__ import annotations

import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from memory_ci.deadline import kill_group
from memory_ci.errors import EngineError
from memory_ci.gitrepo.checkouts import NO_HOOKS
from memory_ci.gitrepo.process import (
    NO_PROGRAMS,
    clean_environment,
    config_variables,
    network_variables,
    run_git,
)
from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.records.names import HEADS
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten

SECONDS = 60.0  # For one command, connection included.
ADVICE = "Please make sure you have the correct access rights"
"""Where git's own words on a failure end, and its advice to everybody begins (connect.c)."""

CLOSING = "Could not read from remote repository."  # What git says after whoever knew the reason.
SAID_WIDTH = 300
REASON_WIDTH = 600  # Of a refusal, which may name several rules.


class RemoteAnswer(NamedTuple):
    """What a git command ended with; `errors` is what git and its helpers said."""

    status: int
    output: bytes
    errors: str


def run_remote_git(
    cwd: Path,
    *args: str,
    input: bytes = b"",
    env: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> bytes:
    """Standard output of `git <args>` in a session of its own: with no terminal, nothing that it starts can prompt.
    Raises EngineError (remote-failed), also when it takes longer than `seconds`; then all that it started is ended."""
    answer = ask_remote_git(cwd, *args, input=input, env=env, seconds=seconds)
    if answer.status:
        raise remote_failure(args, answer)
    return answer.output


def ask_remote_git(
    cwd: Path,
    *args: str,
    input: bytes = b"",
    env: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> RemoteAnswer:
    """As run_remote_git, whatever the exit status; `env` is added to the clean environment. Raises EngineError
    (remote-failed) when it takes longer than `seconds`."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        ["git", *args],
        cwd=cwd,
        env=clean_environment(network_variables() | dict(env or {}), cwd),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(input, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise _failure(args, f"no answer within {seconds:g} seconds") from error
    finally:
        if process.returncode is None:
            # End git and its helpers (ssh, git-remote-https), which would hold our pipes open.
            kill_group(process)
            process.communicate()
    return RemoteAnswer(process.returncode, output, errors.decode("utf-8", "replace"))


CLOSED = re.compile(
    r"could not read Username|terminal prompts disabled|Authentication failed|not found|error: 40[134]"
)
"""What git says of a remote that wants to know who asks."""

ASK_SECONDS = 5.0


def is_readable_by_anybody(address: str) -> bool | None:
    """Whether a web address answers git without credentials; None where that cannot be told within ASK_SECONDS."""
    home = {
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ASKPASS": "",
    }
    nobody = (
        home
        | {"GIT_CONFIG_NOSYSTEM": "1", "SSH_ASKPASS": ""}
        | config_variables(("credential.helper", ""))
    )
    try:
        answer = ask_remote_git(
            Path(os.sep), "ls-remote", "--quiet", "--", address, env=nobody, seconds=ASK_SECONDS
        )
    except EngineError:
        return None
    return True if answer.status == 0 else False if CLOSED.search(answer.errors) else None


def remote_failure(args: tuple[str, ...], answer: RemoteAnswer) -> EngineError:
    """The error of a command that did not end well; `args` name the remote after `--`."""
    return _failure(args, _reason(answer.errors) or f"exit status {answer.status}")


def _reason(errors: str) -> str:
    """Why git failed, in one line: what it and its helpers said, without advice."""
    lines = [
        line.strip().removeprefix("fatal: ") for line in errors.partition(ADVICE)[0].splitlines()
    ]
    said = [line for line in lines if line and not line.startswith("hint:")]
    return "; ".join([line for line in said if line != CLOSING] or said)


def _failure(args: tuple[str, ...], said: str) -> EngineError:
    """`args` name the remote after `--`."""
    remote = f"the remote {args[args.index('--') + 1]!r}" if "--" in args else "a remote"
    hint = "`git remote -v` lists the remotes: check the name, the address and your access. What is here is unchanged."
    message = shorten(mask_secrets(f"{remote} cannot be used: {said}"), SAID_WIDTH)
    return EngineError(message, slug="remote-failed", hint=hint)


TOKENS = (
    (("GITHUB_TOKEN", "GH_TOKEN"), "GITHUB_SERVER_URL", "https://github.com", "x-access-token"),
    (("GITLAB_TOKEN",), "CI_SERVER_URL", "https://gitlab.com", "oauth2"),
)
"""Variables that hold a token, the one that says for which server, its default, and the user that git names with it."""

REFUSED = re.compile(
    r"GH006|GH013|protected branch|push declined|hook declined|returned error: 403|Permission to .* denied"
    r"|not allowed to (?:push|force push)|denied to",
    re.IGNORECASE,
)
"""What no second try changes: rules of the branch, hooks of the server, rights of the token."""

MOVED = re.compile(
    r"\[(?:remote )?rejected\].*\((?:stale info|non-fast-forward|fetch first|failed to update ref|reference already "
    r"exists|incorrect old value provided|cannot lock ref|failed to lock).*"
    r"|cannot lock ref|needs force",
    re.IGNORECASE,
)
"""Somebody else was faster: between our fetch and our push, or at the same moment."""

REJECTED = "[remote rejected]"
NO_OPTIONS = "does not support push options"  # A remote that cannot be told more than what to move (send-pack.c).
DEEPER = (
    "--deepen=200",
    "--deepen=2000",
    "--unshallow",
)  # How a shallow clone is made deeper, step by step.


class Remote(msgspec.Struct, frozen=True):
    """A remote by name or address, and the variables with which git may use it."""

    name: str
    env: Mapping[str, str]


class PushOutcome(NamedTuple):
    """How a push ended: `done`, `moved` (somebody was faster: try again) or `refused`; `said` is the reason."""

    state: Literal["done", "moved", "refused"]
    said: str = ""


def connect(name: str, environ: Mapping[str, str]) -> Remote:
    """The remote, with the token that `environ` holds for its server, if it holds one."""
    pairs = [pair for row in TOKENS for pair in _header(environ, *row)]
    return Remote(name, config_variables(*NO_PROGRAMS, *pairs))


def find_remote_tip(repo: Repository, remote: Remote, branch: str) -> str | None:
    """The commit that a branch (a short name) of the remote is at, or None. Raises EngineError (remote-failed)."""
    asked = ("ls-remote", "--quiet", "--", remote.name, HEADS + branch)
    answer = run_remote_git(repo.cwd, *asked, env=remote.env).decode("utf-8", "replace")
    return next(
        (
            oid
            for oid, _, ref in (line.partition("\t") for line in answer.splitlines())
            if ref == HEADS + branch
        ),
        None,
    )


def fetch_tip(repo: Repository, remote: Remote, branch: str, into: str) -> None:
    """Put the tip of a branch of the remote into the ref `into`, and touch no other. Raises EngineError."""
    spec = f"+{HEADS}{branch}:{into}"
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-auto-maintenance")
    run_remote_git(repo.cwd, *NO_HOOKS, "fetch", *quiet, "--", remote.name, spec, env=remote.env)


def read_remote_file(place: Path, remote: Remote, rev: str, path: str) -> bytes | None:
    """A file of a branch, a tag or a commit of a remote, or None; `place` is an empty directory to fetch into. Raises
    EngineError (remote-failed)."""
    run_git(place, "init", "--quiet", "--bare")
    find_repository(place, is_named=True)
    quiet = ("--quiet", "--no-tags", "--depth=1")
    run_remote_git(place, *NO_HOOKS, "fetch", *quiet, "--", remote.name, rev, env=remote.env)
    listed = run_git(place, "ls-tree", "--end-of-options", "FETCH_HEAD", "--", path)
    return (
        run_git(place, "cat-file", "blob", listed.split()[2].decode())
        if listed.startswith(b"100")
        else None
    )


def deepen(repo: Repository, remote: Remote, branch: str, step: str) -> None:
    """Fetch more history of a shallow clone; `step` is one of DEEPER. Raises EngineError (remote-failed)."""
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", step)
    run_remote_git(
        repo.cwd, *NO_HOOKS, "fetch", *quiet, "--", remote.name, HEADS + branch, env=remote.env
    )


def push_tip(
    repo: Repository,
    remote: Remote,
    branch: str,
    new: str | None,
    expected: str | None,
    options: tuple[str, ...] = (),
) -> PushOutcome:
    """Move a branch of the remote from `expected` (None: it is not there) to `new` (None: it goes away), or not at all.

    `options` are push options (git-push(1)), left out for a remote that takes none. Raises EngineError (remote-failed)
    when the remote did not answer.
    """
    spec = f"{new or ''}:{HEADS}{branch}"
    lease = f"--force-with-lease={HEADS}{branch}:{expected or ''}"
    told = (f"--push-option={option}" for option in options)
    asked = (
        "push",
        "--no-verify",
        "--no-signed",
        "--no-follow-tags",
        *told,
        lease,
        "--",
        remote.name,
        spec,
    )
    answer = ask_remote_git(repo.cwd, *NO_HOOKS, *asked, env=remote.env)
    if not answer.status:
        return PushOutcome("done")
    if options and NO_OPTIONS in answer.errors:
        return push_tip(repo, remote, branch, new, expected)
    outcome = classify_rejection(answer.errors)
    if outcome is None:
        raise remote_failure(asked, answer)
    return outcome


def classify_rejection(errors: str) -> PushOutcome | None:
    """What a failed push means by what git said of it; None when it says nothing of a rejection.

    >>> classify_rejection(" ! [rejected]  abc -> main (stale info)").state
    'moved'
    """
    lines = (
        line.strip().removeprefix("remote:").strip()
        for line in errors.splitlines()
        if _is_reason(line)
    )
    said = shorten(mask_secrets("; ".join(lines)), REASON_WIDTH)
    if REFUSED.search(errors):
        return PushOutcome("refused", said)
    if MOVED.search(errors):
        return PushOutcome("moved", said)
    return PushOutcome("refused", said) if REJECTED in errors else None


def _is_reason(line: str) -> bool:
    """Whether a line says why, and is no advice, no progress, no address."""
    bare = line.strip()
    return bool(bare.removeprefix("remote:").strip()) and not bare.startswith(
        ("hint:", "To ", "error: failed to push")
    )


def _header(
    environ: Mapping[str, str], names: tuple[str, ...], server: str, default: str, user: str
) -> list[tuple[str, str]]:
    """The setting that gives a server its token. The empty one takes back what an earlier step of the job has set."""
    token = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
    url = urlsplit(environ.get(server) or default)
    is_safe = url.scheme == "https" or (
        url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost")
    )
    if not token or not is_safe or not (token.isascii() and token.isprintable()):
        return []
    key = f"http.{url.scheme}://{url.netloc}/.extraheader"
    return [
        (key, ""),
        (key, f"Authorization: Basic {b64encode(f'{user}:{token}'.encode()).decode()}"),
    ]


# -- a repository elsewhere: its default branch, the tree of that, a few of its files

NEAR = 200  # Commits before a tip in which the last run is looked for.

ABSENT = re.compile(
    r"repository '?[^\n]*'? not found|Repository not found|not appear to be a git repository", re.I
)
"""What git and the forges say where there is no such repository, or none for who asks."""


def find_default_tip(remote: Remote, seconds: float) -> str | None:
    """The commit of the default branch, "" in an empty repository; None where there is no such repository. Raises
    EngineError (remote-failed)."""
    asked = ("ls-remote", "--quiet", "--", remote.name, "HEAD")
    answer = ask_remote_git(Path(os.sep), *asked, env=remote.env, seconds=seconds)
    if answer.status and ABSENT.search(answer.errors):
        return None
    if answer.status:
        raise remote_failure(asked, answer)
    return answer.output.decode("utf-8", "replace").partition("\t")[0].strip()


def find_tips(remote: Remote, refs: Sequence[str], seconds: float) -> tuple[str, ...]:
    """The commits that refs (HEAD, full names) are at, "" for none. Raises EngineError (remote-failed)."""
    asked = ("ls-remote", "--quiet", "--", remote.name, *refs)
    answer = run_remote_git(Path(os.sep), *asked, env=remote.env, seconds=seconds).decode(
        "utf-8", "replace"
    )
    found = {ref: oid for oid, _, ref in (line.partition("\t") for line in answer.splitlines())}
    return tuple(found.get(ref, "") for ref in refs)


def fetch_history(
    remote: Remote, place: Path, commits: Sequence[str], seconds: float
) -> Repository:
    """The newest NEAR commits before each of `commits` in a new bare repository at `place`, without file contents.
    Raises EngineError (remote-failed)."""
    run_git(place.parent, "init", "--quiet", "--bare", "--template=", str(place))
    quiet = (
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--filter=blob:none",
        f"--depth={NEAR}",
    )
    repo = find_repository(place, is_named=True)
    run_remote_git(
        place, "fetch", *quiet, "--", remote.name, *commits, env=remote.env, seconds=seconds
    )
    return repo


def fetch_tree(remote: Remote, place: Path, seconds: float) -> Repository:
    """The newest commit of the default branch in a new bare repository at `place`, without the content of files where
    the server can leave that out. Raises EngineError (remote-failed)."""
    options = (
        "--quiet",
        "--bare",
        "--depth=1",
        "--single-branch",
        "--no-tags",
        "--filter=blob:none",
        "--template=",
    )
    run_remote_git(
        place.parent,
        "clone",
        *options,
        "--",
        remote.name,
        str(place),
        env=remote.env,
        seconds=seconds,
    )
    return find_repository(place, is_named=True)


def fetch_files(repo: Repository, remote: Remote, oids: Iterable[str], seconds: float) -> None:
    """The content of files of that tree, in one request. Raises EngineError (remote-failed)."""
    if wanted := "".join(f"{oid}\n" for oid in sorted(set(oids))).encode():
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin")
        # Told of the commit that is here, the server would take the content of its files for known.
        noop = ("-c", "fetch.negotiationAlgorithm=noop")
        run_remote_git(
            repo.cwd,
            *noop,
            "fetch",
            *options,
            "--",
            "origin",
            input=wanted,
            env=remote.env,
            seconds=seconds,
        )
