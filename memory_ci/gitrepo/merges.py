"""Merges: of texts as git would, of branches with a driver of our choice; refs that follow a remote."""

from __future__ import annotations

import tempfile
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


class Bringer(NamedTuple):
    """A merge on the first parents of a branch, and the commits that it brought, merges left out."""

    merge: str
    brought: tuple[str, ...]


def find_bringer(repo: Repository, sha: str, tip: str) -> Bringer | None:
    """The merge by which a commit (or the beginning of its id) came to `tip`; None if it came by itself, or not."""
    merge = find_landing(repo, sha, tip)
    if merge is None or find_commit(repo, f"{merge}^2") is None:
        return None
    brought = (
        run_git(repo.cwd, "rev-list", "--no-merges", f"{merge}^1..{merge}", "--").decode().split()
    )
    return Bringer(merge, tuple(brought)) if find_commit(repo, sha) in brought else None


def find_landing(repo: Repository, sha: str, tip: str) -> str | None:
    """The first-parent commit by which a commit (or the beginning of its id) came to `tip`, or itself; None if not."""
    commit = find_commit(repo, sha)
    if commit is None or not is_ancestor(repo, commit, tip):
        return None
    asked = ("--first-parent", "--ancestry-path", "--reverse", f"{commit}..{tip}", "--")
    after = next(iter(run_git(repo.cwd, "rev-list", *asked).decode().split()), None)
    return commit if after is None or find_commit(repo, f"{after}^1") == commit else after


def merge_text(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int]:
    """The text that git itself makes of three, line by line, with conflict markers, and how many conflicts. What git
    cannot merge because it is not text stays as ours is, and counts as one."""
    sides = {"ours": ours, "base": base, "theirs": theirs}
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        for name, data in sides.items():
            Path(scratch, name).write_bytes(data)
        asked = ("merge-file", "-p", *(part for name in sides for part in ("-L", name)), *sides)
        try:
            return run_git(Path(scratch), *asked), 0
        except RepositoryError:  # its exit status is the number of conflicts
            merged = run_git(Path(scratch), *asked, ok=range(256))
    return merged or ours, max(1, sum(line.startswith(MARKER) for line in merged.splitlines()))


def find_remote(repo: Repository, branch: str) -> str:
    """The remote that a branch (a short name) is from; origin if it does not say."""
    return find_setting(repo, f"branch.{branch}.remote") or "origin"


def is_clean(place: Repository) -> bool:
    """Whether nothing that git tracks is staged or modified in a work tree."""
    return not run_git(place.cwd, "status", "--porcelain", "--untracked-files=no")


def merge_revision(
    place: Repository, rev: str, settings: Sequence[str], *options: str
) -> tuple[str, ...]:
    """Merge `rev` into what a work tree has checked out; the paths that conflict, if any, and then nothing is merged.
    `settings` go before the command (`-c name=value`). Raises RepositoryError (git-failed) if git did not even try."""
    try:
        words = ("merge", "--no-edit", *options, "--end-of-options", rev)
        run_git(place.cwd, *settings, *words, env=_merge_variables(place))
    except RepositoryError:
        listing = decode_path(run_git(place.cwd, "diff", "--name-only", "--diff-filter=U", "-z"))
        conflicts = tuple(listing.split("\0")[:-1])
        if not conflicts:
            raise
        run_git(place.cwd, "merge", "--abort")
        return conflicts
    return ()


def _merge_variables(place: Repository) -> dict[str, str]:
    """Return variables for a merge that writes a person's files: the filters that they set up for all repositories
    (as those of git-lfs) run, those that the repository names do not."""
    return config_variables(*NO_PROGRAMS, *list_filter_overrides(place, "local", "worktree"))


@contextmanager
def scratch_worktree(repo: Repository, rev: str, *options: str) -> Iterator[Repository]:
    """A work tree that is gone afterwards, so that nobody's files are touched by what is done in it."""
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        path = Path(scratch, "tree")
        run_git(repo.cwd, *NO_HOOKS, "worktree", "add", "-q", *options, str(path), rev)
        try:
            yield find_repository(path)
        finally:
            run_git(repo.cwd, *NO_HOOKS, "worktree", "remove", "--force", str(path))


def push_branch(repo: Repository, remote: str, branch: str) -> None:
    """Push a branch (a short name) to its namesake; never forced. Raises RepositoryError (git-failed)."""
    spec = f"{HEADS}{branch}:{HEADS}{branch}"
    run_git(repo.cwd, "push", "--quiet", "--", remote, spec, env=network_variables())


@contextmanager
def private_ref(repo: Repository, prefix: str, at: str | None = None) -> Iterator[str]:
    """The name of a ref under `prefix` that no other run has, at a commit if one is given; it is gone afterwards."""
    ref = f"{prefix}{uuid4().hex}"
    if at is not None:
        run_git(repo.cwd, "update-ref", ref, at)
    try:
        yield ref
    finally:
        run_git(repo.cwd, "update-ref", "-d", ref)


def fast_forward(repo: Repository, ref: str, tip: str) -> bool:
    """Move the local branch `ref` (a full name) ahead to `tip`; False where that would lose or disturb anything. It
    must be behind `tip`, and a work tree that has it checked out must have nothing staged or modified."""
    old = find_commit(repo, ref)
    if old is None or not is_ancestor(repo, old, tip):
        return False
    with suppress(
        RepositoryError
    ):  # a merge or another git command is underway there: the branch stays
        places = find_checkouts(repo, ref)
        if not places:
            run_git(repo.cwd, "update-ref", "-m", "memory-ci: publish", ref, tip, old)
            return True
        if len(places) == 1 and is_clean(places[0]):
            quiet = ("--quiet", "--ff-only", "--no-verify-signatures", "--end-of-options")
            run_git(places[0].cwd, *NO_HOOKS, "merge", *quiet, tip, env=_merge_variables(places[0]))
            return True
    return False
