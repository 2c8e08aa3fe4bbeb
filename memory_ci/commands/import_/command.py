"""The command line of `memory-ci import`."""

from __future__ import annotations

from pathlib import Path

import click

from memory_ci.cli.common import change_options, flag, option, show
from memory_ci.cli.plain import (
    progress,
    today,
    workspace,
)
from memory_ci.findings import printable, render_finding


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@option(
    "--from",
    "source",
    required=True,
    choices=["teaparty", "claude-code", "legacy"],
    help="Which memory wrote the files.",
)
@option(
    "--scope",
    metavar="SCOPE",
    help="Where the entries belong [default: the file's own scope, else project].",
)
@flag("--replace", help="Put the entries into the files themselves, which must be memory files.")
@change_options
def import_command(
    paths: tuple[Path, ...],
    source: str,
    scope: str | None,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take over what another memory holds.

    Each learning gets an id once and for all and becomes an entry in the inbox; the files it came from stay as they
    are. Importing again adds nothing. What must not be in memory is refused, what fits no known format is left alone,
    and both are listed with their lines. Exit status 1 means that something was refused.

    \b
    Example:
      memory-ci import --from claude-code ~/.claude/projects/-home-ada-shop/memory
      memory-ci import --from legacy --replace MEMORY.md
    """
    from memory_ci.commands.import_.importer import ImportOptions, import_memory

    options = ImportOptions(source, scope, replace, dry_run)  # type: ignore[arg-type] # click.Choice has checked it
    with progress("Importing"):
        report = import_memory(workspace(), paths, options, today())
    verb = "would import" if dry_run else "imported"
    lines = [
        f"{verb} {one.path}:{one.line}: {one.title} -> {one.target}" for one in report.imported
    ]
    for one in report.known:
        where = (
            f"as {one.id[:8]} in {one.target}"
            if one.target
            else "and was taken out of memory before"
        )
        lines.append(f"known {one.path}:{one.line}: {one.title} ({where})")
    left = [f"refused {render_finding(one)}" for one in report.refused]
    left += [f"left alone {render_finding(one)}" for one in report.not_understood]
    counts = map(len, (report.known, report.refused, report.not_understood))
    left.append(
        "{} {}, {} known already, {} refused, {} not understood".format(
            len(report.imported), verb, *counts
        )
    )
    show({"dry_run": dry_run, "report": report}, map(printable, lines), as_json, left)
    raise SystemExit(1 if report.refused else 0)
