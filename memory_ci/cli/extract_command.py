"""memory-ci extract"""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from memory_ci.cli.common import RangeArguments, committed_workspace, progress, range_options, today


@click.command()
@range_options
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write the plan to this file.")
def command(output: Path | None, fetch: bool, **arguments: RangeArguments) -> None:
    """Write the plan of a record run, and change nothing.

    The plan is one JSON document: changes per step, candidates with their evidence, what was left out and why. A
    person or another job can read it before `memory-ci apply` performs it.

    \b
    Example:
      memory-ci extract -o plan.json
      memory-ci apply plan.json
    """
    from memory_ci.flows.record.run import RecordOptions, fetch_sessions, format_plan, plan_record, save_plan

    with progress("Reading merged work") as advance:
        where, options = committed_workspace(), RecordOptions(**arguments)  # type: ignore[arg-type] # click's own types
        problems = fetch_sessions(where, options.ref, os.environ) if fetch else ()
        plan = plan_record(where, msgspec.structs.replace(options, problems=problems), today(), advance, os.environ)
    if output is None:
        click.echo(format_plan(plan), nl=False)
    else:
        save_plan(plan, output)
