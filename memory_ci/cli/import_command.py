"""memory-ci import"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, today, workspace
from memory_ci.rendering.table import printable, render_finding

if TYPE_CHECKING:
    from memory_ci.flows.inbox.importer import ImportReport


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Choice(["teaparty", "claude-code", "legacy"]),
    help="Which memory wrote the files.",
)
@click.option(
    "--scope", metavar="SCOPE", help="Where the entries belong [default: the file's own scope, else project]."
)
@click.option("--replace", is_flag=True, help="Put the entries into the files themselves, which must be memory files.")
@dry_run_option
@json_option
def command(
    paths: tuple[Path, ...], source: str, scope: str | None, replace: bool, dry_run: bool, as_json: bool
) -> None:
    """Take over what another memory holds.

    Each learning gets an id once and for all and becomes an entry in the inbox; the files it came from stay as they
    are. Importing again adds nothing. What must not be in memory is refused, what fits no known format is left alone,
    and both are listed with their lines. Exit status 1 means that something was refused.

    \b
    Example:
      memory-ci import --from claude-code ~/.claude/projects/-home-ada-shop/memory --dry-run
      memory-ci import --from legacy --replace MEMORY.md
    """
    from memory_ci.flows.inbox.importer import ImportOptions, import_memory

    options = ImportOptions(source, scope, replace, dry_run)  # type: ignore[arg-type] # click.Choice has checked it
    report = import_memory(workspace(), paths, options, today())
    if as_json:
        echo_json({"dry_run": dry_run, "report": report})
    else:
        _print(report, "would import" if dry_run else "imported")
    raise SystemExit(1 if report.refused else 0)


def _print(report: ImportReport, verb: str) -> None:
    """What was taken on stdout; what was left, and the sums, on stderr."""
    for taken in report.imported:
        click.echo(printable(f"{verb} {taken.path}:{taken.line}: {taken.title} -> {taken.target}"))
    for taken in report.known:
        where = f"as {taken.id[:8]} in {taken.target}" if taken.target else "and was taken out of memory before"
        click.echo(printable(f"known {taken.path}:{taken.line}: {taken.title} ({where})"))
    for finding in report.refused:
        click.echo(f"refused {render_finding(finding)}", err=True)
    for finding in report.not_understood:
        click.echo(f"left alone {render_finding(finding)}", err=True)
    sums = (report.imported, report.known, report.refused, report.not_understood)
    click.echo(
        "{} {verb}, {} known already, {} refused, {} not understood".format(*map(len, sums), verb=verb), err=True
    )
