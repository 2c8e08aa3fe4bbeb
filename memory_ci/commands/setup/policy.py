"""The central policy that a repository extends: fetched from git, pinned by its digest, kept in the repository."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from memory_ci.config import CONFIG_FILE, POLICY_FILE, parse_config, parse_policy
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.network import connect, read_remote_file
from memory_ci.gitrepo.repo import find_repository
from memory_ci.records.config import Policy
from memory_ci.secrets import mask_secrets
from memory_ci.store.files import write_file

SOURCE_FILE = "memory-ci-policy.yaml"  # where the repository of a policy keeps it, at its root
EXTENDS = re.compile(r"(?m)^extends:.*\n?")


class PinnedPolicy(msgspec.Struct, frozen=True):
    """A policy as its source has it now: `extends` is the line that pins it, `is_new` whether another one is pinned."""

    extends: str
    policy: Policy
    is_new: bool


def is_directory(path: Path) -> bool:
    """Whether there is a directory; an address can be too long for the name of a file."""
    try:
        return path.is_dir()
    except OSError:
        return False


def pin_policy(
    start: Path, source: str | None, environ: Mapping[str, str], *, write: bool
) -> PinnedPolicy:
    """Fetch the policy at SOURCE@REV (None: what is extended now) and, with `write`, pin it in the work tree.

    Raises UsageError (bad-policy-source, bad-config), RepositoryError (bare-repository, policy-missing, write-failed),
    EngineError (remote-failed).
    """
    repo = find_repository(start)
    if repo.root is None:
        raise RepositoryError(
            "a bare repository has no configuration to edit", slug="bare-repository"
        )
    path = repo.root / CONFIG_FILE
    text = path.read_text("utf-8") if path.is_file() else ""
    pinned = parse_config(text).extends
    address, _, rev = (source or pinned.partition(" ")[0]).rpartition("@")
    if not (address and rev) or re.search(r"\s", address + rev) or address.startswith("-"):
        hint = "For example: memory-ci policy https://github.com/acme/policy@v1"
        message = "a policy is named as SOURCE@REV, a git repository and a revision"
        raise UsageError(message, slug="bad-policy-source", hint=hint)
    if mask_secrets(address) != address:
        raise UsageError(
            "the address holds a credential",
            slug="bad-policy-source",
            hint="Use git's credential helper.",
        )
    here = repo.root / address
    place = str(here.resolve()) if is_directory(here) else address
    with tempfile.TemporaryDirectory() as scratch:
        data = read_remote_file(Path(scratch), connect(place, environ), rev, SOURCE_FILE)
    if data is None:
        hint = "Commit one there: `memory-ci help configuration` says what it may hold."
        raise RepositoryError(
            f"{place} has no {SOURCE_FILE} at {rev}", slug="policy-missing", hint=hint
        )
    policy = parse_policy(data.decode("utf-8", "replace"), f"{address}@{rev}:{SOURCE_FILE}")
    extends = f"{address}@{rev} sha256:{hashlib.sha256(data).hexdigest()}"
    if write:
        line = f"extends: {extends}\n"
        edited = EXTENDS.sub(lambda _: line, text, count=1) if EXTENDS.search(text) else line + text
        write_file(repo.root / POLICY_FILE, data, repo.root)
        write_file(path, edited.encode(), repo.root)
    return PinnedPolicy(extends, policy, extends != pinned)
