"""The copying of entries to the global memory, a person's own repository for all projects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path

from memory_ci.commands.record.upkeep import list_own_names, make_upkeep_plan
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.lifecycle.fold import is_same_learning
from memory_ci.lifecycle.promotion import plan_promotion
from memory_ci.memory.commit_message import render_commit_message
from memory_ci.memory.draft import Draft
from memory_ci.memory.workspace import Workspace, find_branch_tip, open_unconfigured, workspace_at
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Change, Plan, PlannedStep
from memory_ci.store.edits import apply_changes
from memory_ci.store.memory_files import load_file


def propose_globally(workspace: Workspace, branch: str | None, today: date) -> tuple[Entry, ...]:
    """Return the entries of a branch that recur and can apply in any repository."""
    _, base = find_branch_tip(workspace, branch)
    workspace = workspace_at(workspace.repo, base)
    draft = Draft(workspace.at(base))
    promotion = plan_promotion(draft.located, today, draft.path_of, list_own_names(draft.base))
    return tuple(proposal.entry for proposal in promotion.proposals)


def promote_globally(
    config_path: str, entries: tuple[Entry, ...], now: datetime, *, dry_run: bool
) -> tuple[Entry, ...]:
    """Copy entries to the global memory, as one commit in its repository.

    The entries stay in the project too, because a job in CI has no global memory.

    Args:
        config_path: the checkout that `global.path` names.
        entries: the entries to copy.
        now: the time of the commit.
        dry_run: commit nothing.

    Returns:
        The entries that the global memory did not have.

    Raises:
        UsageError: no-global-checkout, and the errors of the writer.
    """
    directory = Path(config_path).expanduser()
    workspace = _open_global_checkout(config_path, directory)
    root = (workspace.repo.root or directory).resolve()
    path = (directory.resolve() / "MEMORY.md").relative_to(root).as_posix()
    ref, tip = find_branch_tip(workspace, None)
    content_by_path = workspace.at(tip).read([path])
    memory_file = load_file(path, content_by_path.get(path, b""), workspace.config.scopes)
    existing_entries = [located.entry for located in memory_file.entries]
    new_entries: list[Entry] = []
    for entry in entries:
        if not any(is_same_learning(entry, existing) for existing in existing_entries):
            new_entries.append(entry)
    if new_entries and not dry_run:
        changes = tuple(
            Change(step="promote", kind="add", path=path, entry=entry, why="from a project")
            for entry in new_entries
        )
        plan = make_upkeep_plan(ref, tip, (PlannedStep(step="promote", changes=changes),))
        _commit_globally(workspace, plan, content_by_path, now)
    return tuple(new_entries)


def _commit_globally(
    workspace: Workspace, plan: Plan, content_by_path: Mapping[str, bytes], now: datetime
) -> None:
    """Commit a plan with one step in the repository of the global memory.

    Args:
        workspace: the repository of the global memory.
        plan: the plan.
        content_by_path: the current content of the files that the plan changes.
        now: the time of the commit.
    """
    # GitPython takes 75 ms to import, so it is imported only to write.
    from memory_ci.gitrepo.writer import MEMORY_CI, PlannedCommit, commit_series

    (step,) = plan.steps
    message = render_commit_message([step], plan)
    commit = PlannedCommit(apply_changes(content_by_path, step.changes), message)
    commit_series(
        workspace.repo,
        ref=plan.ref,
        expected=plan.base,
        commits=[commit],
        identity=MEMORY_CI,
        when=now,
    )


def _open_global_checkout(config_path: str, directory: Path) -> Workspace:
    """Open the repository of the global memory.

    Args:
        config_path: the setting `global.path`, "" if it is not set.
        directory: the directory that it names.

    Raises:
        UsageError: no-global-checkout.
    """
    hint = (
        "Clone the repository of the global memory, and name its directory: "
        "`global: {path: ~/memory}`."
    )
    if not config_path or not directory.is_dir():
        message = "global.path names no checkout to promote to"
        raise UsageError(message, slug="no-global-checkout", hint=hint)
    try:
        return open_unconfigured(directory)
    except RepositoryError as error:
        message = f"{directory} is in no git repository"
        raise UsageError(message, slug="no-global-checkout", hint=hint) from error
