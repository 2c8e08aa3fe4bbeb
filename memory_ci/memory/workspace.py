"""The repository that a command works in, its configuration, and the memory files it reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE, POLICY_FILE, apply_policy, parse_config
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
from memory_ci.records.config import Config, ScopePatterns
from memory_ci.records.entry import PROJECT, Located
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.layout import (
    EPISODES,
    LEGACY_TEAM,
    classify_scope,
    is_fragment,
    memory_pathspecs,
)
from memory_ci.text import escape_undecoded

if TYPE_CHECKING:
    from memory_ci.store.document import MemoryFile

MAX_FILE_BYTES = 20 * 1024 * 1024
"""Bytes of a memory file; a larger one is a finding and is not read, the others are served."""

STAGED = ":staged"
"""The view of the files that the next commit would hold; no revision can be spelt like this."""

PRIVATE_REFS = "refs/memory-ci/publish/"
"""Refs under which `commands.publish.publish` keeps a remote's tip; none is a user's branch."""

ReadFile = Callable[[str], bytes | None]
"""A function from a path to the content of the file, or None if there is no such file."""


class Workspace(msgspec.Struct, frozen=True):
    """A repository and the configuration in force.

    Attributes:
        repo: the repository.
        config: the configuration.
        findings: unknown keys of the configuration, and files that a killed run left changed.
    """

    repo: Repository
    config: Config
    findings: tuple[Finding, ...] = ()

    def at(self, rev: str) -> Snapshot:
        """Return the snapshot of the commit that a revision names.

        Raises:
            RepositoryError: unknown-revision.
        """
        return Snapshot(self, resolve_commit(self.repo, rev))


def index_path(workspace: Workspace) -> Path:
    """Return the path of the index, which all work trees share and none contains."""
    return workspace.repo.common_dir / "memory-ci" / "index.db"


class LoadedMemory(msgspec.Struct, frozen=True):
    """The memory files of one view, parsed."""

    files: tuple[LoadedFile, ...]

    @property
    def located(self) -> tuple[Located, ...]:
        """The entries with their paths and lines."""
        return tuple(located for file in self.files for located in file.entries)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings on all files."""
        return tuple(finding for file in self.files for finding in file.findings)


