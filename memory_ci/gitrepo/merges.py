"""Merge texts and branches, find the merge that contains a commit, and update branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.checkouts import NO_HOOKS, find_checkouts
from memory_ci.gitrepo.process import (
    NO_PROGRAMS,
    config_variables,
    decode_path,
    network_variables,
    run_git,
)
from memory_ci.gitrepo.repo import (
    Repository,
    find_commit,
    find_repository,
    find_setting,
    is_ancestor,
    list_filter_overrides,
)
from memory_ci.records.names import HEADS

MARKER = b"<<<<<<< "


class ContainingMerge(NamedTuple):
    """A merge on the first parents of a branch, and the commits that it merged, without merges."""

    merge: str
    merged_commits: tuple[str, ...]


def find_containing_merge(repo: Repository, sha: str, tip: str) -> ContainingMerge | None:
    """Return the merge on the first-parent line of `tip` that merged a commit.

    None if the commit is on that line itself, or not in the history.

    Args:
        repo: the repository.
        sha: the id of the commit, or the beginning of it.
        tip: the newest commit.
    """
    merge = find_first_parent_commit(repo, sha, tip)
    if merge is None or find_commit(repo, f"{merge}^2") is None:
        return None
    listing = run_git(repo.cwd, "rev-list", "--no-merges", f"{merge}^1..{merge}", "--")
    merged_commits = tuple(listing.decode().split())
    return (
        ContainingMerge(merge, merged_commits) if find_commit(repo, sha) in merged_commits else None
    )


def find_first_parent_commit(repo: Repository, sha: str, tip: str) -> str | None:
    """Return the oldest commit on the first-parent line of `tip` that contains a commit.

    That is the merge that merged it, or the commit itself if it is on the line. None if the commit
    is not in the history.

    Args:
        repo: the repository.
        sha: the id of the commit, or the beginning of it.
        tip: the newest commit.
    """
    commit = find_commit(repo, sha)
    if commit is None or not is_ancestor(repo, commit, tip):
        return None
    args = ("--first-parent", "--ancestry-path", "--reverse", f"{commit}..{tip}", "--")
    descendants = run_git(repo.cwd, "rev-list", *args).decode().split()
    if not descendants:
        return commit
    oldest = descendants[0]
    is_on_line = find_commit(repo, f"{oldest}^1") == commit
    return commit if is_on_line else oldest


def merge_text(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int]:
    """Merge three versions of a text as git does, line by line.

    Args:
        base: the common ancestor.
        ours: one version.
        theirs: the other version.

    Returns:
        The merged text, with conflict markers, and the number of conflicts. Where git cannot merge
        because a version is not text: `ours`, and 1.
    """
    import tempfile  # Not at the top: it takes 2 ms, and commands that only read do without it.

    versions = {"ours": ours, "base": base, "theirs": theirs}
    labels: list[str] = []
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        for name, data in versions.items():
            Path(scratch, name).write_bytes(data)
            labels += ["-L", name]
        args = ("merge-file", "-p", *labels, *versions)
        try:
            return run_git(Path(scratch), *args), 0
        except RepositoryError:  # The exit status is the number of conflicts.
            merged_text = run_git(Path(scratch), *args, ok=range(256))
    conflict_count = sum(line.startswith(MARKER) for line in merged_text.splitlines())
    return merged_text or ours, max(1, conflict_count)


def find_remote(repo: Repository, branch: str) -> str:
    """Return the remote of a branch (a short name); origin if none is configured."""
    return find_setting(repo, f"branch.{branch}.remote") or "origin"


def is_clean(worktree: Repository) -> bool:
    """Return whether a work tree has no staged or modified tracked file."""
    return not run_git(worktree.cwd, "status", "--porcelain", "--untracked-files=no")


def merge_revision(
    worktree: Repository, rev: str, settings: Sequence[str], *options: str
) -> tuple[str, ...]:
    """Merge `rev` into the branch that a work tree has checked out.

    Args:
        worktree: the work tree.
        rev: the revision.
        settings: arguments before the command (`-c name=value`).
        options: options of `git merge`.

    Returns:
        The paths that conflict. If there are any, nothing is merged.

    Raises:
        RepositoryError: git-failed, if git refused the merge without a conflict.
    """
    args = ("merge", "--no-edit", *options, "--end-of-options", rev)
    try:
        run_git(worktree.cwd, *settings, *args, env=_merge_variables(worktree))
    except RepositoryError:
        listing = run_git(worktree.cwd, "diff", "--name-only", "--diff-filter=U", "-z")
        conflicts = tuple(decode_path(listing).split("\0")[:-1])
        if not conflicts:
            raise
        run_git(worktree.cwd, "merge", "--abort")
        return conflicts
    return ()


def _merge_variables(worktree: Repository) -> dict[str, str]:
    """Return the environment variables for a merge that writes into a person's work tree.

    Filters of the person's own configuration (as those of git-lfs) run. Filters that the
    repository's configuration names do not: the repository is not trusted.
    """
    return config_variables(*NO_PROGRAMS, *list_filter_overrides(worktree, "local", "worktree"))


@contextmanager
def scratch_worktree(repo: Repository, rev: str, *options: str) -> Iterator[Repository]:
    """Create a temporary work tree of `rev` for the block, and remove it afterwards.

    Args:
        repo: the repository.
        rev: the revision that is checked out in it.
        options: options of `git worktree add`.
    """
    import tempfile  # Not at the top: it takes 2 ms, and commands that only read do without it.

    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        path = Path(scratch, "tree")
        run_git(repo.cwd, *NO_HOOKS, "worktree", "add", "-q", *options, str(path), rev)
        try:
            yield find_repository(path)
        finally:
            run_git(repo.cwd, *NO_HOOKS, "worktree", "remove", "--force", str(path))


def push_branch(repo: Repository, remote: str, branch: str) -> None:
    """Push a branch (a short name) to the branch of the same name; never forced.

    Raises:
        RepositoryError: git-failed.
    """
    refspec = f"{HEADS}{branch}:{HEADS}{branch}"
    run_git(repo.cwd, "push", "--quiet", "--", remote, refspec, env=network_variables())


@contextmanager
def private_ref(repo: Repository, prefix: str, commit: str | None = None) -> Iterator[str]:
    """Yield the name of a ref that no other run uses, and delete the ref afterwards.

    Args:
        repo: the repository.
        prefix: the beginning of the name.
        commit: the commit of the ref; None to create no ref.
    """
    ref = f"{prefix}{uuid4().hex}"
    if commit is not None:
        run_git(repo.cwd, "update-ref", ref, commit)
    try:
        yield ref
    finally:
        run_git(repo.cwd, "update-ref", "-d", ref)


def fast_forward(repo: Repository, ref: str, tip: str) -> bool:
    """Fast-forward the local branch `ref` (a full name) to `tip`, and return whether that was done.

    It is not done where it would lose commits or local changes: the branch must be behind `tip`,
    and a work tree that has it checked out must have nothing staged or modified.

    Args:
        repo: the repository.
        ref: the full name of the branch.
        tip: the id of a commit.
    """
    old_tip = find_commit(repo, ref)
    if old_tip is None or not is_ancestor(repo, old_tip, tip):
        return False
    # During a merge or another git command in its work tree the branch stays.
    with suppress(RepositoryError):
        worktrees = find_checkouts(repo, ref)
        if not worktrees:
            run_git(repo.cwd, "update-ref", "-m", "memory-ci: publish", ref, tip, old_tip)
            return True
        worktree = worktrees[0]
        if len(worktrees) == 1 and is_clean(worktree):
            options = ("--quiet", "--ff-only", "--no-verify-signatures", "--end-of-options")
            env = _merge_variables(worktree)
            run_git(worktree.cwd, *NO_HOOKS, "merge", *options, tip, env=env)
            return True
    return False
