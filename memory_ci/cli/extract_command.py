"""memory-ci extract"""

from __future__ import annotations

from pathlib import Path

import click

from memory_ci.cli.common import committed_workspace, progress, today


@click.command()
@click.option("--since", metavar="REV", help="Begin after this revision instead of where the last run ended.")
@click.option("--branch", metavar="NAME", help="Plan for this branch instead of the one that is checked out.")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write the plan to this file.")
def command(since: str | None, branch: str | None, output: Path | None) -> None:
    """Write the plan of a record run, and change nothing.

    The plan is one JSON document: changes per step, candidates with their evidence, what was left out and why. A
    person or another job can read it before `memory-ci apply` performs it.

    \b
    Example:
      memory-ci extract -o plan.json
      memory-ci apply plan.json
    """
    from memory_ci.flows.record import RecordOptions, format_plan, plan_record, save_plan

    with progress("Reading merged work") as advance:
        plan = plan_record(committed_workspace(), RecordOptions(since, branch), today(), advance)
    if output is None:
        click.echo(format_plan(plan), nl=False)
    else:
        save_plan(plan, output)
