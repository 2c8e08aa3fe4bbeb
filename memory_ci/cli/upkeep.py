"""Commands that keep memory in shape, one commit each: compact, promote, retire, migrate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from memory_ci.cli.common import dry_run_option, engine_option, flag, json_option, option, show
from memory_ci.cli.plain import committed_workspace, now, progress, today, workspace
from memory_ci.records.config import EngineName
from memory_ci.records.plan import Step
from memory_ci.rendering.plan import render_plan
from memory_ci.rendering.table import printable

branch_option = option("--branch", metavar="NAME", help="Work on this branch instead of the one checked out.")


def upkeep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that the three commands have in common."""
    return branch_option(dry_run_option(json_option(command)))


def run_upkeep(step: Step, branch: str | None, dry_run: bool, as_json: bool, stale_after: int | None = None) -> None:
    """One step on the tip of a branch, as one commit if it changes something."""
    from memory_ci.flows.record.apply import apply_plan
    from memory_ci.flows.record.upkeep import plan_upkeep_alone

    where = committed_workspace()
    with progress("Reading memory"):
        plan = plan_upkeep_alone(where, (step,), branch, today(), stale_after)
    applied = None if dry_run else apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
    branch = plan.ref.removeprefix("refs/heads/")
    committed = (f"\nCommitted on {branch}: {subject}\n" for subject in (applied.subjects if applied else ()))
    show({"plan": plan, "applied": applied}, render_plan(plan).lstrip("\n") + "".join(committed), as_json)


@click.command("compact")
@upkeep_options
def compact_command(branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Unite entries that say the same, and take retired ones out.

    One commit, if anything changes. An id that is merged away stands in `supersedes` of the entry that stays, and is
    still found by `show` and `log`; what was retired is in git's history: `memory-ci show ID --at REV`. `record` does
    the same at its end.

    \b
    Example:
      memory-ci compact --dry-run
    """
    run_upkeep("compact", branch, dry_run, as_json)


@click.command("promote")
@flag("--global", "to_global", help="Copy what holds in any repository into the checkout of `global.path`.")
@engine_option
@upkeep_options
def promote_command(
    to_global: bool, engine: EngineName | None, branch: str | None, dry_run: bool, as_json: bool
) -> None:
    """Move entries that recur up one scope: from a team or session to the project.

    An entry recurs when three or more sessions or merged changes brought it. One commit, if anything changes;
    `record` does the same at its end. With --global, project entries that recur and name nothing of this repository
    are copied into the global memory, as a commit there; where a model is configured, only those that it agrees on.

    \b
    Example:
      memory-ci promote --dry-run
      memory-ci promote --global
    """
    if not to_global:
        run_upkeep("promote", branch, dry_run, as_json)
        return
    from memory_ci.flows.model import choose_model
    from memory_ci.flows.record.upkeep import agreed_by_model, promote_globally, propose_globally

    where = workspace()
    model = choose_model(where.config.engine, engine, os.environ)
    proposed = agreed_by_model(propose_globally(where, branch, today()), model.engine)
    promoted = promote_globally(where.config.global_.path, proposed, now(), dry_run=dry_run)
    done = "Would promote:" if dry_run and promoted else "Promoted:" if promoted else "Nothing to promote."
    lines = [done, *(f"  {entry.id[:8]}  {entry.title}" for entry in promoted)]
    show({"dry_run": dry_run, "promoted": promoted}, lines, as_json)


@click.command("retire")
@flag("--stale", help="Also retire entries whose code has been gone for long.")
@option(
    "--after",
    "after_days",
    type=click.IntRange(min=0),
    default=90,
    metavar="DAYS",
    help="With --stale: how long their code must have been gone.",
)
@upkeep_options
def retire_command(stale: bool, after_days: int, branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Retire entries of a project stage that has ended, or whose code is gone.

    A retired entry is no longer given to agents, and the next compaction takes it out. Pinned entries stay.

    \b
    Example:
      memory-ci retire --dry-run
      memory-ci retire --stale --after 180
    """
    run_upkeep("retire", branch, dry_run, as_json, after_days if stale else None)


@click.command("migrate")
@option("--to", type=click.IntRange(min=1), metavar="N", help="Another format than the newest, such as the last.")
@branch_option
@dry_run_option
@json_option
def migrate_command(to: int | None, branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring the memory files of a branch to the newest format, or back.

    One commit, if anything changes. What this version does not know stays as it is. What a format is:
    `memory-ci help compatibility`.

    \b
    Example:
      memory-ci migrate --dry-run
      memory-ci migrate --to 1
    """
    from memory_ci.flows.guard.migrate import migrate

    in_actions = "GITHUB_ACTIONS" in os.environ
    done = migrate(committed_workspace(), branch, to, now(), dry_run=dry_run, in_actions=in_actions)
    lines = [f"Nothing to do: the files are of format {done.after}."]
    if done.files:
        did = f"{'Would migrate' if dry_run else 'Migrated'} from format {done.before} to {done.after}:"
        lines = [did, *(f"  {printable(path)}" for path in done.files)]
    show(done, lines, as_json)
