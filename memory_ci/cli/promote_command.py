"""memory-ci promote"""

from __future__ import annotations

import click

from memory_ci.cli.upkeep import run_upkeep, upkeep_options


@click.command()
@upkeep_options
def command(branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Move entries that recur up one scope: from a team or session to the project.

    An entry recurs when three or more sessions or merged changes brought it. One commit, if anything changes;
    `record` does the same at its end.

    \b
    Example:
      memory-ci promote --dry-run
    """
    run_upkeep("promote", branch, dry_run, as_json)
