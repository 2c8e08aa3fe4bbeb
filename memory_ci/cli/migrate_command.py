"""memory-ci migrate"""

from __future__ import annotations

import os

import click

from memory_ci.cli.common import committed_workspace, dry_run_option, echo_json, json_option, now
from memory_ci.cli.upkeep import branch_option
from memory_ci.rendering.table import printable


@click.command()
@click.option("--to", type=click.IntRange(min=1), metavar="N", help="Another format than the newest, such as the last.")
@branch_option
@dry_run_option
@json_option
def command(to: int | None, branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring the memory files of a branch to the newest format, or back.

    One commit, if anything changes. What this version does not know stays as it is. docs/compatibility.md says what a
    format is.

    \b
    Example:
      memory-ci migrate --dry-run
      memory-ci migrate --to 1
    """
    from memory_ci.flows.guard.migrate import migrate

    in_actions = "GITHUB_ACTIONS" in os.environ
    done = migrate(committed_workspace(), branch, to, now(), dry_run=dry_run, in_actions=in_actions)
    if as_json:
        echo_json(done)
    elif not done.files:
        click.echo(f"Nothing to do: the files are of format {done.after}.")
    else:
        click.echo(f"{'Would migrate' if dry_run else 'Migrated'} from format {done.before} to {done.after}:")
        click.echo("".join(f"  {printable(path)}\n" for path in done.files), nl=False)
