"""Readers of a remote: where strangers can read it, captured sessions are not pushed by default.

In a job its variables or its event name the readers. Else git connects over the web as nobody:
without credentials, helpers, or any configuration of the user's. An answer holds for a day, and no
server is asked for a remote that is a directory.
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
HOLDS: Mapping[Readers, timedelta] = {
    "anybody": timedelta(days=1), "unknown": timedelta(hours=1), "members": timedelta(days=1)
}  # fmt: skip
"""How long an answer holds; of several addresses of a remote, the first answer here counts."""

MAX_BYTES = 32 << 20


class KnownAudience(msgspec.Struct, frozen=True):
    """A stored answer on one remote, and when it was found."""

    readers: Readers
    at: datetime


class Audience(NamedTuple):
    """The readers of a remote, and whether a server was asked just now."""

    readers: Readers
    is_fresh: bool = False


def find_audience(
    workspace: Workspace,
    remote: str,
    environ: Mapping[str, str],
    now: datetime,
    *,
    may_ask: bool = True,
) -> Audience:
    """Return who can read a remote; of several addresses the most public counts.

    Args:
        workspace: the workspace.
        remote: the name or address of the remote.
        environ: the environment, which names the repository of a job.
        now: the current time.
        may_ask: whether a server may be asked.
    """
    audiences = [
        _find(workspace, address, environ, now, may_ask=may_ask)
        for address in list_addresses(workspace, remote)
    ]
    order = list(HOLDS)
    return min(audiences, key=lambda audience: order.index(audience.readers))


def list_addresses(workspace: Workspace, remote: str) -> list[str]:
    """Return the addresses that a push to a remote goes to."""
    with suppress(MemoryCIError):
        output = run_git(workspace.repo.cwd, "remote", "get-url", "--push", "--all", "--", remote)
        return output.decode("utf-8", "replace").splitlines() or [remote]
    return [remote]


def _find(
    workspace: Workspace,
    address: str,
    environ: Mapping[str, str],
    now: datetime,
    *,
    may_ask: bool,
) -> Audience:
    """Return who can read one address: by the job, by a stored answer, or by asking."""
    readers = _find_readers_of_job(address, environ)
    if readers:
        return Audience(readers)
    web_address = find_web_address(address)
    if web_address == "":
        return Audience("members")  # a directory

    path = workspace.repo.common_dir / "memory-ci" / "remotes.json"
    key = hashlib.sha256(address.encode()).hexdigest()[:16]
    stored: dict[str, KnownAudience] = {}
    with suppress(OSError, msgspec.DecodeError):
        stored = msgspec.json.decode(path.read_bytes(), type=dict[str, KnownAudience])
    if key in stored and now - HOLDS[stored[key].readers] < stored[key].at <= now:
        return Audience(stored[key].readers)
    if not may_ask:
        return Audience("unknown")

    readers = _ask(web_address)
    with suppress(MemoryCIError):
        write_file(path, msgspec.json.encode(stored | {key: KnownAudience(readers, now)}))
    return Audience(readers, is_fresh=True)


def _ask(web_address: str | None) -> Readers:
    """Return who can read a web address, by connecting to it as nobody."""
    answer = None if web_address is None else is_public(web_address)
    if answer is None:
        return "unknown"
    return "anybody" if answer else "members"


def _find_readers_of_job(address: str, environ: Mapping[str, str]) -> Readers | None:
    """Return who can read the repository of a job, None if the address is not that repository."""
    if _is_address_of(address, environ.get("CI_PROJECT_PATH", "")):
        return "anybody" if environ.get("CI_PROJECT_VISIBILITY") == "public" else "members"
    if _is_address_of(address, environ.get("GITHUB_REPOSITORY", "")):
        with suppress(OSError, msgspec.DecodeError, TypeError, KeyError):
            event = msgspec.json.decode(read_regular(Path(environ["GITHUB_EVENT_PATH"]), MAX_BYTES))
            return "members" if event["repository"]["private"] is True else "anybody"
    return None


def _is_address_of(address: str, name: str) -> bool:
    """Return whether an address ends with the full name of a repository."""
    path = address.removesuffix("/").removesuffix(".git").lower()
    return bool(name) and path.endswith((f"/{name.lower()}", f":{name.lower()}"))
