"""memory-ci premortem"""

from __future__ import annotations

import os
from pathlib import Path

import click

from memory_ci.cli.common import dry_run_option, echo_json, engine_option, json_option, read_input, today, workspace
from memory_ci.records.config import EngineName
from memory_ci.rendering.table import printable, printable_lines


@click.command()
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True), default="-")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Where the job's files are, if not here.",
)
@click.option("--force", is_flag=True, help="Replace a pre-mortem that is there.")
@engine_option
@dry_run_option
@json_option
def command(plan: Path, directory: Path, force: bool, engine: EngineName | None, dry_run: bool, as_json: bool) -> None:
    """Write down what may go wrong with a plan, before the work.

    Reads the plan from a file or standard input, and writes .premortem.md: what memory knows to have gone wrong with
    such work, and, where a model is configured, what it expects. Commit it with the work: when that is merged,
    `record` holds one against the other.

    \b
    Example:
      memory-ci premortem PLAN.md
      echo "Retry failed charges" | memory-ci premortem --dry-run
    """
    from memory_ci.flows.inbox.job import read_plan, write_premortem
    from memory_ci.flows.model import choose_model

    where = workspace()
    model = choose_model(where.config.engine, engine, os.environ)
    text = read_input() if str(plan) == "-" else read_plan(plan)
    written = write_premortem(where, directory, text, today(), model.engine, force=force, dry_run=dry_run)
    if as_json:
        echo_json(written)
        return
    if written.warning:
        click.echo(f"Warning: {printable(written.warning)}", err=True)
    click.echo(printable_lines(written.text) if dry_run else f"Written: {printable(written.path)}", nl=not dry_run)
