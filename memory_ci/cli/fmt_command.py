"""memory-ci fmt"""

from __future__ import annotations

from pathlib import Path

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, warn, workspace
from memory_ci.rendering.table import printable
from memory_ci.text import plural


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--check", "is_check", is_flag=True, help="Change nothing; exit status 1 if a file is not canonical.")
@dry_run_option
@json_option
def command(paths: tuple[Path, ...], is_check: bool, dry_run: bool, as_json: bool) -> None:
    """Write memory files in their canonical form.

    Keys in one order, quoted alike, one blank line between entries. Prose, comments, unknown keys and line endings
    stay; what cannot be read is not touched. All memory files, or those of PATHS.

    \b
    Example:
      memory-ci fmt
      memory-ci fmt --check MEMORY.md
    """
    from memory_ci.flows.guard.fmt import format_memory

    is_dry = dry_run or is_check
    report = format_memory(workspace(), paths, dry_run=is_dry)
    warn(report.findings)
    if as_json:
        echo_json({"ok": not report.changed, "files": report.files, "changed": report.changed, "written": not is_dry})
    else:
        for path in report.changed:
            click.echo(f"{'would format' if is_dry else 'formatted'} {printable(path)}")
        click.echo(f"{plural(report.files, 'file')}, {len(report.changed)} not canonical", err=True)
    raise SystemExit(1 if is_check and report.changed else 0)
