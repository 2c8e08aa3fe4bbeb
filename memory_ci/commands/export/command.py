"""The command line of `memory-ci export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from memory_ci.cli.common import change_options, option, show
from memory_ci.cli.plain import workspace
from memory_ci.findings import printable

if TYPE_CHECKING:
    pass


@click.command("export")
@option("--to", "target", choices=("agents-md",), required=True, help="What to write.")
@click.argument("path", required=False, type=click.Path(path_type=Path, dir_okay=False))
@change_options
def export_command(target: str, path: Path | None, dry_run: bool, as_json: bool) -> None:
    """Write what memory holds into AGENTS.md, for agents that have nothing installed.

    Norms, then the entries that were used most, within 4,000 characters, in a marked block of the file that
    `export.path` names, or of PATH. All else in the file stays. `check` says when the block is out of date; with
    `export.record: true` in the configuration each `record` keeps it.

    \b
    Example:
      memory-ci export --to agents-md
    """
    from memory_ci.memory.agents_block import export

    done = export(workspace(), path and Path.cwd() / path, dry_run=dry_run)
    would = "would be " if dry_run and done.result == "written" else ""
    lines = "".join(f"\n{printable(line)}" for line in done.lines) if dry_run else ""
    show(
        {"dry_run": dry_run, **msgspec.structs.asdict(done)},
        f"{would}{done.result} {done.path}\n{lines}",
        as_json,
    )
