"""Resolve: merge the base into a branch here, where memory files merge by entries; a forge cannot do that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
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
    """What was merged into which branch, where the branch was and is, and the remote it was pushed to."""

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
    """Merge the base into a branch (default: the one checked out), and push it if asked.

    A conflict leaves the branch as it was, and so does a dry run, which merges in a work tree of its own. Raises
    RepositoryError: detached-head, unknown-revision, local-changes, repository-busy, merge-conflict, git-failed;
    UsageError (no-base).
    """
    repo = workspace.repo
    ref = f"{HEADS}{branch}" if branch else head_branch(repo)
    if ref is None:
        raise RepositoryError(
            "HEAD is detached", slug="detached-head", hint="Name a branch with --branch."
        )
    name, before = ref.removeprefix(HEADS), resolve_commit(repo, ref)
    remote = find_remote(repo, name)
    base = base or find_base(repo, remote).removeprefix(HEADS).removeprefix("refs/remotes/")
    resolve_commit(repo, base)
    with _driver(workspace, python) as driver, _place(repo, ref, dry_run) as place:
        settings, options = (
            ((*driver, *NO_HOOKS), ("--no-commit", "--no-ff")) if dry_run else (driver, ())
        )
        conflicts = merge_revision(place, base, settings, *options)
    if conflicts:
        message = f"{base} and {name} conflict in {', '.join(conflicts)}; nothing was merged"
        hint = f"Merge by hand: git checkout {name} && git merge {base}"
        raise RepositoryError(message, slug="merge-conflict", hint=hint)
    pushed = push and not dry_run
    if pushed:
        push_branch(repo, remote, name)
    after = resolve_commit(repo, ref)
    return Resolution(
        branch=name, base=base, before=before, after=after, pushed_to=remote if pushed else None
    )


def find_base(repo: Repository, remote: str = "origin") -> str:
    """The full name of the branch that others start from. Raises UsageError (no-base)."""
    found = read_tips(repo, remote).default
    if not found:
        message = f"there is no {remote}/HEAD, main or master to compare with"
        raise UsageError(
            message, slug="no-base", hint="Name the branch that this one started from with --base."
        )
    return found


@contextmanager
def _driver(workspace: Workspace, python: str) -> Iterator[tuple[str, ...]]:
    """Options of git that give memory files to our driver, whatever is configured and committed."""
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
def _place(repo: Repository, ref: str, dry_run: bool) -> Iterator[Repository]:
    """Where to merge: the work tree that has the branch checked out, else one made for it and removed again."""
    checkouts = find_checkouts(repo, ref)
    for place in checkouts:
        if not is_clean(place):
            message = f"{place.cwd} has changes that are not committed"
            raise RepositoryError(
                message, slug="local-changes", hint="Commit or stash them, then run again."
            )
    if checkouts and not dry_run:
        yield checkouts[0]
        return
    with scratch_worktree(
        repo, ref.removeprefix(HEADS), *(["--detach"] if dry_run else [])
    ) as place:
        yield place
