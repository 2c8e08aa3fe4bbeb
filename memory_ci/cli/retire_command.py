"""memory-ci retire"""

from __future__ import annotations

import click

from memory_ci.cli.upkeep import run_upkeep, upkeep_options


@click.command()
@click.option("--stale", is_flag=True, help="Also retire entries whose code has been gone for long.")
@click.option(
    "--after",
    "after_days",
    type=click.IntRange(min=0),
    default=90,
    show_default=True,
    metavar="DAYS",
    help="With --stale: how long their code must have been gone.",
)
@upkeep_options
def command(stale: bool, after_days: int, branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Retire entries of a project stage that has ended, or whose code is gone.

    A retired entry is no longer given to agents, and the next compaction takes it out. Pinned entries stay.

    \b
    Example:
      memory-ci retire --dry-run
      memory-ci retire --stale --after 180
    """
    run_upkeep("retire", branch, dry_run, as_json, after_days if stale else None)
