"""Find out whether strangers can read a remote; sessions are not pushed to such by default.

In a CI job, its variables or its event say so. Else git connects over the web without credentials,
helpers, or any configuration of the user. An answer is kept for a day, and no server is asked for a
remote that is a directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from memory_ci.errors import MemoryCIError
from memory_ci.files import read_regular
from memory_ci.gitrepo.addresses import find_web_address
from memory_ci.gitrepo.network import is_public
from memory_ci.gitrepo.process import run_git
from memory_ci.memory.workspace import Workspace
from memory_ci.store.files import write_file

Readers = Literal["anybody", "members", "unknown"]
MOST_PUBLIC_FIRST: tuple[Readers, ...] = ("anybody", "unknown", "members")
"""The readers of a remote; unknown ones are treated as more public than members."""
ANSWER_LIFETIMES: Mapping[Readers, timedelta] = {
    "anybody": timedelta(days=1), "unknown": timedelta(hours=1), "members": timedelta(days=1)
}  # fmt: skip
"""How long an answer of a server is used again."""

MAX_EVENT_BYTES = 32 << 20


class KnownAudience(msgspec.Struct, frozen=True):
    """A stored answer on one remote, and when it was found."""

    readers: Readers
    at: datetime


class Audience(NamedTuple):
    """The readers of a remote, and whether a server was asked for them just now."""

    readers: Readers
    was_server_asked: bool = False


def find_audience(
    workspace: Workspace,
    remote: str,
    environ: Mapping[str, str],
    now: datetime,
    *,
    may_ask: bool = True,
) -> Audience:
    """Return who can read a remote: anybody, members only, or unknown.

    If a push goes to several addresses, the most public one counts.

    Args:
        workspace: the workspace.
        remote: the name or address of the remote.
        environ: the environment, which names the repository of a job.
        now: the current time.
        may_ask: whether a server may be asked.
    """
    audiences = [
        _find_audience_of_address(workspace, address, environ, now, may_ask=may_ask)
        for address in list_addresses(workspace, remote)
    ]
    return min(audiences, key=lambda audience: MOST_PUBLIC_FIRST.index(audience.readers))


def list_addresses(workspace: Workspace, remote: str) -> list[str]:
    """Return the addresses that a push to a remote goes to."""
    with suppress(MemoryCIError):
        output = run_git(workspace.repo.cwd, "remote", "get-url", "--push", "--all", "--", remote)
        return output.decode("utf-8", "replace").splitlines() or [remote]
    return [remote]


def _find_audience_of_address(
    workspace: Workspace,
    address: str,
    environ: Mapping[str, str],
    now: datetime,
    *,
    may_ask: bool,
) -> Audience:
    """Return who can read one address: by the CI job, by a stored answer, or by asking the server.

    An answer of the server is stored. A directory is read by members, as who has no account on
    the machine cannot read it.
    """
    readers = _find_readers_of_job(address, environ)
    if readers:
        return Audience(readers)
    web_address = find_web_address(address)
    is_directory = web_address == ""  # None is an address that is not of the web
    if is_directory:
        return Audience("members")

    path = workspace.repo.common_dir / "memory-ci" / "remotes.json"
    key = hashlib.sha256(address.encode()).hexdigest()[:16]
    stored_answers: dict[str, KnownAudience] = {}
    with suppress(OSError, msgspec.DecodeError):
        stored_answers = msgspec.json.decode(path.read_bytes(), type=dict[str, KnownAudience])
    answer = stored_answers.get(key)
    if answer and now - ANSWER_LIFETIMES[answer.readers] < answer.at <= now:
        return Audience(answer.readers)
    if not may_ask:
        return Audience("unknown")

    readers = _find_readers_by_request(web_address)
    stored_answers[key] = KnownAudience(readers, now)
    with suppress(MemoryCIError):
        write_file(path, msgspec.json.encode(stored_answers))
    return Audience(readers, was_server_asked=True)


def _find_readers_by_request(web_address: str | None) -> Readers:
    """Return who can read a web address, by connecting to it as nobody."""
    answer = None if web_address is None else is_public(web_address)
    if answer is None:
        return "unknown"
    return "anybody" if answer else "members"


def _find_readers_of_job(address: str, environ: Mapping[str, str]) -> Readers | None:
    """Return who can read the repository of a CI job, None for the address of another one."""
    if _is_address_of(address, environ.get("CI_PROJECT_PATH", "")):
        return "anybody" if environ.get("CI_PROJECT_VISIBILITY") == "public" else "members"
    if _is_address_of(address, environ.get("GITHUB_REPOSITORY", "")):
        with suppress(OSError, msgspec.DecodeError, TypeError, KeyError):
            event = msgspec.json.decode(
                read_regular(Path(environ["GITHUB_EVENT_PATH"]), MAX_EVENT_BYTES)
            )
            return "members" if event["repository"]["private"] is True else "anybody"
    return None


def _is_address_of(address: str, name: str) -> bool:
    """Return whether an address ends with the full name of a repository."""
    path = address.removesuffix("/").removesuffix(".git").lower()
    return bool(name) and path.endswith((f"/{name.lower()}", f":{name.lower()}"))
