"""The branch that a run works on."""

from __future__ import annotations

from memory_ci.errors import RepositoryError
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.repo import find_commit, head_branch


def branch_tip(workspace: Workspace, wanted: str | None) -> tuple[str, str]:
    """The full name of the branch to record on, and the commit it is at."""
    repo = workspace.repo
    ref = head_branch(repo) if wanted is None else f"refs/heads/{wanted.removeprefix('refs/heads/')}"
    if ref is None:
        hint = "Check out the branch, or name it: --branch main."
        raise RepositoryError("HEAD is detached: no branch to record on", slug="detached-head", hint=hint)
    base = find_commit(repo, ref)
    if base is None:
        name = ref.removeprefix("refs/heads/")
        message = f"the branch {name!r} has no commit" if wanted is None else f"there is no branch {name!r}"
        raise RepositoryError(message, slug="unborn-branch", hint="Commit something first, or name another branch.")
    return ref, base
