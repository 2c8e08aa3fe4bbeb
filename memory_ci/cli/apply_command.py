"""memory-ci apply"""

from __future__ import annotations

import os
from typing import BinaryIO

import click

from memory_ci.cli.common import committed_workspace, dry_run_option, echo_json, json_option, now
from memory_ci.records.names import short_branch
from memory_ci.rendering.table import printable


@click.command()
@click.argument("plan_file", metavar="PLAN.json", type=click.File("rb"))
@dry_run_option
@json_option
def command(plan_file: BinaryIO, dry_run: bool, as_json: bool) -> None:
    """Perform a plan.

    The plan is checked again, against the tree it is applied to: the branch must still be where the plan was made,
    and no step may do more than a step of its kind. `-` reads the plan from standard input.

    \b
    Example:
      memory-ci extract -o plan.json && memory-ci apply plan.json
    """
    from memory_ci.flows.record.apply import apply_plan, parse_plan, preview_plan

    plan = parse_plan(plan_file.read())
    where = committed_workspace()
    applied = (
        preview_plan(where, plan, now())
        if dry_run
        else apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
    )
    if as_json:
        echo_json(applied)
        return
    verb = "Would commit" if dry_run else "Committed"
    branch = printable(short_branch(applied.ref))
    click.echo(f"{verb} on {branch}:" if applied.subjects else "Nothing to commit.")
    for subject in applied.subjects:
        click.echo(f"  {printable(subject)}")
