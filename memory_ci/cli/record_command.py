"""memory-ci record"""

from __future__ import annotations

import os
import sys

import click

from memory_ci.cli.common import (
    RangeArguments,
    committed_workspace,
    dry_run_option,
    echo_json,
    json_option,
    now,
    progress,
    range_options,
    today,
)
from memory_ci.errors import EngineError
from memory_ci.rendering.plan import render_plan
from memory_ci.rendering.table import printable


@click.command()
@range_options
@click.option("--fail-on", type=click.Choice(["engine"]), help="Exit with status 5 when the engine failed.")
@dry_run_option
@json_option
def command(fail_on: str | None, dry_run: bool, as_json: bool, **arguments: RangeArguments) -> None:
    """Turn merged work into committed memory.

    Reads what was merged since the last run, with the sessions and the reviews behind it, folds the inbox, extracts
    learnings and reinforces what the work was given. Each step is a commit of its own, made only if it changes
    something; running again changes nothing. Your index and your other files are not touched.

    Without a model only what authors marked is written; what merely sounds like a learning is listed. With one, every
    learning cites words of a person, and code checks that they were said.

    \b
    Example:
      memory-ci record --dry-run
      memory-ci record
      memory-ci record --since v1.0 --engine anthropic
    """
    from memory_ci.flows.apply import apply_plan
    from memory_ci.flows.record import RecordOptions, plan_record

    where = committed_workspace()
    with progress("Reading merged work") as advance:
        plan = plan_record(where, RecordOptions(**arguments), today(), advance, os.environ)  # type: ignore[arg-type] # click's own types
    applied = None
    if not dry_run:
        applied = apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
    if as_json:
        echo_json({"plan": plan, "applied": applied})
    else:
        click.echo(render_plan(plan), nl=False)
    if applied is not None and applied.subjects and not as_json:
        branch = printable(applied.ref.removeprefix("refs/heads/"))
        click.echo(f"\nCommitted on {branch}, now at {applied.tip[:10]}:")
        for subject in applied.subjects:
            click.echo(f"  {printable(subject)}")
    if plan.engine.failure:
        click.echo(f"Warning: the engine stopped: {printable(plan.engine.failure)}", err=True)
        if fail_on == "engine":
            sys.exit(EngineError.exit_code)
