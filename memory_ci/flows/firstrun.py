"""What a person is asked before `record` writes what they may not expect. CI is never asked, nor is any later run."""

from __future__ import annotations

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.flows.branch import branch_tip
from memory_ci.flows.record import RecordOptions
from memory_ci.flows.workspace import Workspace, config_at, memory_test
from memory_ci.gitrepo.blobs import list_tree
from memory_ci.gitrepo.history import find_addition, find_cursor
from memory_ci.gitrepo.merges import find_default_branch
from memory_ci.gitrepo.repo import head_branch, is_shallow
from memory_ci.records.plan import Plan

FREE_EPISODES = 50
"""New episode files that a first run writes unasked."""


def check_branch(workspace: Workspace) -> None:
    """Raises UsageError (other-branch) where another branch than the default one is checked out, if one can be told."""
    head, remote = head_branch(workspace.repo), config_at(workspace.repo, "HEAD").publish.remote
    default = find_default_branch(workspace.repo, remote)
    if head is None or default is None:
        return
    name = head.removeprefix("refs/heads/")
    wanted = default.removeprefix("refs/heads/").removeprefix(f"refs/remotes/{remote}/")
    if name != wanted:
        hint = f"Check out {wanted!r}, or say that you mean this branch: --branch {name}"
        message = f"{name!r} is checked out, and memory is recorded on {wanted!r}, the default branch"
        raise UsageError(message, slug="other-branch", hint=hint)


def check_range(workspace: Workspace, options: RecordOptions) -> None:
    """Raises UsageError (not-committed) where a first run would read all history, for nothing says where to begin."""
    repo = workspace.repo
    _, base = branch_tip(workspace, options.ref)
    if list_tree(repo, base, [CONFIG_FILE]) or is_shallow(repo) or not _is_first(workspace, options, base):
        return
    if find_addition(repo, base, CONFIG_FILE) is None:
        message = f"{CONFIG_FILE} is not committed, so nothing says where memory begins"
        hint = f"Commit {CONFIG_FILE} first (`memory-ci init` writes it), or say --since REV or --from-root."
        raise UsageError(message, slug="nothing-committed", hint=hint)


def count_unasked(workspace: Workspace, options: RecordOptions, plan: Plan) -> int:
    """How many new episodes a person has to agree to: those of a first run whose range nobody named, over the limit."""
    count = len(plan.episodes)
    return count if count > FREE_EPISODES and _is_first(workspace, options, plan.base) else 0


def _is_first(workspace: Workspace, options: RecordOptions, base: str) -> bool:
    if options.since is not None or options.from_root:
        return False
    here = Workspace(workspace.repo, config_at(workspace.repo, base))
    return find_cursor(workspace.repo, base, memory_test(here)) is None
