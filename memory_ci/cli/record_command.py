"""memory-ci record"""

from __future__ import annotations

import os

import click

from memory_ci.cli.common import committed_workspace, dry_run_option, echo_json, json_option, now, progress, today
from memory_ci.rendering.plan import render_plan
from memory_ci.rendering.table import printable


@click.command()
@click.option("--since", metavar="REV", help="Begin after this revision instead of where the last run ended.")
@click.option("--branch", metavar="NAME", help="Record on this branch instead of the one that is checked out.")
@dry_run_option
@json_option
def command(since: str | None, branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Turn merged work into committed memory.

    Reads what was merged since the last run, folds the inbox, extracts what authors marked as learnings and
    reinforces what the work was given. Each step is a commit of its own, made only if it changes something; running
    again changes nothing. Your index and your other files are not touched.

    \b
    Example:
      memory-ci record --dry-run
      memory-ci record
      memory-ci record --since v1.0
    """
    from memory_ci.flows.apply import apply_plan
    from memory_ci.flows.record import RecordOptions, plan_record

    where = committed_workspace()
    with progress("Reading merged work") as advance:
        plan = plan_record(where, RecordOptions(since, branch), today(), advance)
    applied = None
    if not dry_run:
        applied = apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
    if as_json:
        echo_json({"plan": plan, "applied": applied})
        return
    click.echo(render_plan(plan), nl=False)
    if applied is not None and applied.subjects:
        branch = printable(applied.ref.removeprefix("refs/heads/"))
        click.echo(f"\nCommitted on {branch}, now at {applied.tip[:10]}:")
        for subject in applied.subjects:
            click.echo(f"  {printable(subject)}")
