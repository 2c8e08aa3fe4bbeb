"""Fetch from and push to git remotes, with a time limit and a token.

The token is an `http.extraHeader` in the environment of git (git-config(1), GIT_CONFIG_COUNT). It
is in no argument, no address and no file, and git sends it to no server but its own.
"""

from __future__ import annotations

import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal
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
from memory_ci.regex import Regex
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten

SECONDS = 60.0  # For one command, connection included.
PUBLIC_SECONDS = 5.0  # To find out whether a repository is public.

ADVICE = "Please make sure you have the correct access rights"
"""Where git's own message ends, and its advice to everybody begins (connect.c)."""

CLOSING = "Could not read from remote repository."  # Git's last line, after that with the reason.
MESSAGE_WIDTH = 300  # Characters of an error message.
REASON_WIDTH = 600  # Characters of the reason of a refusal, which may name several rules.

CLOSED = Regex(
    r"could not read Username|terminal prompts disabled|Authentication failed|not found"
    r"|error: 40[134]"
)
"""How git says that a remote needs credentials."""


class TokenSource(msgspec.Struct, frozen=True):
    """Variables that give a token for a server.

    Attributes:
        tokens: variables of the token; the first that is set counts.
        server: the variable of the server's address.
        default: the address where that variable is not set.
        user: the user name that goes with the token.
    """

    tokens: tuple[str, ...]
    server: str
    default: str
    user: str


TOKEN_SOURCES = (
    TokenSource(
        ("GITHUB_TOKEN", "GH_TOKEN"), "GITHUB_SERVER_URL", "https://github.com", "x-access-token"
    ),
    TokenSource(("GITLAB_TOKEN",), "CI_SERVER_URL", "https://gitlab.com", "oauth2"),
)

REFUSED = Regex(
    r"GH006|GH013|protected branch|push declined|hook declined|returned error: 403"
    r"|Permission to .* denied|not allowed to (?:push|force push)|denied to",
    re.IGNORECASE,
)
"""Refusals that another attempt does not change.

They come from rules of the branch, hooks of the server, or rights of the token.
"""

MOVED = Regex(
    r"\[(?:remote )?rejected\].*\((?:stale info|non-fast-forward|fetch first"
    r"|failed to update ref|reference already exists|incorrect old value provided"
    r"|cannot lock ref|failed to lock).*"
    r"|cannot lock ref|needs force",
    re.IGNORECASE,
)
"""Another push came first: between our fetch and our push, or at the same moment."""

REJECTED = "[remote rejected]"
NO_OPTIONS = "does not support push options"  # See send-pack.c.
DEEPER = ("--deepen=200", "--deepen=2000", "--unshallow")
"""How a shallow clone is deepened, step by step."""

HISTORY_DEPTH = 200  # Commits before a tip in which the last run is searched.

ABSENT = Regex(
    r"repository '?[^\n]*'? not found|Repository not found|not appear to be a git repository", re.I
)
"""How git and forges say that there is no such repository, or none that the token may read."""


class RemoteAnswer(msgspec.Struct, frozen=True):
    """The result of a git command; `errors` has the messages of its helpers, too."""

    status: int
    output: bytes
    errors: str


class Remote(msgspec.Struct, frozen=True):
    """A remote by name or address, and the variables with which git may use it."""

    name: str
    env: Mapping[str, str]


class PushOutcome(msgspec.Struct, frozen=True):
    """The result of a push.

    Attributes:
        state: `done`, `moved` (another push came first: try again) or `refused`.
        detail: the reason of a refusal in the words of the remote; the tip of the branch after a
            push that is done, if it is not the commit that was to be pushed.
    """

    state: Literal["done", "moved", "refused"]
    detail: str = ""


# -- commands and their errors


