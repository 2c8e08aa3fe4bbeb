"""What `compact`, `promote` and `retire` share: plan the step, perform it unless it is a dry run, say what it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from memory_ci.cli.common import committed_workspace, dry_run_option, echo_json, json_option, now, today
from memory_ci.records.names import short_branch
from memory_ci.records.plan import Step
from memory_ci.rendering.plan import render_plan

branch_option = click.option("--branch", metavar="NAME", help="Work on this branch instead of the one checked out.")


def upkeep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that the three commands have in common."""
    return branch_option(dry_run_option(json_option(command)))


def run_upkeep(step: Step, branch: str | None, dry_run: bool, as_json: bool, stale_after: int | None = None) -> None:
    """One step on the tip of a branch, as one commit if it changes something."""
    from memory_ci.flows.record.apply import apply_plan
    from memory_ci.flows.record.upkeep import plan_upkeep_alone

    where = committed_workspace()
    plan = plan_upkeep_alone(where, (step,), branch, today(), stale_after)
    applied = None if dry_run else apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
    if as_json:
        echo_json({"plan": plan, "applied": applied})
        return
    click.echo(render_plan(plan).lstrip("\n"), nl=False)
    for subject in applied.subjects if applied is not None else ():
        click.echo(f"\nCommitted on {short_branch(plan.ref)}: {subject}")
