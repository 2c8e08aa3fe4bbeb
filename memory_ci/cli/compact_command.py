"""memory-ci compact"""

from __future__ import annotations

import click

from memory_ci.cli.upkeep import run_upkeep, upkeep_options


@click.command()
@upkeep_options
def command(branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Unite entries that say the same, and take retired ones out.

    One commit, if anything changes. An id that is merged away stands in `supersedes` of the entry that stays, and is
    still found by `show` and `log`; what was retired is in git's history: `memory-ci show ID --at REV`. `record` does
    the same at its end.

    \b
    Example:
      memory-ci compact --dry-run
    """
    run_upkeep("compact", branch, dry_run, as_json)
