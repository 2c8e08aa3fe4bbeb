"""Where a command works: the repository, its configuration, the branch, and a view of its memory files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE, POLICY_FILE, narrow, parse_config
from memory_ci.errors import RepositoryError, UnreadableMemoryError, UsageError
from memory_ci.gitrepo.blobs import TreeFile, list_staged, list_worktree, read_files, tree_at
from memory_ci.gitrepo.process import MISSING_HINT
from memory_ci.gitrepo.repo import (
    JOURNAL,
    Repository,
    find_commit,
    find_repository,
    head_branch,
    resolve_commit,
)
from memory_ci.records.config import Config
from memory_ci.records.entry import PROJECT, Located
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.layout import (
    EPISODES,
    LEGACY_TEAM,
    classify_scope,
    is_fragment,
    memory_pathspecs,
)

if TYPE_CHECKING:
    from memory_ci.store.document import MemoryFile

MAX_FILE_BYTES = 20 * 1024 * 1024
"""A memory file over this size is not read: it is a finding, and everything else is served."""

STAGED = (
    ":staged"  # The view of what the next commit would hold; no revision can be spelt like this.
)

PRIVATE = "refs/memory-ci/publish/"
"""Where `flows.publish.publish` keeps the tip of a remote while it works on it; no branch of the user's."""


class Workspace(msgspec.Struct, frozen=True):
    """A repository and the configuration in force. `findings` are what in that is not known here, and files that do not
    hold what a run wrote that was cut short."""

    repo: Repository
    config: Config
    findings: tuple[Finding, ...] = ()

    def at(self, rev: str) -> Snapshot:
        """The commit that a revision names. Raises RepositoryError (unknown-revision)."""
        return Snapshot(self, resolve_commit(self.repo, rev))


def index_path(workspace: Workspace) -> Path:
    """The index of a repository, shared by its work trees and never in one."""
    return workspace.repo.common_dir / "memory-ci" / "index.db"


class LoadedMemory(msgspec.Struct, frozen=True):
    """What one view of a repository remembers: every memory file, read."""

    files: tuple[LoadedFile, ...]

    @property
    def located(self) -> tuple[Located, ...]:
        return tuple(place for file in self.files for place in file.entries)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for file in self.files for finding in file.findings)


