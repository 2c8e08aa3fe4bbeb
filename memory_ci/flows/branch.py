"""The branch that a run works on."""

from __future__ import annotations

from memory_ci.errors import RepositoryError
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.repo import find_commit, head_branch
from memory_ci.records.names import HEADS, short_branch

PRIVATE = "refs/memory-ci/publish/"
"""Where `flows.publish.publish` keeps the tip of a remote while it works on it; no branch of the user's."""


def branch_name(workspace: Workspace, wanted: str | None) -> str:
    """The full name of the branch to record on. Raises RepositoryError (detached-head)."""
    if wanted is not None:
        return wanted if wanted.startswith(PRIVATE) else HEADS + short_branch(wanted)
    ref = head_branch(workspace.repo)
    if ref is None:
        hint = "Put a branch on this commit: `git checkout -B main` (with its name)."
        raise RepositoryError("HEAD is detached: no branch to record on", slug="detached-head", hint=hint)
    return ref


def branch_tip(workspace: Workspace, wanted: str | None, known: str | None = None) -> tuple[str, str]:
    """The full name of the branch to record on, and the commit it is at, which may be `known`."""
    ref = branch_name(workspace, wanted)
    base = known or find_commit(workspace.repo, ref)
    if base is None:
        name = short_branch(ref)
        message = f"the branch {name!r} has no commit" if wanted is None else f"there is no branch {name!r}"
        raise RepositoryError(message, slug="unborn-branch", hint="Commit something first, or name another branch.")
    return ref, base