def run_remote_git(
    cwd: Path,
    *args: str,
    input: bytes = b"",
    env: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> bytes:
    """Run `git <args>`, which may connect to a remote, and return its standard output.

    It runs without a terminal, so that no program that it starts can prompt.

    Args:
        cwd: the directory that git runs in.
        args: its arguments, the remote after `--`.
        input: its standard input.
        env: variables with credentials, as of `connect`.
        seconds: the time limit.

    Raises:
        EngineError: remote-failed, also when the command takes longer than `seconds`. Then it is
            ended with all that it started.
    """
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
    """Run git as `run_remote_git` does, but return its output whatever the exit status.

    Raises:
        EngineError: remote-failed, when the command takes longer than `seconds`.
    """
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
        raise _remote_failed(args, f"no answer within {seconds:g} seconds") from error
    finally:
        if process.returncode is None:
            # End git and its helpers (ssh, git-remote-https), which would hold our pipes open.
            kill_group(process)
            process.communicate()
    return RemoteAnswer(process.returncode, output, errors.decode("utf-8", "replace"))


def remote_failure(args: tuple[str, ...], answer: RemoteAnswer) -> EngineError:
    """Return the error of a command that failed; `args` name the remote after `--`."""
    return _remote_failed(args, _find_reason(answer.errors) or f"exit status {answer.status}")


def _find_reason(errors: str) -> str:
    """Return in one line why git failed, in the words of git and its helpers, without advice.

    Args:
        errors: the standard error of git.
    """
    before_advice, _, _ = errors.partition(ADVICE)
    lines = [line.strip().removeprefix("fatal: ") for line in before_advice.splitlines()]
    messages = [line for line in lines if line and not line.startswith("hint:")]
    reasons = [line for line in messages if line != CLOSING]
    return "; ".join(reasons or messages)


def _remote_failed(args: tuple[str, ...], reason: str) -> EngineError:
    """Return the error of a command; `args` name the remote after `--`."""
    remote = f"the remote {args[args.index('--') + 1]!r}" if "--" in args else "a remote"
    message = shorten(mask_secrets(f"{remote} cannot be used: {reason}"), MESSAGE_WIDTH)
    hint = (
        "`git remote -v` lists the remotes: check the name, the address and your access. "
        "What is here is unchanged."
    )
    return EngineError(message, slug="remote-failed", hint=hint)


# -- access


def connect(name: str, environ: Mapping[str, str]) -> Remote:
    """Return the remote, with the tokens that `environ` holds."""
    settings = list(NO_PROGRAMS)
    for source in TOKEN_SOURCES:
        settings += _list_header_settings(environ, source)
    return Remote(name, config_variables(*settings))


def _list_header_settings(environ: Mapping[str, str], source: TokenSource) -> list[tuple[str, str]]:
    """Return the settings with which git sends a token to its server, and to no other.

    Return no settings without a token, or if the token would be sent unencrypted.
    """
    tokens = [environ.get(variable, "").strip() for variable in source.tokens]
    token = next(filter(None, tokens), "")
    url = urlsplit(environ.get(source.server) or source.default)
    is_local = url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost")
    is_safe_server = url.scheme == "https" or is_local
    is_valid_token = token != "" and token.isascii() and token.isprintable()
    if not is_safe_server or not is_valid_token:
        return []
    key = f"http.{url.scheme}://{url.netloc}/.extraheader"
    credentials = b64encode(f"{source.user}:{token}".encode()).decode()
    # An empty value resets a header that an earlier step of the job has set.
    return [(key, ""), (key, f"Authorization: Basic {credentials}")]


def is_public(address: str) -> bool | None:
    """Return whether a web address answers git without credentials.

    None where that is not known after PUBLIC_SECONDS.
    """
    no_credentials = {
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
    }
    env = no_credentials | config_variables(("credential.helper", ""))
    args = ("ls-remote", "--quiet", "--", address)
    try:
        answer = ask_remote_git(Path(os.sep), *args, env=env, seconds=PUBLIC_SECONDS)
    except EngineError:
        return None
    if answer.status == 0:
        return True
    if CLOSED.search(answer.errors):
        return False
    return None


# -- branches of the remote

NO_COMMIT = ""  # In place of a commit, for a repository that has none.


def find_remote_tip(repo: Repository, remote: Remote, branch: str) -> str | None:
    """Return the commit of a branch (a short name) of the remote, or None.

    Raises:
        EngineError: remote-failed.
    """
    ref = HEADS + branch
    args = ("ls-remote", "--quiet", "--", remote.name, ref)
    return _parse_refs(run_remote_git(repo.cwd, *args, env=remote.env)).get(ref)


def ask_default_tip(remote: Remote, seconds: float) -> str | None:
    """Ask a remote for the commit of its default branch.

    Args:
        remote: the remote.
        seconds: the time limit of the command.

    Returns:
        The id of the commit; NO_COMMIT for an empty repository; None if there is no such
        repository.

    Raises:
        EngineError: remote-failed.
    """
    args = ("ls-remote", "--quiet", "--", remote.name, "HEAD")
    answer = ask_remote_git(Path(os.sep), *args, env=remote.env, seconds=seconds)
    if answer.status and ABSENT.search(answer.errors):
        return None
    if answer.status:
        raise remote_failure(args, answer)
    if not answer.output:
        return NO_COMMIT
    return answer.output.decode("utf-8", "replace").partition("\t")[0].strip()


def find_tips(remote: Remote, refs: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Return the commits of refs of a remote (HEAD, full names); "" for a missing ref.

    Raises:
        EngineError: remote-failed.
    """
    args = ("ls-remote", "--quiet", "--", remote.name, *refs)
    oids = _parse_refs(run_remote_git(Path(os.sep), *args, env=remote.env, seconds=seconds))
    return tuple(oids.get(ref, "") for ref in refs)


def _parse_refs(listing: bytes) -> dict[str, str]:
    """Parse the output of `git ls-remote` into object ids by full ref name."""
    oids: dict[str, str] = {}
    for line in listing.decode("utf-8", "replace").splitlines():
        oid, _, ref = line.partition("\t")
        oids[ref] = oid
    return oids


def fetch_tip(repo: Repository, remote: Remote, branch: str, into: str) -> None:
    """Fetch the tip of a branch of the remote into the ref `into`, and change no other ref.

    Raises:
        EngineError: remote-failed.
    """
    options = (
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--refmap=",
        "--no-auto-maintenance",
    )
    args = ("fetch", *options, "--", remote.name, f"+{HEADS}{branch}:{into}")
    run_remote_git(repo.cwd, *NO_HOOKS, *args, env=remote.env)


def deepen(repo: Repository, remote: Remote, branch: str, step: str) -> None:
    """Fetch more history of a shallow clone; `step` is one of DEEPER.

    Raises:
        EngineError: remote-failed.
    """
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", step)
    args = ("fetch", *options, "--", remote.name, HEADS + branch)
    run_remote_git(repo.cwd, *NO_HOOKS, *args, env=remote.env)


def push_tip(
    repo: Repository,
    remote: Remote,
    branch: str,
    new: str | None,
    expected: str | None,
    *,
    options: Sequence[str] = (),
) -> PushOutcome:
    """Move a branch of the remote by compare-and-swap.

    Args:
        repo: the repository that has the commit.
        remote: the remote.
        branch: the short name of the branch.
        new: the new commit; None to delete the branch.
        expected: the commit that the branch must be at; None where it must not exist.
        options: push options (git-push(1)), left out for a remote that takes none.

    Raises:
        EngineError: remote-failed, when the remote did not answer.
    """
    quiet = ("--no-verify", "--no-signed", "--no-follow-tags")
    push_options = [f"--push-option={option}" for option in options]
    lease = f"--force-with-lease={HEADS}{branch}:{expected or ''}"
    refspec = f"{new or ''}:{HEADS}{branch}"
    args = ("push", *quiet, *push_options, lease, "--", remote.name, refspec)
    answer = ask_remote_git(repo.cwd, *NO_HOOKS, *args, env=remote.env)

    if not answer.status:
        return PushOutcome("done")
    if options and NO_OPTIONS in answer.errors:
        return push_tip(repo, remote, branch, new, expected)
    outcome = classify_rejection(answer.errors)
    if outcome is None:
        raise remote_failure(args, answer)
    return outcome


def classify_rejection(errors: str) -> PushOutcome | None:
    """Return why a remote rejected a push; None if git names no rejection.

    The state is `refused` if a rule of the remote forbids it, `moved` if the branch is no longer at
    the expected commit.

    Args:
        errors: the standard error of `git push`.

    >>> classify_rejection(" ! [rejected]  abc -> main (stale info)").state
    'moved'
    """
    reason = shorten(mask_secrets("; ".join(_list_reasons(errors))), REASON_WIDTH)
    if REFUSED.search(errors):
        return PushOutcome("refused", reason)
    if MOVED.search(errors):
        return PushOutcome("moved", reason)
    if REJECTED in errors:
        return PushOutcome("refused", reason)
    return None


def _list_reasons(errors: str) -> list[str]:
    """Return the lines of git's messages that are not advice, an address or blank."""
    reasons: list[str] = []
    for line in errors.splitlines():
        text = line.strip()
        if text.startswith(("hint:", "To ", "error: failed to push")):
            continue
        reason = text.removeprefix("remote:").strip()
        if reason:
            reasons.append(reason)
    return reasons


# -- files and commits of a repository that is not cloned


def read_remote_file(directory: Path, remote: Remote, rev: str, path: str) -> bytes | None:
    """Fetch one file of a branch, a tag or a commit of a remote; None if there is no such file.

    Args:
        directory: an empty directory to fetch into.
        remote: the remote.
        rev: the branch, tag or commit.
        path: the path of the file.

    Raises:
        EngineError: remote-failed.
    """
    run_git(directory, "init", "--quiet", "--bare")
    find_repository(directory, is_named=True)  # From now on git accepts it as a bare repository.
    args = ("fetch", "--quiet", "--no-tags", "--depth=1", "--", remote.name, rev)
    run_remote_git(directory, *NO_HOOKS, *args, env=remote.env)

    entry = run_git(directory, "ls-tree", "--end-of-options", "FETCH_HEAD", "--", path)
    is_regular = entry.startswith(b"100")
    if not is_regular:
        return None
    _, _, oid, _ = entry.decode("utf-8", "replace").split(maxsplit=3)  # Mode, type, id and path.
    return run_git(directory, "cat-file", "blob", oid)


def fetch_history(
    remote: Remote, directory: Path, commits: Sequence[str], seconds: float
) -> Repository:
    """Fetch the newest HISTORY_DEPTH commits before each of `commits`, without file contents.

    Args:
        remote: the remote.
        directory: where a new bare repository is made.
        commits: full ids.
        seconds: the time limit of the command.

    Raises:
        EngineError: remote-failed.
    """
    run_git(directory.parent, "init", "--quiet", "--bare", "--template=", str(directory))
    repo = find_repository(directory, is_named=True)
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
    args = ("fetch", *options, f"--depth={HISTORY_DEPTH}", "--", remote.name, *commits)
    run_remote_git(directory, *args, env=remote.env, seconds=seconds)
    return repo


def fetch_tree(remote: Remote, directory: Path, seconds: float) -> Repository:
    """Fetch the newest commit of the default branch into a new bare repository at `directory`.

    The content of files is left out where the server can do so.

    Raises:
        EngineError: remote-failed.
    """
    depth = ("--depth=1", "--single-branch", "--no-tags", "--filter=blob:none")
    args = ("clone", "--quiet", "--bare", *depth, "--template=", "--", remote.name, str(directory))
    run_remote_git(directory.parent, *args, env=remote.env, seconds=seconds)
    return find_repository(directory, is_named=True)


def fetch_files(repo: Repository, remote: Remote, oids: Iterable[str], seconds: float) -> None:
    """Fetch the content of files into a repository that `fetch_tree` cloned, in one request.

    Args:
        repo: the repository, in which git knows the remote as `origin`.
        remote: the same remote, with the credentials.
        oids: the object ids of the files.
        seconds: the time limit of the command.

    Raises:
        EngineError: remote-failed.
    """
    lines = "".join(f"{oid}\n" for oid in sorted(set(oids))).encode()
    if not lines:
        return
    # A server that learns of our commit assumes that we have the content of its files.
    no_negotiation = ("-c", "fetch.negotiationAlgorithm=noop")
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin")
    args = (*no_negotiation, "fetch", *options, "--", "origin")
    run_remote_git(repo.cwd, *args, input=lines, env=remote.env, seconds=seconds)
