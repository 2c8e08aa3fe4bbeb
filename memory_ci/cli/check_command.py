"""memory-ci check"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import at_option, dry_run_option, echo_json, json_option, today, workspace
from memory_ci.rendering.table import count_levels, printable, render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.flows.guard.check import CheckReport


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--staged", is_flag=True, help="Check what the next commit would hold.")
@click.option(
    "--range",
    "written_range",
    metavar="A..B",
    help="Look at these commits, too: whose code they touch, who set a priority.",
)
@at_option
@click.option(
    "--fix",
    is_flag=True,
    help="First make entries of what was written by hand, and move what this branch added into the inbox.",
)
@click.option("--base", metavar="REV", help="With --fix: where this branch started from; default: the default branch.")
@dry_run_option
@json_option
def command(
    paths: tuple[Path, ...],
    staged: bool,
    written_range: str | None,
    view: str | None,
    fix: bool,
    base: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Check that every memory file is in order.

    Findings are printed as FILE:LINE. Files are read, and rewritten only by --fix. Exit status 1 means that there are
    errors; warnings alone leave it 0.

    \b
    Example:
      memory-ci check
      memory-ci check --staged
      memory-ci check --range origin/main..HEAD
      memory-ci check --fix --dry-run
    """
    from memory_ci.flows.guard.check import check_memory
    from memory_ci.flows.guard.fix import adopt_by_hand, move_to_inbox
    from memory_ci.flows.guard.range_findings import add_priorities, add_touched
    from memory_ci.flows.workspace import STAGED

    if staged and view:
        raise click.UsageError("--staged and --at are two views: choose one.")
    if fix and (staged or view or paths):
        raise click.UsageError("--fix is about the whole work tree: give no paths, no --staged and no --at.")
    if (base or dry_run) and not fix:
        raise click.UsageError("--base and --dry-run belong to --fix.")
    where = workspace(is_quiet=True)  # what is told on stderr elsewhere is a finding here
    adopted = adopt_by_hand(where, today(), dry_run=dry_run) if fix else ()
    moved = move_to_inbox(where, base, dry_run=dry_run) if fix else ()
    report = check_memory(where, STAGED if staged else view, paths)
    if written_range is not None:
        report = add_priorities(where, add_touched(where, report, written_range), written_range)
    if as_json:
        counted = {"ok": report.is_ok, "files": report.files, "entries": report.entries, "findings": report.findings}
        echo_json(counted | ({"adopted": adopted, "moved": moved, "dry_run": dry_run} if fix else {}))
    else:
        for one in adopted:
            given = ", ".join(one.fields) or "a front matter"
            would = "would give" if dry_run else "gave"
            click.echo(printable(f"{would} {one.title!r} at {one.path}:{one.line} {given}"))
        for entry in moved:
            click.echo(f"{'would move' if dry_run else 'moved'} {entry.title!r} from {entry.source} to {entry.path}")
        _show(report)
    raise SystemExit(0 if report.is_ok else 1)


def _show(report: CheckReport) -> None:
    """Findings on stdout, the verdict on stderr."""
    for finding in report.findings:
        click.echo(render_finding(finding))
    counted = count_levels(report.findings)
    found = f"{counted}, " if counted else ""
    click.echo(f"{found}{plural(report.entries, 'entry')} in {plural(report.files, 'file')} checked", err=True)