class Snapshot:
    """A commit as a configuration reads it. Each part is read when it is first asked for, and once."""

    def __init__(self, workspace: Workspace, sha: str) -> None:
        self.workspace, self.sha = workspace, sha
        self.tree = tree_at(workspace.repo, sha)

    @cached_property
    def memory(self) -> LoadedMemory:
        """All memory of the commit."""
        return load_memory(self.workspace, self.sha)

    @cached_property
    def places(self) -> Mapping[str, Located]:
        """The entries by their ids; of several places the last."""
        return {place.entry.id: place for place in self.memory.located}

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The content of `paths`; one that is not there is left out. Raises UnreadableMemoryError (file-unreadable):
        what cannot be read must not be rewritten."""
        found: dict[str, bytes] = {}
        for content in self.tree.read(set(paths), MAX_FILE_BYTES):
            if content.data is None:
                message = f"{content.file.path} {content.problem}"
                hint = f"Nothing was written. {MISSING_HINT if 'missing' in content.problem else ''}".rstrip()
                raise UnreadableMemoryError(message, slug="file-unreadable", hint=hint)
            found[content.file.path] = content.data
        return found


def open_workspace(start: Path, *, is_named: bool = False) -> Workspace:
    """The repository around `start` with the configuration of its work tree; of HEAD where there is none. Raises
    RepositoryError (not-a-repository, unnamed-repository) or UsageError (bad-config). `is_named`: `start` may be a bare
    repository, for somebody named it."""
    return configure(open_committed(start, is_named=is_named))


def configure(where: Workspace) -> Workspace:
    """Return a workspace with the configuration of its work tree; of HEAD where there is none.

    Raises:
        UsageError: bad-config.
    """
    here = workspace_here(where.repo)
    return replace(here, findings=(*where.findings, *here.findings))


def open_committed(start: Path, *, is_named: bool = False) -> Workspace:
    """The repository around `start`, for a flow that reads the configuration from the commit it works on. What a killed
    run has written and not committed is taken back first."""
    return undo_killed_run(find_repository(start, is_named=is_named))


def undo_killed_run(repo: Repository) -> Workspace:
    """Return a repository without its configuration; what a killed run has written is taken back first."""
    if not (repo.common_dir / JOURNAL).exists():
        return Workspace(repo, Config())
    from memory_ci.gitrepo.journal import undo_move  # seldom needed, and hooks come this way

    return Workspace(repo, Config(), tuple(map(_warn_of_changed, undo_move(repo))))


def _warn_of_changed(path: Path) -> Finding:
    """Return the warning for a file that a killed run wrote and that was changed since."""
    message = "a run was killed after it wrote this file, and it was changed since: left alone"
    hint = "Keep of `git diff HEAD` what is yours, and take the rest out: the next run writes it again."
    return Finding(str(path), 1, "interrupted-run", message, hint, "warning")


def workspace_here(repo: Repository) -> Workspace:
    """The repository with the configuration of its work tree; of HEAD where there is none. Raises UsageError."""
    root = repo.root
    if root is None:
        return workspace_at(repo, "HEAD")

    def read(path: str) -> bytes | None:
        try:
            return (root / path).read_bytes()
        except FileNotFoundError:
            return None

    return _configured(repo, read)


def workspace_at(repo: Repository, rev: str) -> Workspace:
    """The repository with the configuration that a revision holds; the defaults where it holds none."""
    sha = find_commit(repo, rev)
    return _configured(repo, partial(_read_at, repo, sha)) if sha else Workspace(repo, Config())


def read_config_at(repo: Repository, sha: str) -> Config:
    """Return the configuration of a commit before a policy narrows it. Raises UsageError (bad-config)."""
    return _parse_config(partial(_read_at, repo, sha), [])


def narrow_at(repo: Repository, sha: str, config: Config) -> Config:
    """Return a configuration as the policy of a commit, and the environment, allow it. Raises as `config.narrow`."""
    return _narrow(config, partial(_read_at, repo, sha))


def _read_at(repo: Repository, sha: str, path: str) -> bytes | None:
    contents = tree_at(repo, sha).read([path], MAX_FILE_BYTES)
    return next((content.data for content in contents), None)


def _configured(repo: Repository, read: Callable[[str], bytes | None]) -> Workspace:
    found: list[Finding] = []
    config = _parse_config(read, found)
    return Workspace(repo, _narrow(config, read), tuple(found))


def _parse_config(read: Callable[[str], bytes | None], found: list[Finding]) -> Config:
    try:
        return parse_config((read(CONFIG_FILE) or b"").decode(), found=found)
    except (OSError, UnicodeDecodeError) as error:
        message = f"{CONFIG_FILE} cannot be read: {error}"
        raise UsageError(message, slug="bad-config", hint="Save it as UTF-8 text.") from error


def _narrow(config: Config, read: Callable[[str], bytes | None]) -> Config:
    required = os.environ.get("MEMORY_CI_POLICY", "")
    if required or config.extends or config.minimum_version or config.publish.allowed:
        return narrow(config, read(POLICY_FILE) if config.extends else None, required)
    return config


def list_memory_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """The memory files of a view: None for the work tree (HEAD in a bare repository), STAGED, or a revision."""
    files = list_view(workspace, view, memory_pathspecs(workspace.config.scopes))
    return tuple(file for file in files if holds_entries(workspace, file.path))


def list_indexed_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """The files of a view that the index covers, memory and episodes, as `list_memory_files` knows views."""
    files = list_view(
        workspace, view, (*memory_pathspecs(workspace.config.scopes), f"{EPISODES}/*.md")
    )
    return tuple(file for file in files if is_told(file) or holds_entries(workspace, file.path))


def is_told(file: TreeFile) -> bool:
    """Whether it is below the directory of episodes; which of those are episode files is asked when they are read."""
    return file.path.startswith(f"{EPISODES}/")


def list_view(
    workspace: Workspace, view: str | None, pathspecs: Sequence[str]
) -> tuple[TreeFile, ...]:
    """The files of a view that pathspecs mean."""
    repo = workspace.repo
    if view == STAGED:
        index_file = os.environ.get(
            "GIT_INDEX_FILE"
        )  # `commit -a` and `commit PATH` stage into another index
        return list_staged(repo, pathspecs, Path(repo.cwd, index_file) if index_file else None)
    if view is None and repo.root is not None:
        return list_worktree(repo, pathspecs)
    sha = resolve_commit(repo, view) if view else find_commit(repo, "HEAD")
    return tree_at(repo, sha).select(pathspecs) if sha else ()


def read_memory(
    workspace: Workspace, files: Iterable[TreeFile]
) -> Iterator[tuple[bytes, MemoryFile, LoadedFile]]:
    """Each file's bytes, parsed, and what they hold; one that cannot be read has a finding that says why."""
    # 15 ms of codec, which an unchanged index does not need
    from memory_ci.store.document import MemoryFile, locate_entries, parse_memory_file

    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is None:
            yield b"", MemoryFile(path, (), ()), _unreadable(path, content.problem)
        else:
            parsed = parse_memory_file(path, content.data)
            yield content.data, parsed, locate_entries(parsed, workspace.config.scopes)


