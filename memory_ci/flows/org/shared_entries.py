"""What a repository gives to the organisation: the entries of its memory at one commit that may be shown to others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE, parse_config
from memory_ci.errors import MemoryCIError
from memory_ci.extraction.gate import check_words
from memory_ci.flows.org.targets import OrgTarget
from memory_ci.flows.screening import find_unsafe
from memory_ci.flows.workspace import readable_path
from memory_ci.gitrepo.addresses import address_of
from memory_ci.gitrepo.blobs import Tree, TreeFile, tree_at
from memory_ci.gitrepo.network import Remote, connect
from memory_ci.gitrepo.remote_tree import fetch_files, fetch_tree, find_default_tip
from memory_ci.gitrepo.repo import Repository, find_repository, find_setting, resolve_commit
from memory_ci.records.config import Config, ScopePatterns
from memory_ci.records.entry import Located
from memory_ci.records.org import LONGEST, OrgHead, OrgRepository
from memory_ci.store.document import load_file
from memory_ci.store.layout import classify_scope, memory_pathspecs

MAX_BYTES, MAX_ENTRIES = 4_000_000, 5_000
"""Of one memory file, and of one repository: what is beyond is not shared, and counted."""

SHARED = frozenset({"project", "team", "institutional"})
"""What holds beyond one job and one machine."""


class OrgLook(msgspec.Struct, frozen=True):
    """What looking at a repository gave: its entries at `head`, None where they are known; or that it is gone, or why
    it failed. `gated` entries must not be shown to others, `cut` ones were too many or too long, or their file was."""

    target: OrgTarget
    head: str = ""
    entries: tuple[Located, ...] | None = None
    gated: int = 0
    cut: int = 0
    is_gone: bool = False
    problem: str = ""
    repository: OrgRepository | None = None


def look(
    target: OrgTarget,
    known: OrgHead | None,
    stamp: str,
    environ: Mapping[str, str],
    seconds: float,
    scratch: Path | None = None,
) -> OrgLook:
    """The repository as it is now. `known`: what the index holds of it already, as of `stamp`. `scratch` is where what
    is fetched may lie meanwhile. Raises nothing: one repository must not stop the others."""
    if target.is_gone or target.problem:
        return OrgLook(target, is_gone=target.is_gone, problem=target.problem)
    if known is not None and stamp and stamp == target.stamp:
        return OrgLook(target, known.head)
    try:
        if target.is_local and not Path(target.address).is_dir():
            return OrgLook(target, is_gone=True)
        remote = connect(target.address, environ)
        tip = find_default_tip(remote, seconds)
        if tip is None:
            problem = "its forge lists it, and git is told that there is none: may the token read it?"
            return OrgLook(target, problem=problem) if target.is_listed else OrgLook(target, is_gone=True)
        if known is not None and tip == known.head:
            return OrgLook(target, tip)
        if not tip:
            return OrgLook(target, tip, ())
        return _read_local(target, tip) if target.is_local else _read_remote(target, remote, seconds, scratch)
    except MemoryCIError as error:
        return OrgLook(target, problem=error.message)
    except Exception as error:  # noqa: BLE001 - named with its repository, whatever is in there
        return OrgLook(target, problem=f"{type(error).__name__}: {error}")


def _read_local(target: OrgTarget, tip: str) -> OrgLook:
    """A directory, by the name and address of the remote that it was cloned from."""
    repo, repository = find_repository(Path(target.address)), target.repository
    if find_setting(repo, "extensions.partialClone") is not None:  # git would fetch what it lacks, by its own settings
        return OrgLook(target, problem="is a partial clone: name its address instead of the directory")
    if address := address_of(find_setting(repo, "remote.origin.url") or ""):
        repository = replace(repository, name=address.partition("/")[2], link=f"https://{address}")
    return _read(target, repo, tip, repository)


def _read_remote(target: OrgTarget, remote: Remote, seconds: float, scratch: Path | None) -> OrgLook:
    with tempfile.TemporaryDirectory(prefix="memory-ci-org-", dir=scratch) as place:
        repo = fetch_tree(remote, Path(place) / "repository", seconds)
        tip = resolve_commit(repo, "HEAD")
        tree, usual = tree_at(repo, tip), ScopePatterns()
        fetch_files(repo, remote, (file.oid for file in _memory(tree, usual)), seconds)
        if (patterns := _patterns(tree)) != usual:
            fetch_files(repo, remote, (file.oid for file in _memory(tree, patterns)), seconds)
        return _read(target, repo, tip, target.repository)


def _memory(tree: Tree, patterns: ScopePatterns) -> Iterator[TreeFile]:
    """The configuration and the memory files of a tree."""
    for file in tree.select((*memory_pathspecs(patterns), CONFIG_FILE)):
        if file.path == CONFIG_FILE or classify_scope(file.path, patterns):
            yield file


def _patterns(tree: Tree) -> ScopePatterns:
    """Raises UsageError (bad-config)."""
    text = next((one.data or b"" for one in tree.read([CONFIG_FILE], MAX_BYTES)), b"")
    return (parse_config(text.decode("utf-8", "replace")) if text else Config()).scopes


def _read(target: OrgTarget, repo: Repository, tip: str, repository: OrgRepository) -> OrgLook:
    tree = tree_at(repo, tip)
    patterns = _patterns(tree)
    wanted = [file.path for file in _memory(tree, patterns) if file.path != CONFIG_FILE]
    kept: list[Located] = []
    gated = cut = 0
    for content in tree.read(wanted, MAX_BYTES):
        if content.data is None:
            cut += 1
            continue
        for place in load_file(readable_path(content.file), content.data, patterns).entries:
            if place.scope.name not in SHARED or place.entry.status == "retired":
                continue
            if not is_safe(place):
                gated += 1
            elif len(kept) < MAX_ENTRIES and len(place.entry.title) + len(place.entry.body) <= LONGEST:
                kept.append(place)
            else:
                cut += 1
    return OrgLook(target, tip, tuple(kept), gated, cut, repository=repository)


def is_safe(place: Located) -> bool:
    """Whether an entry may be shown to others: it passes the gate of what machines write, and the screening of what is
    served."""
    entry = place.entry
    return not (check_words(f"{entry.title}\n{entry.body}") or any(find_unsafe(place)))
