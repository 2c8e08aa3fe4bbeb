"""The command line of `memory-ci export`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from memory_ci.cli.common import change_options, option, show
from memory_ci.cli.plain import open_current_workspace, shorten_path
from memory_ci.findings import printable


@click.command("export")
@option(
    "--to",
    "target",
    choices=("agents-md",),
    required=True,
    expose_value=False,  # there is one so far
    help="What to write.",
)
@click.argument("path", required=False, type=click.Path(path_type=Path, dir_okay=False))
@change_options
def export_command(path: Path | None, dry_run: bool, as_json: bool) -> None:
    """Write memory into AGENTS.md, for agents without memory-ci.

    The norms, and then the entries that were used most, are written into a marked block of at most
    4,000 characters. The file is PATH, else the value of `export.path`; text outside the block
    stays unchanged. `check` reports a block that is out of date; with `export.record: true` in the
    configuration each `record` updates it.

    \b
    Example:
      memory-ci export --to agents-md
    """
    from memory_ci.memory.agents_block import export_block

    target_path = Path.cwd() / path if path else None
    current_workspace = open_current_workspace()
    block = export_block(current_workspace, target_path, dry_run=dry_run)
    result: str = block.result
    if dry_run and result == "written":
        result = "would be written"
    shown_path = shorten_path(block.path, current_workspace.repo.root)
    text = f"{result} {shown_path}\n"
    if dry_run:
        text += "".join(f"\n{printable(line)}" for line in block.lines)
    show({"dry_run": dry_run, **msgspec.structs.asdict(block)}, text, as_json)