def _unreadable(path: str, problem: str) -> LoadedFile:
    hint = (
        "Split it, or restore it from git."
        if "limit" in problem
        else "Check the file's permissions."
    )
    finding = Finding(path, 1, "file-unreadable", f"the file {problem}", hint)
    return LoadedFile(path=path, scope=PROJECT, findings=(finding,))


def readable_path(file: TreeFile) -> str:
    """The path of a file as text; bytes that are no UTF-8 become escapes, which no database or JSON refuses."""
    return file.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def load_files(
    workspace: Workspace, files: Iterable[TreeFile], known: Mapping[str, Collection[bytes]] = {}
) -> Iterator[LoadedFile]:
    """Each file as entries, prose and findings, but for the entries that are `known`: see `load_file`."""
    from memory_ci.store.document import (
        load_file,
    )  # 15 ms of codec, which an unchanged index does not need

    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is None:
            yield _unreadable(path, content.problem)
        else:
            yield load_file(path, content.data, workspace.config.scopes, known.get(path, ()))


def work_tree(workspace: Workspace) -> Path:
    """The top of the work tree, for what writes there. Raises RepositoryError (bare-repository)."""
    if workspace.repo.root is None:
        hint = "Run this in a clone that has a work tree."
        raise RepositoryError(
            "a bare repository has no work tree to write to", slug="bare-repository", hint=hint
        )
    return workspace.repo.root


def repository_path(workspace: Workspace, path: Path) -> str:
    """A path relative to the root, symbolic links resolved; a path outside of the repository stays as it was given."""
    root = workspace.repo.cwd.resolve()
    real = path.resolve()
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else str(path)


def holds_entries(workspace: Workspace, path: str) -> bool:
    """Whether a file of memory is one of entries."""
    return is_fragment(path) or classify_scope(path, workspace.config.scopes) is not None


def memory_test(workspace: Workspace) -> Callable[[str], bool]:
    """Whether a path is memory: what a commit of `record` may touch, and nothing else. That is the exported file, too,
    where the configuration lets `record` keep it."""
    patterns, export = workspace.config.scopes, workspace.config.export
    kept = export.path if export.record else None
    return lambda path: (
        path == kept or path.startswith(".memory/") or classify_scope(path, patterns) is not None
    )


def load_memory(workspace: Workspace, view: str | None) -> LoadedMemory:
    """All memory of a view."""
    return LoadedMemory(tuple(load_files(workspace, list_memory_files(workspace, view))))


def branch_name(workspace: Workspace, wanted: str | None) -> str:
    """The full name of the branch to record on. Raises RepositoryError (detached-head)."""
    if wanted is not None:
        return (
            wanted
            if wanted.startswith(PRIVATE)
            else f"refs/heads/{wanted.removeprefix('refs/heads/')}"
        )
    ref = head_branch(workspace.repo)
    if ref is None:
        hint = "Put a branch on this commit: `git checkout -B main` (with its name)."
        raise RepositoryError(
            "HEAD is detached: no branch to record on", slug="detached-head", hint=hint
        )
    return ref


def branch_tip(
    workspace: Workspace, wanted: str | None, known: str | None = None
) -> tuple[str, str]:
    """The full name of the branch to record on, and the commit it is at, which may be `known`."""
    ref = branch_name(workspace, wanted)
    base = known or find_commit(workspace.repo, ref)
    if base is None:
        name = ref.removeprefix("refs/heads/")
        message = (
            f"the branch {name!r} has no commit"
            if wanted is None
            else f"there is no branch {name!r}"
        )
        raise RepositoryError(
            message, slug="unborn-branch", hint="Commit something first, or name another branch."
        )
    return ref, base


def select_files(workspace: Workspace, paths: Sequence[Path]) -> tuple[TreeFile, ...]:
    """The memory files of the work tree that may be written, or those named. Raises UsageError (not-a-memory-file)."""
    files = {
        readable_path(file): file
        for file in list_memory_files(workspace, None)
        if not LEGACY_TEAM.fullmatch(file.path)  # read only
    }
    wanted = [repository_path(workspace, path) for path in paths]
    for path in wanted:
        if path not in files:
            hint = "MEMORY.md, institutional.md and .memory/inbox/*.md are; `scopes:` in the configuration adds others."
            raise UsageError(
                f"{path} is no memory file that may be written", slug="not-a-memory-file", hint=hint
            )
    return tuple(files[path] for path in dict.fromkeys(wanted)) if paths else tuple(files.values())
