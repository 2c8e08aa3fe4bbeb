"""The command line of `memory-ci import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import change_options, flag, option, show
from memory_ci.cli.plain import open_current_workspace, progress, today
from memory_ci.findings import printable, render_finding

if TYPE_CHECKING:
    from memory_ci.commands.import_.importer import Taken


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
    *,
    paths: tuple[Path, ...],
    source: str,
    scope: str | None,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take over what another memory holds.

    Each learning gets an id once and for all and becomes an entry in the inbox; the files it came
    from stay as they are. Importing again adds nothing. What must not be in memory is refused, what
    fits no known format is left alone, and both are listed with their lines. Exit status 1 means
    that something was refused.

    \b
    Example:
      memory-ci import --from claude-code ~/.claude/projects/-home-ada-shop/memory
      memory-ci import --from legacy --replace MEMORY.md
    """
    from memory_ci.commands.import_.importer import ImportOptions, import_memory

    # click restricts the value of --from.
    options = ImportOptions(source, scope, replace, dry_run)  # type: ignore[arg-type]
    with progress("Importing"):
        report = import_memory(open_current_workspace(), paths, options, today())

    verb = "would import" if dry_run else "imported"
    lines = [f"{verb} {_place(taken)} -> {taken.target}" for taken in report.imported]
    for taken in report.known:
        reason = "and was taken out of memory before"
        if taken.target:
            reason = f"as {taken.id[:8]} in {taken.target}"
        lines.append(f"known {_place(taken)} ({reason})")

    remarks = [f"refused {render_finding(finding)}" for finding in report.refused]
    remarks += [f"left alone {render_finding(finding)}" for finding in report.not_understood]
    remarks.append(
        f"{len(report.imported)} {verb}, {len(report.known)} known already, "
        f"{len(report.refused)} refused, {len(report.not_understood)} not understood"
    )
    result = {"dry_run": dry_run, "report": report}
    show(result, [printable(line) for line in lines], as_json, remarks)
    raise SystemExit(1 if report.refused else 0)


def _place(taken: Taken) -> str:
    return f"{taken.path}:{taken.line}: {taken.title}"
