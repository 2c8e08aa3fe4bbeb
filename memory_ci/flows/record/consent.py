"""What a person is asked before `record` writes what they may not expect. CI is never asked, nor is any later run."""

from __future__ import annotations

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.flows.record.run import RecordOptions
from memory_ci.flows.workspace import Workspace, memory_test, workspace_at
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import find_addition, find_cursor
from memory_ci.gitrepo.repo import is_shallow, read_tips
from memory_ci.records.plan import Plan

FREE_EPISODES = 50
"""New episode files that a first run writes unasked."""


def check_branch(workspace: Workspace) -> str | None:
    """The full name of the branch that is checked out, if one is that has a commit.

    Raises UsageError (other-branch) where it is another than the default one, if one can be told.
    """
    tips = read_tips(workspace.repo, workspace_at(workspace.repo, "HEAD").config.publish.remote)
    if tips.default and tips.work:
        hint = f"Check out {tips.name!r}, or say that you mean this branch: --branch {tips.work}"
        message = f"{tips.work!r} is checked out, and memory is recorded on {tips.name!r}, the default branch"
        raise UsageError(message, slug="other-branch", hint=hint)
    return tips.branch or None


def check_range(workspace: Workspace, options: RecordOptions, base: str) -> None:
    """Raises UsageError (not-committed) where a first run would read all history, for nothing says where to begin."""
    repo = workspace.repo
    if CONFIG_FILE in tree_at(repo, base).files or is_shallow(repo) or not _is_first(workspace, options, base):
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
    here = workspace_at(workspace.repo, base)
    return find_cursor(workspace.repo, base, memory_test(here)) is None
