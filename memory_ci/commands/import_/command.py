"""The command line of `memory-ci import`, which reads the memory that another tool keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import change_options, flag, option, show
from memory_ci.cli.plain import open_current_workspace, progress, today
from memory_ci.findings import printable, render_finding

if TYPE_CHECKING:
    from memory_ci.commands.import_.importer import ImportReport


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@option(
    "--from",
    "source",
    required=True,
    choices=["teaparty", "claude-code", "legacy"],
    help="The tool that wrote the files.",
)
@option(
    "--scope",
    metavar="SCOPE",
    help="The scope of the entries [default: that of the file, else project].",
)
@flag("--replace", help="Write the entries into the files themselves, which must be memory files.")
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
    """Import the learnings that another tool keeps in files.

    Each learning becomes an entry in the inbox, with an id that never changes; the files stay as
    they are. Importing again adds nothing. Text that must not be in memory is refused, text of no
    known format is ignored, and both are listed with their lines. Exit status 1 means that
    something was refused.

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
    lines = [printable(line) for line in _iter_learning_lines(report, verb)]
    result = {"dry_run": dry_run, "report": report}
    show(result, lines, as_json, _list_remarks(report, verb))
    raise SystemExit(1 if report.refused else 0)


def _iter_learning_lines(report: ImportReport, verb: str) -> Iterator[str]:
    """Yield a line for each learning that was imported or known; `verb` is such as `imported`."""
    for learning in report.imported:
        place = f"{learning.path}:{learning.line}"
        yield f"{verb} {place}: {learning.title} -> {learning.entry_path}"
    for learning in report.known:
        place = f"{learning.path}:{learning.line}"
        reason = "and was taken out of memory before"
        if learning.entry_path:
            reason = f"as {learning.id[:8]} in {learning.entry_path}"
        yield f"known {place}: {learning.title} ({reason})"


def _list_remarks(report: ImportReport, verb: str) -> list[str]:
    """Return the lines for stderr: the findings, and a last line of counts."""
    remarks = [f"refused {render_finding(finding)}" for finding in report.refused]
    remarks += [f"left alone {render_finding(finding)}" for finding in report.not_understood]
    counts = (
        f"{len(report.imported)} {verb}, {len(report.known)} known already, "
        f"{len(report.refused)} refused, {len(report.not_understood)} not understood"
    )
    return [*remarks, counts]
