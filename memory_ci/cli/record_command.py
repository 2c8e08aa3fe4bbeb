"""memory-ci record"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from memory_ci.flows.apply import Applied
    from memory_ci.flows.backfill import Pending
    from memory_ci.records.plan import Plan

POLL_SECONDS = 60
"""Between two looks at the batches of a backfill, which take minutes to hours."""


@click.command()
@range_options
@click.option("--backfill", is_flag=True, help="Ask the model in batches, at half price; run again to collect.")
@click.option("--wait", is_flag=True, help="With --backfill: wait until the batches have ended.")
@click.option("--fail-on", type=click.Choice(["engine"]), help="Exit with status 5 when the engine failed.")
@dry_run_option
@json_option
def command(
    backfill: bool, wait: bool, fail_on: str | None, dry_run: bool, as_json: bool, **arguments: RangeArguments
) -> None:
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
      memory-ci record --backfill --wait
    """
    from memory_ci.flows.apply import apply_plan
    from memory_ci.flows.backfill import Backfill, Pending
    from memory_ci.flows.record import RecordOptions, plan_record

    if wait and not backfill:
        raise click.UsageError("--wait is for --backfill")
    arguments["fetch"] = bool(arguments["fetch"]) and not dry_run
    where, options = committed_workspace(), RecordOptions(**arguments)  # type: ignore[arg-type] # click's own types
    batches = None
    with progress("Reading merged work") as advance:
        if backfill:
            batches = Backfill(where, options, now(), advance, os.environ)
            plan = batches.plan(_wait if wait else None, dry_run=dry_run)
        else:
            plan = plan_record(where, options, today(), advance, os.environ)
    if isinstance(plan, Pending):
        echo_json({"backfill": plan}) if as_json else click.echo(str(plan))
        return
    applied = None
    if not dry_run:
        applied = apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
        if batches:
            batches.finish(plan)
    if as_json:
        echo_json({"plan": plan, "applied": applied})
    else:
        _show(plan, applied)
    if plan.engine.failure:
        click.echo(f"Warning: the run stopped: {printable(plan.engine.failure)}", err=True)
        if fail_on == "engine":
            sys.exit(EngineError.exit_code)


def _show(plan: Plan, applied: Applied | None) -> None:
    click.echo(render_plan(plan), nl=False)
    if applied is not None and applied.subjects:
        branch = printable(applied.ref.removeprefix("refs/heads/"))
        click.echo(f"\nCommitted on {branch}, now at {applied.tip[:10]}:")
        for subject in applied.subjects:
            click.echo(f"  {printable(subject)}")


def _wait(pending: Pending) -> None:
    """Say on stderr how far the batches are, and sleep."""
    click.echo(f"Batches: {pending.estimate.batches}, ended: {pending.ended}", err=True)
    time.sleep(POLL_SECONDS)
