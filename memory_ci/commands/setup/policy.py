"""`memory-ci init --policy`: copies an organisation's policy from git, and pins it by its digest.

A policy limits the values in the configuration of a repository.
"""

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
from memory_ci.regex import Regex
from memory_ci.secrets import mask_secrets
from memory_ci.store.files import write_file

SOURCE_FILE = "memory-ci-policy.yaml"
"""The file of the policy in its own repository, at the root."""

EXTENDS_LINE = Regex(r"(?m)^extends:.*\n?")  # `extends: https://…/policy@v1 sha256:…`


class PinnedPolicy(msgspec.Struct, frozen=True):
    """A policy as its source has it now.

    Attributes:
        extends: the value of the configuration's `extends` that pins the policy.
        policy: the policy.
        is_new: the configuration pins another policy.
    """

    extends: str
    policy: Policy
    is_new: bool


def pin_policy(
    start: Path, source: str | None, environ: Mapping[str, str], *, write: bool
) -> PinnedPolicy:
    """Fetch a policy, store it in the work tree, and name it with its digest in the configuration.

    Args:
        start: a directory of the repository.
        source: SOURCE@REV, a git repository and a revision; None for the policy that is pinned.
        environ: the environment, for credentials.
        write: pin the policy; otherwise it is only fetched.

    Raises:
        UsageError: bad-policy-source, bad-config.
        RepositoryError: bare-repository, policy-missing, write-failed.
        EngineError: remote-failed.
    """
    repo = find_repository(start)
    if repo.root is None:
        message = "a bare repository has no configuration to edit"
        raise RepositoryError(message, slug="bare-repository")
    config_path = repo.root / CONFIG_FILE
    config_text = config_path.read_text("utf-8") if config_path.is_file() else ""
    old_extends = parse_config(config_text).extends
    pinned_source, _, _ = old_extends.partition(" ")  # without the digest
    address, revision = _parse_source(source or pinned_source)

    data = _fetch_policy(repo.root, address, revision, environ)
    policy_name = f"{address}@{revision}:{SOURCE_FILE}"
    policy = parse_policy(data.decode("utf-8", "replace"), policy_name)
    extends = f"{address}@{revision} sha256:{hashlib.sha256(data).hexdigest()}"

    if write:
        write_file(repo.root / POLICY_FILE, data, repo.root)
        write_file(config_path, _with_extends(config_text, extends).encode(), repo.root)
    return PinnedPolicy(extends, policy, is_new=extends != old_extends)


def _parse_source(source: str) -> tuple[str, str]:
    """Return the address and the revision of SOURCE@REV.

    Raises:
        UsageError: bad-policy-source.
    """
    address, _, revision = source.rpartition("@")
    is_complete = bool(address and revision)
    is_unsafe = address.startswith("-") or re.search(r"\s", address + revision) is not None
    if not is_complete or is_unsafe:
        message = "a policy is named as SOURCE@REV, a git repository and a revision"
        hint = "For example: memory-ci init --policy https://github.com/acme/policy@v1"
        raise UsageError(message, slug="bad-policy-source", hint=hint)
    if mask_secrets(address) != address:
        message = "the address holds a credential"
        hint = "Use git's credential helper."
        raise UsageError(message, slug="bad-policy-source", hint=hint)
    return address, revision


def _fetch_policy(root: Path, address: str, revision: str, environ: Mapping[str, str]) -> bytes:
    """Return the file of a policy from a git address, or from a directory relative to the root.

    Raises:
        RepositoryError: policy-missing.
        EngineError: remote-failed.
    """
    directory = root / address
    url = str(directory.resolve()) if _is_directory(directory) else address
    with tempfile.TemporaryDirectory() as scratch:
        data = read_remote_file(Path(scratch), connect(url, environ), revision, SOURCE_FILE)
    if data is None:
        message = f"{url} has no {SOURCE_FILE} at {revision}"
        hint = "Commit one there: `memory-ci help platform` says what it may hold."
        raise RepositoryError(message, slug="policy-missing", hint=hint)
    return data


def _is_directory(path: Path) -> bool:
    """Return whether a path is a directory; an address can be too long for a file name."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _with_extends(config_text: str, extends: str) -> str:
    """Return the text of a configuration with the key `extends` set to a pinned policy."""
    line = f"extends: {extends}\n"
    match = EXTENDS_LINE.search(config_text)
    if match is None:
        return line + config_text
    return config_text[: match.start()] + line + config_text[match.end() :]
