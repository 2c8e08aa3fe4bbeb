"""Whether strangers can read a remote: then captured sessions stay here, unless the configuration says otherwise.

In a job its variables or its event say so. Else git asks over the web as nobody: without credentials, helpers, or any
configuration of the user's. An answer holds for a day, and nobody is asked where a remote is a directory.
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
from memory_ci.gitrepo.network import is_readable_by_anybody
from memory_ci.gitrepo.process import run_git
from memory_ci.memory.workspace import Workspace
from memory_ci.store.files import write_file

Readers = Literal["anybody", "members", "unknown"]
HOLDS: Mapping[Readers, timedelta] = {
    "anybody": timedelta(days=1), "unknown": timedelta(hours=1), "members": timedelta(days=1)
}  # fmt: skip
"""How long an answer holds, in the order of what counts where a remote has several addresses."""

MAX_BYTES = 32 << 20


class KnownAudience(msgspec.Struct, frozen=True):
    """What was found of one remote, and when."""

    readers: Readers
    at: datetime


class Audience(NamedTuple):
    """Who can read a remote; `is_fresh`: it was asked just now."""

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
    """Who can read a remote, known by its name or address. Of several addresses the most public counts."""
    found = [
        _find(workspace, address, environ, now, may_ask)
        for address in list_addresses(workspace, remote)
    ]
    return min(found, key=lambda one: list(HOLDS).index(one.readers))


def list_addresses(workspace: Workspace, remote: str) -> list[str]:
    """Where a push to a remote goes."""
    with suppress(MemoryCIError):
        said = run_git(workspace.repo.cwd, "remote", "get-url", "--push", "--all", "--", remote)
        return said.decode("utf-8", "replace").splitlines() or [remote]
    return [remote]


def _find(
    workspace: Workspace, address: str, environ: Mapping[str, str], now: datetime, may_ask: bool
) -> Audience:
    if said := _say_of_job(address, environ):
        return Audience(said)
    web = find_web_address(address)
    if web == "":
        return Audience("members")  # a directory
    path = workspace.repo.common_dir / "memory-ci" / "remotes.json"
    key = hashlib.sha256(address.encode()).hexdigest()[:16]
    known: dict[str, KnownAudience] = {}
    with suppress(OSError, msgspec.DecodeError):
        known = msgspec.json.decode(path.read_bytes(), type=dict[str, KnownAudience])
    if key in known and now - HOLDS[known[key].readers] < known[key].at <= now:
        return Audience(known[key].readers)
    if not may_ask:
        return Audience("unknown")
    answer = None if web is None else is_readable_by_anybody(web)
    readers: Readers = "unknown" if answer is None else "anybody" if answer else "members"
    with suppress(MemoryCIError):
        write_file(path, msgspec.json.encode(known | {key: KnownAudience(readers, now)}))
    return Audience(readers, is_fresh=True)


def _say_of_job(address: str, environ: Mapping[str, str]) -> Readers | None:
    """What a job says of the repository that it is for."""
    if _is_of(address, environ.get("CI_PROJECT_PATH", "")):
        return "anybody" if environ.get("CI_PROJECT_VISIBILITY") == "public" else "members"
    if _is_of(address, environ.get("GITHUB_REPOSITORY", "")):
        with suppress(OSError, msgspec.DecodeError, TypeError, KeyError):
            event = msgspec.json.decode(read_regular(Path(environ["GITHUB_EVENT_PATH"]), MAX_BYTES))
            return "members" if event["repository"]["private"] is True else "anybody"
    return None


def _is_of(address: str, name: str) -> bool:
    place = address.removesuffix("/").removesuffix(".git").lower()
    return bool(name) and place.endswith((f"/{name.lower()}", f":{name.lower()}"))
