"""Checks of a record run's branch, its range and its size, before anything is written."""

from __future__ import annotations

from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import find_addition
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.gitrepo.repo import is_shallow, read_tips
from memory_ci.memory.workspace import Workspace, build_memory_test, workspace_at
from memory_ci.records.plan import Plan

FREE_EPISODES = 50
"""New episode files that a first run writes without asking."""


def check_branch(workspace: Workspace) -> str | None:
    """Return the full name of the branch that is checked out, or None if it has no commit.

    Raises:
        UsageError: other-branch if it is not the default branch, where that is known.
    """
    tips = read_tips(workspace.repo, workspace_at(workspace.repo, "HEAD").config.publish.remote)
    # `work` is "" on the default branch, and `default` is "" where that branch is not known.
    if tips.default and tips.work_branch:
        hint = f"Check out {tips.name!r}, or name this branch: --branch {tips.work_branch}"
        message = (
            f"{tips.work_branch!r} is checked out, and memory is recorded on {tips.name!r}, "
            "the default branch"
        )
        raise UsageError(message, slug="other-branch", hint=hint)
    return tips.branch or None


def check_range(workspace: Workspace, options: RecordOptions, base: str) -> None:
    """Refuse a first run that would read all history because nothing says where to begin.

    A first run begins at the commit that added the configuration, which therefore must be in the
    history of the branch, even if it was deleted since. A shallow clone may lack that commit, and
    its history is short: it is read whole.

    Args:
        workspace: the repository.
        options: the range as the caller names it.
        base: the commit that the run reads.

    Raises:
        UsageError: nothing-committed.
    """
    repo = workspace.repo
    has_config = CONFIG_FILE in tree_at(repo, base).files
    if has_config or is_shallow(repo) or not _is_first_run(workspace, options, base):
        return
    if find_addition(repo, base, CONFIG_FILE) is None:
        message = f"{CONFIG_FILE} is not committed, so the start of memory is unknown"
        hint = f"Commit {CONFIG_FILE} first (`memory-ci init` writes it), or pass --since REV."
        raise UsageError(message, slug="nothing-committed", hint=hint)


def count_episodes_to_confirm(workspace: Workspace, options: RecordOptions, plan: Plan) -> int:
    """Return how many new episode files a person has to agree to before they are written.

    Only a first run needs agreement, and only for more than `FREE_EPISODES` files. If the caller
    named the range, that was the agreement.
    """
    file_count = len(plan.episodes)
    if file_count <= FREE_EPISODES or not _is_first_run(workspace, options, plan.base):
        return 0
    return file_count


def _is_first_run(workspace: Workspace, options: RecordOptions, base: str) -> bool:
    """Return whether no run has recorded yet and the caller named no range."""
    if options.is_range_named:
        return False
    committed = workspace_at(workspace.repo, base)
    return find_cursor(workspace.repo, base, build_memory_test(committed)) is None
