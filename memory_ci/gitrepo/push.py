"""Writing to a remote: fetch a tip, push with compare-and-swap, and tell a lost race from a refusal.

The token is an `http.extraHeader` in the environment of git (git-config(1), GIT_CONFIG_COUNT): it is in no argument, no
address and no file, and git sends it to the server that it is for and to no other.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from memory_ci.gitrepo.checkouts import NO_HOOKS
from memory_ci.gitrepo.environment import NO_PROGRAMS, config_variables
from memory_ci.gitrepo.network import ask_remote_git, remote_failure, run_remote_git
from memory_ci.gitrepo.repo import Repository
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten

HEADS = "refs/heads/"

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
NO_OPTIONS = "does not support push options"
"""A remote that cannot be told more than what to move (send-pack.c)."""

SAID_WIDTH = 300

DEEPER = ("--deepen=200", "--deepen=2000", "--unshallow")
"""How a shallow clone is made deeper, step by step."""


class Remote(msgspec.Struct, frozen=True):
    """A remote by name or address, and the variables with which git may use it."""

    name: str
    env: Mapping[str, str]


class Outcome(NamedTuple):
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
        (oid for oid, _, ref in (line.partition("\t") for line in answer.splitlines()) if ref == HEADS + branch), None
    )


def fetch_tip(repo: Repository, remote: Remote, branch: str, into: str) -> None:
    """Put the tip of a branch of the remote into the ref `into`, and touch no other. Raises EngineError."""
    spec = f"+{HEADS}{branch}:{into}"
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-auto-maintenance")
    run_remote_git(repo.cwd, *NO_HOOKS, "fetch", *quiet, "--", remote.name, spec, env=remote.env)


def deepen(repo: Repository, remote: Remote, branch: str, step: str) -> None:
    """Fetch more history of a shallow clone; `step` is one of DEEPER. Raises EngineError (remote-failed)."""
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", step)
    run_remote_git(repo.cwd, *NO_HOOKS, "fetch", *quiet, "--", remote.name, HEADS + branch, env=remote.env)


def push_tip(
    repo: Repository,
    remote: Remote,
    branch: str,
    new: str | None,
    expected: str | None,
    options: tuple[str, ...] = (),
) -> Outcome:
    """Move a branch of the remote from `expected` (None: it is not there) to `new` (None: it goes away), or not at all.

    `options` are push options (git-push(1)), left out for a remote that takes none. Raises EngineError (remote-failed)
    when the remote did not answer.
    """
    spec = f"{new or ''}:{HEADS}{branch}"
    lease = f"--force-with-lease={HEADS}{branch}:{expected or ''}"
    told = (f"--push-option={option}" for option in options)
    asked = ("push", "--no-verify", "--no-signed", "--no-follow-tags", *told, lease, "--", remote.name, spec)
    answer = ask_remote_git(repo.cwd, *NO_HOOKS, *asked, env=remote.env)
    if not answer.status:
        return Outcome("done")
    if options and NO_OPTIONS in answer.errors:
        return push_tip(repo, remote, branch, new, expected)
    outcome = classify_rejection(answer.errors)
    if outcome is None:
        raise remote_failure(asked, answer)
    return outcome


def classify_rejection(errors: str) -> Outcome | None:
    """What a failed push means by what git said of it; None when it says nothing of a rejection.

    >>> classify_rejection(" ! [rejected]  abc -> main (stale info)").state
    'moved'
    """
    said = shorten(
        mask_secrets("; ".join(line.strip() for line in errors.splitlines() if _is_reason(line))), SAID_WIDTH
    )
    if REFUSED.search(errors):
        return Outcome("refused", said)
    if MOVED.search(errors):
        return Outcome("moved", said)
    return Outcome("refused", said) if REJECTED in errors else None


def _is_reason(line: str) -> bool:
    """Whether a line says why, and is no advice, no progress, no address."""
    bare = line.strip()
    return bool(bare.removeprefix("remote:").strip()) and not bare.startswith(("hint:", "To ", "error: failed to push"))


def _header(
    environ: Mapping[str, str], names: tuple[str, ...], server: str, default: str, user: str
) -> list[tuple[str, str]]:
    """The setting that gives a server its token. The empty one takes back what an earlier step of the job has set."""
    token = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
    url = urlsplit(environ.get(server) or default)
    is_safe = url.scheme == "https" or (url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost"))
    if not token or not is_safe or not (token.isascii() and token.isprintable()):
        return []
    key = f"http.{url.scheme}://{url.netloc}/.extraheader"
    return [(key, ""), (key, f"Authorization: Basic {b64encode(f'{user}:{token}'.encode()).decode()}")]
