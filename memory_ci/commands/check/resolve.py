"""`memory-ci resolve`: merges the base into a branch, and memory files entry by entry."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.checkouts import NO_HOOKS, find_checkouts
from memory_ci.gitrepo.merges import (
    find_remote,
    is_clean,
    merge_revision,
    push_branch,
    scratch_worktree,
)
from memory_ci.gitrepo.repo import (
    Repository,
    head_branch,
    read_tips,
    read_user_attributes,
    resolve_commit,
)
from memory_ci.memory.workspace import Workspace
from memory_ci.records.names import HEADS
from memory_ci.store.merge_driver import SECTION, attribute_lines, driver_command


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a merge.

    Attributes:
        branch: the branch that was merged into.
        base: the revision that was merged.
        before: the tip of the branch before.
        after: the tip of the branch afterwards.
        pushed_to: the remote that the branch was pushed to.
    """

    branch: str
    base: str
    before: str
    after: str
    pushed_to: str | None = None


def resolve_branch(
    workspace: Workspace,
    python: str,
    branch: str | None = None,
    base: str | None = None,
    *,
    push: bool = False,
    dry_run: bool = False,
) -> Resolution:
    """Merge a base into a branch.

    A conflict leaves the branch as it was. A dry run merges in a temporary work tree.

    Args:
        workspace: the repository and its configuration.
        python: the interpreter that the merge driver calls.
        branch: the branch to merge into, None for the checked-out branch.
        base: the revision to merge, None for the default branch.
        push: push the branch afterwards.
        dry_run: change nothing.

    Raises:
        RepositoryError: detached-head, unknown-revision, local-changes, repository-busy,
            merge-conflict, git-failed.
        UsageError: no-base.
    """
    repo = workspace.repo
    ref = f"{HEADS}{branch}" if branch else head_branch(repo)
    if ref is None:
        hint = "Name a branch with --branch."
        raise RepositoryError("HEAD is detached", slug="detached-head", hint=hint)
    name = ref.removeprefix(HEADS)
    before = resolve_commit(repo, ref)
    remote = find_remote(repo, name)
    if not base:
        base = find_default_branch(repo, remote).removeprefix(HEADS).removeprefix("refs/remotes/")
    resolve_commit(repo, base)  # raises for an unknown revision, before anything is merged

    conflicting_paths = _merge_base(workspace, python, ref, base, dry_run)
    if conflicting_paths:
        paths = ", ".join(conflicting_paths)
        message = f"{base} and {name} conflict in {paths}; nothing was merged"
        hint = f"Merge by hand: git checkout {name} && git merge {base}"
        raise RepositoryError(message, slug="merge-conflict", hint=hint)

    pushed_to = None
    if push and not dry_run:
        push_branch(repo, remote, name)
        pushed_to = remote
    after = resolve_commit(repo, ref)
    return Resolution(branch=name, base=base, before=before, after=after, pushed_to=pushed_to)


def find_default_branch(repo: Repository, remote: str = "origin") -> str:
    """Return the full name of the default branch: `refs/remotes/origin/main`, for instance.

    Raises:
        UsageError: no-base.
    """
    default = read_tips(repo, remote).default
    if not default:
        message = f"there is no {remote}/HEAD, main or master to compare with"
        hint = "Name the branch that this one started from with --base."
        raise UsageError(message, slug="no-base", hint=hint)
    return default


def _merge_base(
    workspace: Workspace, python: str, ref: str, base: str, dry_run: bool
) -> Sequence[str]:
    """Merge a base into a branch, and return the paths that conflict.

    Args:
        workspace: the repository and its configuration.
        python: the interpreter that the merge driver calls.
        ref: the full name of the branch.
        base: the revision to merge.
        dry_run: merge in a temporary work tree, and commit nothing.
    """
    with (
        _driver_settings(workspace, python) as settings,
        _merge_worktree(workspace.repo, ref, dry_run) as worktree,
    ):
        if dry_run:
            all_settings = (*settings, *NO_HOOKS)
            return merge_revision(worktree, base, all_settings, "--no-commit", "--no-ff")
        return merge_revision(worktree, base, settings)


@contextmanager
def _driver_settings(workspace: Workspace, python: str) -> Iterator[tuple[str, ...]]:
    """Yield options of git that make it merge memory files by our driver.

    The repository and the user need not have configured the driver. Attributes of the user hold.
    """
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        attributes = Path(scratch, "attributes")
        lines = "".join(f"{line}\n" for line in attribute_lines(workspace.config.scopes))
        attributes.write_bytes(read_user_attributes(workspace.repo) + b"\n" + lines.encode())
        yield (
            "-c",
            f"core.attributesFile={attributes}",
            "-c",
            f"{SECTION}.driver={driver_command(python)}",
        )


@contextmanager
def _merge_worktree(repo: Repository, ref: str, dry_run: bool) -> Iterator[Repository]:
    """Yield the work tree where a branch is checked out.

    If no work tree has the branch checked out, and for a dry run, yield a temporary work tree.

    Raises:
        RepositoryError: local-changes.
    """
    checkouts = find_checkouts(repo, ref)
    for checkout in checkouts:
        if not is_clean(checkout):
            message = f"{checkout.cwd} has changes that are not committed"
            hint = "Commit or stash them, then run again."
            raise RepositoryError(message, slug="local-changes", hint=hint)
    if checkouts and not dry_run:
        yield checkouts[0]
        return
    options = ["--detach"] if dry_run else []
    with scratch_worktree(repo, ref.removeprefix(HEADS), *options) as worktree:
        yield worktree
