"""memory-ci check"""

from __future__ import annotations

from pathlib import Path

import click

from memory_ci.cli.common import at_option, echo_json, json_option, workspace
from memory_ci.rendering.table import render_finding
from memory_ci.text import plural


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--staged", is_flag=True, help="Check what the next commit would hold.")
@at_option
@json_option
def command(paths: tuple[Path, ...], staged: bool, view: str | None, as_json: bool) -> None:
    """Check that every memory file is in order.

    Findings are printed as FILE:LINE. Files are read, never rewritten. Exit status 1 means that there are errors;
    warnings alone leave it 0.

    \b
    Example:
      memory-ci check
      memory-ci check --staged
    """
    from memory_ci.flows.check import check_memory
    from memory_ci.flows.workspace import STAGED

    if staged and view:
        raise click.UsageError("--staged and --at are two views: choose one.")
    report = check_memory(workspace(), STAGED if staged else view, paths)
    if as_json:
        echo_json({"ok": report.is_ok, "files": report.files, "entries": report.entries, "findings": report.findings})
    else:
        for finding in report.findings:
            click.echo(render_finding(finding))
        errors = sum(finding.level == "error" for finding in report.findings)
        verdict = f"{plural(errors, 'error')}, " if report.findings else ""
        more = f"{plural(len(report.findings) - errors, 'warning')}, " if len(report.findings) > errors else ""
        click.echo(
            f"{verdict}{more}{plural(report.entries, 'entry')} in {plural(report.files, 'file')} checked", err=True
        )
    raise SystemExit(0 if report.is_ok else 1)
