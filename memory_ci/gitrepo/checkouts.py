"""Check and update the work trees that have a branch checked out, when the branch moves.

Only the files that the move changes are read, written or refreshed there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import Tree, find_on_disk
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import Repository, Worktree, find_repository, list_worktrees

NO_HOOKS = (
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.splitIndex=false",
    "-c",
    "core.fsmonitor=false",
)
"""For every command that writes.

No hook of the user runs, and a temporary index leaves no shared one behind.
"""

IN_PROGRESS = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "BISECT_LOG",
)
"""Files of the git directory that exist while git is at a command of several steps."""

MAX_NAMED = 10  # Files that a message names.


class Staged(msgspec.Struct, frozen=True):
    """The mode and object id that an index or a tree has for a path.

    A missing file has mode "0" and an id of zeros, as `--index-info` writes a removal.
    """

    mode: str
    oid: str

    @property
    def is_absent(self) -> bool:
        """Whether there is no such file."""
        return self.mode == "0"


StagedFiles = Mapping[str, Staged]
"""The content of files in a commit by path, missing ones included."""


class DifferingFiles(msgspec.Struct, frozen=True):
    """The paths of files whose content is not the wanted one.

    Attributes:
        known_paths: files whose content in index and work tree is the same as in a known state.
        unknown_paths: the other files.
    """

    known_paths: list[str]
    unknown_paths: list[str]


def is_under_way(worktree: Repository) -> bool:
    """Return whether a merge, rebase, cherry-pick, revert or bisect is in progress.

    Commits that git makes meanwhile have work that was done before.
    """
    return bool(_list_in_progress(worktree))


def _list_in_progress(worktree: Repository) -> list[str]:
    return [name for name in IN_PROGRESS if (worktree.git_dir / name).exists()]


def find_checkouts(repo: Repository, ref: str | None = None) -> tuple[Repository, ...]:
    """Return the work trees that have `ref` checked out or are rebasing it; without `ref`, all.

    Raises:
        RepositoryError: repository-busy.
    """
    checkouts: list[Repository] = []
    for tree in list_worktrees(repo):
        if tree.is_bare or (ref is not None and tree.branch not in (ref, None)):
            continue
        worktree = _open_worktree(repo, tree.path)
        if worktree is None:
            continue
        if ref is None or _has_branch(tree, worktree, ref):
            _refuse_busy(worktree)
            checkouts.append(worktree)
    return tuple(checkouts)


def _has_branch(tree: Worktree, worktree: Repository, ref: str) -> bool:
    """Return whether a work tree has a branch checked out, or is rebasing it.

    Args:
        tree: the work tree as git lists it.
        worktree: the same work tree, opened.
        ref: the full name of the branch.
    """
    if tree.branch == ref:
        return True
    # During a rebase HEAD is detached, and the branch moves at the end.
    for state in ("rebase-merge", "rebase-apply"):
        name = worktree.git_dir / state / "head-name"
        if name.exists() and name.read_text().strip() == ref:
            return True
    return False


def refuse_local_changes(worktree: Repository, expected_files: StagedFiles) -> None:
    """Make sure that nobody changed some files in a work tree or its index.

    Args:
        worktree: the work tree.
        expected_files: the files as the commit has them that is checked out.

    Raises:
        RepositoryError: local-changes, which names the changed files.
    """
    changes = _list_changed(worktree, expected_files)
    changed_paths = sorted(changes.in_index | changes.on_disk)
    if changed_paths:
        names = _format_names(changed_paths)
        message = f"Local changes in {worktree.cwd} would be overwritten: {names}"
        hint = "Commit or stash these files, then run again."
        raise RepositoryError(message, slug="local-changes", hint=hint)


def find_differing_files(
    worktree: Repository, wanted_files: StagedFiles, *known_states: StagedFiles
) -> DifferingFiles:
    """Return the files of a work tree and its index that differ from `wanted_files`.

    Files with the content of a known state may be overwritten; a person changed the others.

    Args:
        worktree: the work tree.
        wanted_files: the content that the files should have.
        known_states: the files before and after a commit, for example.
    """
    unwanted = _list_changed(worktree, wanted_files)
    unknown_in_index = unwanted.in_index
    unknown_on_disk = unwanted.on_disk
    for state in known_states:
        changes = _list_changed(worktree, state)
        unknown_in_index &= changes.in_index
        unknown_on_disk &= changes.on_disk
    differing = unwanted.in_index | unwanted.on_disk
    unknown = unknown_in_index | unknown_on_disk
    return DifferingFiles(known_paths=sorted(differing - unknown), unknown_paths=sorted(unknown))


def read_staged_files(tree: Tree, paths: Iterable[str]) -> StagedFiles:
    """Return the mode and object id that a commit's tree has for each path.

    A path that the tree lacks gets mode "0" and an id of zeros, which stand for no file.
    """
    absent_file = Staged("0", "0" * len(tree.oid))
    staged: dict[str, Staged] = {}
    for path in sorted(paths):
        file = tree.files.get(path)
        staged[path] = Staged(tree.modes[path], file.oid) if file else absent_file
    return staged


def write_files(worktree: Repository, wanted_files: StagedFiles, journal_fd: int) -> None:
    """Make index and work tree have exactly `wanted_files` for these files, and change no others.

    Args:
        worktree: the work tree.
        wanted_files: the files to write; absent ones are removed.
        journal_fd: the file descriptor of the open journal (`journal.journaled`). The processes of
            git share it, so that the journal stays locked until the last of them has ended.

    Raises:
        RepositoryError: write-failed; some of the files may be written.
    """
    present_files = {path: staged for path, staged in wanted_files.items() if not staged.is_absent}
    absent_files = {path: staged for path, staged in wanted_files.items() if staged.is_absent}
    try:
        # New files come first: a person who commits half of it must not commit a removal without
        # the file that replaces it.
        if present_files:
            _stage_files(worktree, present_files, journal_fd)
            names = b"".join(encode_path(path) + b"\0" for path in present_files)
            args = (*NO_HOOKS, "checkout-index", "-f", "-u", "-z", "--stdin")
            run_git(worktree.cwd, *args, input=names, shared_files=(journal_fd,))
        for path in absent_files:
            _remove_file(worktree.cwd, path)
        if absent_files:
            _stage_files(worktree, absent_files, journal_fd)
    except (RepositoryError, OSError) as error:
        message = f"The files could not be written into {worktree.cwd}: {error}"
        hint = "Nothing was committed. Run again when the disk can be written."
        raise RepositoryError(message, slug="write-failed", hint=hint) from error


def _stage_files(worktree: Repository, files: StagedFiles, journal_fd: int) -> None:
    """Write modes and object ids of files into the index of a work tree."""
    args = (*NO_HOOKS, "update-index", "-z", "--index-info")
    run_git(worktree.cwd, *args, input=format_index_info(files), shared_files=(journal_fd,))


def format_index_info(files: StagedFiles) -> bytes:
    """Format input of `git update-index -z --index-info` that stages or removes files."""
    lines = [f"{staged.mode} {staged.oid}\t{path}\0" for path, staged in files.items()]
    return encode_path("".join(lines))


def _open_worktree(repo: Repository, path: Path) -> Repository | None:
    """Open the work tree of `repo` at `path`.

    None when it was removed by hand, also if another directory took its place.
    """
    if path == repo.root:
        return repo
    try:
        worktree = find_repository(path)
    except RepositoryError as error:
        if path.is_dir() and error.slug not in ("not-a-repository", "unnamed-repository"):
            raise
        return None
    # A new directory at its path belongs to the repository around it.
    is_same_directory = worktree.cwd.samefile(path)
    is_ours = is_same_directory and worktree.common_dir.samefile(repo.common_dir)
    return worktree if is_ours else None


def _refuse_busy(worktree: Repository) -> None:
    """Make sure that no git command is at work in a work tree.

    Raises:
        RepositoryError: repository-busy, for a locked index and for a merge or rebase in progress.
    """
    if (worktree.git_dir / "index.lock").exists():
        message = f"The index of {worktree.cwd} is locked"
        hint = "Wait for the other git command, then run again."
        raise RepositoryError(message, slug="repository-busy", hint=hint)
    names = _list_in_progress(worktree)
    if names:
        message = (
            "A merge, rebase, cherry-pick, revert or bisect is in progress "
            f"in {worktree.cwd} ({names[0]})"
        )
        hint = "Finish or abort it, then run again."
        raise RepositoryError(message, slug="repository-busy", hint=hint)


class _ChangedPaths(msgspec.Struct, frozen=True):
    """The paths of files that are not as expected.

    Attributes:
        in_index: paths whose entry in the index differs.
        on_disk: paths whose file in the work tree differs.
    """

    in_index: frozenset[str]
    on_disk: frozenset[str]


def _list_changed(worktree: Repository, expected: StagedFiles) -> _ChangedPaths:
    """Return which files of the index and of the work tree are not as expected.

    A file that a sparse checkout left out of the work tree is as expected.
    """
    index = _list_index(worktree, expected)
    expected_files = {path: file for path, file in expected.items() if not file.is_absent}
    in_index: set[str] = set()
    for path in expected:
        if index.entries.get(path) != expected_files.get(path):
            in_index.add(path)

    occupied = {path for path in expected if _is_occupied(worktree.cwd, path)}
    unexpected = occupied - expected_files.keys()
    not_checked_out = index.skipped - occupied
    modified = _list_modified(worktree, expected_files) - not_checked_out
    linked = {path for path in expected_files if _is_behind_link(worktree.cwd, path)}
    return _ChangedPaths(frozenset(in_index), frozenset(modified | unexpected | linked))


class _IndexEntries(msgspec.Struct, frozen=True):
    """Some entries of an index.

    Attributes:
        entries: the entries by path.
        skipped: the paths that a sparse checkout leaves out (the flag skip-worktree).
    """

    entries: dict[str, Staged]
    skipped: set[str]


def _list_index(worktree: Repository, paths: Collection[str]) -> _IndexEntries:
    """Return the entries of the index for the paths."""
    entries: dict[str, Staged] = {}
    skipped: set[str] = set()
    listing = decode_path(run_git(worktree.cwd, "ls-files", "-z", "-t", "-s"))
    for line in listing.split("\0")[:-1]:
        fields, _, path = line.partition("\t")
        if path in paths:
            tag, mode, oid, stage = fields.split(" ")
            is_unmerged = stage != "0"
            # The stage is no mode: an unmerged path must equal no file of a commit.
            entries[path] = Staged(stage if is_unmerged else mode, oid)
            if tag == "S":
                skipped.add(path)
    return _IndexEntries(entries, skipped)


def _list_modified(worktree: Repository, expected_files: StagedFiles) -> set[str]:
    """Return the paths of the files whose content in the work tree is not the expected one.

    Files that do not have the very bytes of the commit are compared by git, after its own filters,
    with a new index of these files alone. That index has no time stamps by which git would take a
    file for unchanged without reading it, and no flags (assume-unchanged) by which the user's index
    may hide a change.
    """
    unequal_files: dict[str, Staged] = {}
    for path, staged in expected_files.items():
        if not _has_same_bytes(worktree, path, staged):
            unequal_files[path] = staged
    if not unequal_files:
        return set()
    import tempfile  # Not at the top: it takes 2 ms, and commands that only read do without it.

    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
        update = (*NO_HOOKS, "update-index", "-z", "--index-info")
        run_git(worktree.cwd, *update, input=format_index_info(unequal_files), env=env)
        list_args = (*NO_HOOKS, "ls-files", "-z", "--modified", "--deleted")
        listing = run_git(worktree.cwd, *list_args, env=env)
    return set(decode_path(listing).split("\0")[:-1])


def _has_same_bytes(worktree: Repository, path: str, staged: Staged) -> bool:
    """Return whether a file of the work tree has the bytes and the mode that it has in a commit.

    Then nobody changed it, whatever filters would make of it.
    """
    file = find_on_disk(worktree.cwd, path, worktree.object_format)
    if file is None or file.oid != staged.oid:
        return False
    is_executable = os.access(worktree.cwd / path, os.X_OK)
    return is_executable == (staged.mode == "100755")


def _is_behind_link(root: Path, path: str) -> bool:
    """Return whether a directory of a path is a symbolic link, which a written file would replace.

    `git ls-files` follows such a link, and lists no change.
    """
    return any((root / parent).is_symlink() for parent in Path(path).parents[:-1])


def _is_occupied(root: Path, path: str) -> bool:
    """Return whether something takes the place of a file at a path.

    Something is at the path itself, or a file or a link is in the place of a directory above it.
    """
    if os.path.lexists(root / path):
        return True
    for parent in Path(path).parents[:-1]:
        directory = root / parent
        if os.path.lexists(directory) and not stat.S_ISDIR(os.lstat(directory).st_mode):
            return True
    return False


def _remove_file(root: Path, path: str) -> None:
    """Delete a file, and the directories around it that are empty then."""
    (root / path).unlink(missing_ok=True)
    for parent in Path(path).parents[:-1]:
        with suppress(OSError):  # A directory that is not empty stays, as when git removes a file.
            (root / parent).rmdir()


def _format_names(names: Sequence[str]) -> str:
    """Format a list of files for a message: the first MAX_NAMED, and how many more."""
    names_text = ", ".join(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        names_text += f" and {len(names) - MAX_NAMED} more"
    return names_text