class Snapshot:
    """A commit as a configuration reads it; each part is read once, when it is first used."""

    def __init__(self, workspace: Workspace, sha: str) -> None:
        self.workspace = workspace
        self.sha = sha
        self.tree = tree_at(workspace.repo, sha)

    @cached_property
    def memory(self) -> LoadedMemory:
        """All memory of the commit."""
        return load_memory(self.workspace, self.sha)

    @cached_property
    def entries_by_id(self) -> Mapping[str, Located]:
        """The entries by id; of several entries with one id, the last."""
        return {located.entry.id: located for located in self.memory.located}

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the content of files of the commit by path, without those that do not exist.

        Raises:
            UnreadableMemoryError: file-unreadable, because such a file must not be rewritten.
        """
        content_by_path: dict[str, bytes] = {}
        for content in self.tree.read(set(paths), MAX_FILE_BYTES):
            if content.data is None:
                hint = "Nothing was written."
                if "missing" in content.problem:
                    hint += f" {MISSING_HINT}"
                message = f"{content.file.path} {content.problem}"
                raise UnreadableMemoryError(message, slug="file-unreadable", hint=hint)
            content_by_path[content.file.path] = content.data
        return content_by_path


def open_workspace(start: Path, *, is_named: bool = False) -> Workspace:
    """Open the repository around a path with the configuration of its work tree.

    Without a work tree the configuration is that of HEAD.

    Args:
        start: a path in the repository.
        is_named: whether a person named `start`, so that it may be a bare repository.

    Raises:
        RepositoryError: not-a-repository, unnamed-repository.
        UsageError: bad-config.
    """
    return configure_workspace(open_unconfigured(start, is_named=is_named))


def configure_workspace(unconfigured: Workspace) -> Workspace:
    """Return a workspace with the configuration of its work tree, or of HEAD without a work tree.

    Raises:
        UsageError: bad-config.
    """
    configured = configure_from_work_tree(unconfigured.repo)
    return replace(configured, findings=(*unconfigured.findings, *configured.findings))


def open_unconfigured(start: Path, *, is_named: bool = False) -> Workspace:
    """Open the repository around a path with the default configuration, after some clean-up.

    This is for commands that read the configuration from the commit that they work on. Files that
    a killed run has written and not committed are restored first.

    Args:
        start: a path in the repository.
        is_named: whether a person named `start`, so that it may be a bare repository.
    """
    return undo_killed_run(find_repository(start, is_named=is_named))


def undo_killed_run(repo: Repository) -> Workspace:
    """Restore files that a killed run wrote and did not commit.

    Returns:
        The repository with the default configuration, and a warning for each file that could not be
        restored because somebody changed it since.
    """
    if not (repo.common_dir / JOURNAL).exists():
        return Workspace(repo, Config())
    from memory_ci.gitrepo.journal import undo_move  # seldom needed, and hooks come this way

    warnings = tuple(_report_changed_since(path) for path in undo_move(repo))
    return Workspace(repo, Config(), warnings)


def _report_changed_since(path: Path) -> Finding:
    """Return the warning for a file that a killed run wrote and that was changed since."""
    message = "a run was killed after it wrote this file, and it was changed since: left alone"
    hint = (
        "Keep of `git diff HEAD` what is yours, and take the rest out: "
        "the next run writes it again."
    )
    return Finding(str(path), 1, "interrupted-run", message, hint, "warning")


def configure_from_work_tree(repo: Repository) -> Workspace:
    """Return the repository with the configuration of its work tree, or else of HEAD.

    Raises:
        UsageError: bad-config.
    """
    if repo.root is None:
        return workspace_at(repo, "HEAD")
    return _configure_from(repo, partial(_read_work_tree, repo.root))


def _read_work_tree(root: Path, path: str) -> bytes | None:
    """Return the content of a file in the work tree, None if there is no such file."""
    try:
        return (root / path).read_bytes()
    except FileNotFoundError:
        return None


def workspace_at(repo: Repository, rev: str) -> Workspace:
    """Return the repository with the configuration of a revision; without one, the defaults."""
    sha = find_commit(repo, rev)
    if sha is None:
        return Workspace(repo, Config())
    return _configure_from(repo, partial(_read_commit, repo, sha))


def read_config_at(repo: Repository, sha: str) -> Config:
    """Return the configuration of a commit before a policy narrows it.

    Raises:
        UsageError: bad-config.
    """
    return _parse_config(partial(_read_commit, repo, sha), [])


def narrow_at(repo: Repository, sha: str, config: Config) -> Config:
    """Narrow a configuration by the policy of a commit and by the environment.

    It raises as `config.apply_policy` does.
    """
    return _narrow_by_policy(config, partial(_read_commit, repo, sha))


def _read_commit(repo: Repository, sha: str, path: str) -> bytes | None:
    """Return the content of a file in a commit, None if there is no such file."""
    for content in tree_at(repo, sha).read([path], MAX_FILE_BYTES):
        return content.data
    return None


def _configure_from(repo: Repository, read_file: ReadFile) -> Workspace:
    """Return the repository with the configuration in the files of a commit or of the work tree.

    If the configuration or the environment names a policy, the policy restricts it.

    Args:
        repo: the repository.
        read_file: reads a file of that tree; returns None if there is none.
    """
    findings: list[Finding] = []
    config = _parse_config(read_file, findings)
    return Workspace(repo, _narrow_by_policy(config, read_file), tuple(findings))


def _parse_config(read_file: ReadFile, findings: list[Finding]) -> Config:
    """Parse the configuration file.

    Args:
        read_file: reads a file of the tree that has the configuration.
        findings: gets the findings on unknown keys.

    Raises:
        UsageError: bad-config.
    """
    try:
        data = read_file(CONFIG_FILE) or b""
        return parse_config(data.decode(), warnings=findings)
    except (OSError, UnicodeDecodeError) as error:
        message = f"{CONFIG_FILE} cannot be read: {error}"
        raise UsageError(message, slug="bad-config", hint="Save it as UTF-8 text.") from error


def _narrow_by_policy(config: Config, read_file: ReadFile) -> Config:
    """Narrow a configuration by the policy that it or the environment names, if any.

    Args:
        config: the configuration.
        read_file: reads the policy from the tree that has the configuration.
    """
    required = os.environ.get("MEMORY_CI_POLICY", "")
    if required or config.extends or config.minimum_version or config.publish.allowed:
        policy = read_file(POLICY_FILE) if config.extends else None
        return apply_policy(config, policy, required)
    return config


def list_memory_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """Return the memory files of the work tree, of the index of git, or of a commit.

    Args:
        workspace: the repository.
        view: None for the work tree (HEAD in a bare repository), STAGED, or a revision.
    """
    files = list_view(workspace, view, memory_pathspecs(workspace.config.scopes))
    return tuple(file for file in files if holds_entries(workspace, file.path))


def list_indexed_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """Return the files that the search index covers: memory files and episode files.

    Args:
        workspace: the repository.
        view: None for the work tree (HEAD in a bare repository), STAGED, or a revision.
    """
    pathspecs = (*memory_pathspecs(workspace.config.scopes), f"{EPISODES}/*.md")
    indexed = []
    for file in list_view(workspace, view, pathspecs):
        if is_below_episodes(file) or holds_entries(workspace, file.path):
            indexed.append(file)
    return tuple(indexed)


def is_below_episodes(file: TreeFile) -> bool:
    """Return whether a file is below the directory of episodes; it may be no episode file."""
    return file.path.startswith(f"{EPISODES}/")


def list_view(
    workspace: Workspace, view: str | None, pathspecs: Sequence[str]
) -> tuple[TreeFile, ...]:
    """Return the files of the work tree, of the index of git, or of a commit.

    Args:
        workspace: the repository.
        view: None for the work tree (HEAD in a bare repository), STAGED, or a revision.
        pathspecs: patterns of git; only files that match any of them are returned.
    """
    repo = workspace.repo
    if view == STAGED:
        # `commit -a` and `commit PATH` stage into another index.
        index_file = os.environ.get("GIT_INDEX_FILE")
        return list_staged(repo, pathspecs, Path(repo.cwd, index_file) if index_file else None)
    if view is None and repo.root is not None:
        return list_worktree(repo, pathspecs)

    sha = resolve_commit(repo, view) if view else find_commit(repo, "HEAD")
    return tree_at(repo, sha).select(pathspecs) if sha else ()


class MemoryFileContent(msgspec.Struct, frozen=True):
    """A memory file as bytes, as parts of text, and as entries with findings."""

    data: bytes
    parsed: MemoryFile
    loaded: LoadedFile


def read_memory_files(
    workspace: Workspace, files: Iterable[TreeFile]
) -> Iterator[MemoryFileContent]:
    """Yield the content of each memory file: its bytes, its parts of text, and its entries.

    A file that cannot be read has a finding with the reason.
    """
    # Imported here because it takes 15 ms, and an unchanged index does not need it.
    from memory_ci.store.document import MemoryFile, parse_memory_file
    from memory_ci.store.memory_files import locate_entries

    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is None:
            parsed = MemoryFile(path, (), ())
            loaded = _report_unreadable(path, content.problem)
            yield MemoryFileContent(b"", parsed, loaded)
        else:
            parsed = parse_memory_file(path, content.data)
            loaded = locate_entries(parsed, workspace.config.scopes)
            yield MemoryFileContent(content.data, parsed, loaded)


def _report_unreadable(path: str, problem: str) -> LoadedFile:
    """Return a file that cannot be read: without entries, and with a finding that says why."""
    hint = "Check the file's permissions."
    if "limit" in problem:
        hint = "Split it, or restore it from git."
    finding = Finding(path, 1, "file-unreadable", f"the file {problem}", hint)
    return LoadedFile(path=path, scope=PROJECT, findings=(finding,))


def readable_path(file: TreeFile) -> str:
    """Return the path of a file as text that databases and JSON accept.

    Bytes that are not UTF-8 become escapes.
    """
    return escape_undecoded(file.path)


def load_files(
    workspace: Workspace,
    files: Iterable[TreeFile],
    known_hashes: Mapping[str, Collection[bytes]] = {},
) -> Iterator[LoadedFile]:
    """Yield the entries, prose and findings of each memory file.

    Args:
        workspace: the repository.
        files: the files.
        known_hashes: by path the hashes of entries that an index has already.
    """
    # Imported here because it takes 15 ms, and an unchanged index does not need it.
    from memory_ci.store.memory_files import load_file

    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is None:
            yield _report_unreadable(path, content.problem)
        else:
            yield load_file(path, content.data, workspace.config.scopes, known_hashes.get(path, ()))


def work_tree(workspace: Workspace) -> Path:
    """Return the top of the work tree, to write there.

    Raises:
        RepositoryError: bare-repository.
    """
    root = workspace.repo.root
    if root is None:
        raise RepositoryError(
            "a bare repository has no work tree to write to",
            slug="bare-repository",
            hint="Run this in a clone that has a work tree.",
        )
    return root


def repository_path(workspace: Workspace, path: Path) -> str:
    """Return a path relative to the top of the repository, with symbolic links resolved.

    A path outside of the repository is returned unchanged.
    """
    root = workspace.repo.cwd.resolve()
    real_path = path.resolve()
    if not real_path.is_relative_to(root):
        return str(path)
    return real_path.relative_to(root).as_posix()


def holds_entries(workspace: Workspace, path: str) -> bool:
    """Return whether a path is that of a memory file with entries."""
    return is_fragment(path) or classify_scope(path, workspace.config.scopes) is not None


def build_memory_test(workspace: Workspace) -> Callable[[str], bool]:
    """Return a function that says of a path whether it is one of memory.

    The exported file counts if the configuration lets `record` update it.
    """
    export = workspace.config.export
    exported_path = export.path if export.record else None
    return partial(_is_memory_path, workspace.config.scopes, exported_path)


def _is_memory_path(scopes: ScopePatterns, exported_path: str | None, path: str) -> bool:
    """Return whether a path is one of memory, or the exported file."""
    if path == exported_path or path.startswith(".memory/"):
        return True
    return classify_scope(path, scopes) is not None


def load_memory(workspace: Workspace, view: str | None) -> LoadedMemory:
    """Read all memory of a view."""
    return LoadedMemory(tuple(load_files(workspace, list_memory_files(workspace, view))))


def find_branch_ref(workspace: Workspace, branch: str | None) -> str:
    """Return the full ref name of a branch: `refs/heads/main`.

    A ref below PRIVATE_REFS, under which a run keeps the branch of a remote, is returned as it is.

    Args:
        workspace: the repository.
        branch: a short or full name; None for the branch of HEAD.

    Raises:
        RepositoryError: detached-head.
    """
    if branch is not None:
        if branch.startswith(PRIVATE_REFS):
            return branch
        return f"refs/heads/{branch.removeprefix('refs/heads/')}"

    ref = head_branch(workspace.repo)
    if ref is None:
        raise RepositoryError(
            "HEAD is detached: no branch to record on",
            slug="detached-head",
            hint="Put a branch on this commit: `git checkout -B main` (with its name).",
        )
    return ref


def find_branch_tip(
    workspace: Workspace, branch: str | None, known_tip: str | None = None
) -> tuple[str, str]:
    """Return the full name of the branch to record on, and its commit.

    Args:
        workspace: the repository.
        branch: a short or full name; None for the branch of HEAD.
        known_tip: the commit, if the caller has looked it up already.

    Raises:
        RepositoryError: detached-head, unborn-branch.
    """
    ref = find_branch_ref(workspace, branch)
    tip = known_tip or find_commit(workspace.repo, ref)
    if tip is not None:
        return ref, tip

    name = ref.removeprefix("refs/heads/")
    message = f"there is no branch {name!r}"
    if branch is None:
        message = f"the branch {name!r} has no commit"
    raise RepositoryError(
        message, slug="unborn-branch", hint="Commit something first, or name another branch."
    )


def select_files(workspace: Workspace, paths: Sequence[Path]) -> tuple[TreeFile, ...]:
    """Return the memory files of the work tree that may be written.

    Args:
        workspace: the repository.
        paths: the files to select; none selects all of them.

    Raises:
        UsageError: not-a-memory-file.
    """
    writable_files = {}
    for file in list_memory_files(workspace, None):
        if not LEGACY_TEAM.fullmatch(file.path):  # read only
            writable_files[readable_path(file)] = file
    if not paths:
        return tuple(writable_files.values())

    selected = {}
    for path in paths:
        name = repository_path(workspace, path)
        if name not in writable_files:
            raise UsageError(
                f"{name} is no memory file that may be written",
                slug="not-a-memory-file",
                hint="MEMORY.md, institutional.md and .memory/inbox/*.md are; "
                "`scopes:` in the configuration adds others.",
            )
        selected[name] = writable_files[name]
    return tuple(selected.values())
