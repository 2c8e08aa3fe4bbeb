"""Refs that follow what is on a remote: the local branch by fast-forward, private ones for as long as a run takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.checkouts import NO_HOOKS, find_checkouts
from memory_ci.gitrepo.merges import is_clean
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository, find_commit, is_ancestor


@contextmanager
def private_ref(repo: Repository, prefix: str) -> Iterator[str]:
    """The name of a ref under `prefix` that no other run has; whatever it was set to is gone afterwards."""
    ref = f"{prefix}{uuid4().hex}"
    try:
        yield ref
    finally:
        run_git(repo.cwd, "update-ref", "-d", ref)


def fast_forward(repo: Repository, ref: str, tip: str) -> bool:
    """Move the local branch `ref` (a full name) ahead to `tip`; False where that would lose or disturb anything.

    It must be behind `tip`, and a work tree that has it checked out must have nothing staged or modified.
    """
    old = find_commit(repo, ref)
    if old is None or not is_ancestor(repo, old, tip):
        return False
    with suppress(RepositoryError):  # a merge or another git command is underway there: the branch stays
        places = find_checkouts(repo, ref)
        if not places:
            run_git(repo.cwd, "update-ref", "-m", "memory-ci: publish", ref, tip, old)
            return True
        if len(places) == 1 and is_clean(places[0]):
            run_git(places[0].cwd, *NO_HOOKS, "merge", "--quiet", "--ff-only", "--no-verify-signatures", tip)
            return True
    return False
