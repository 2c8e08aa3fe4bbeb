"""memory-ci verify"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import committed_workspace, echo_json
from memory_ci.rendering.annotations import render_annotations
from memory_ci.rendering.table import count_levels, render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.flows.guard.check import CheckReport


@click.command()
@click.option("--base", metavar="REV", help="What the change is to be merged into; default: the default branch.")
@click.option("--head", metavar="REV", default="HEAD", help="The change.", show_default=True)
@click.option(
    "--fork", "is_fork", is_flag=True, help="The change comes from a fork: of memory it may add to the inbox."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github", "json"]),
    default="text",
    help="Lines, annotations of GitHub Actions, or JSON.",
    show_default=True,
)
def command(base: str | None, head: str, is_fork: bool, form: str) -> None:
    """Check what a change does to memory, before it is merged.

    Besides what `check` finds: entries that come back from the dead, entries that a merge dropped, what a fork may not
    change, priorities that no person set, entries whose code the change touches, and whether the index builds. Commits
    alone are read; nothing is written, and no secret is needed. Exit status 1 means that there are errors.

    \b
    Example:
      memory-ci verify
      memory-ci verify --base origin/main --head HEAD --format github
    """
    from memory_ci.flows.guard.verify import verify_change

    report = verify_change(committed_workspace(), base, head, is_fork=is_fork)
    show_report(report, form)
    raise SystemExit(0 if report.is_ok else 1)


def show_report(report: CheckReport, form: str) -> None:
    """Findings on stdout, for a person, a runner or a program; the verdict on stderr."""
    if form == "json":
        echo_json({"ok": report.is_ok, "files": report.files, "entries": report.entries, "findings": report.findings})
        return
    if form == "github":
        click.echo(render_annotations(report.findings, secrets.token_hex(16)), nl=False)
    else:
        click.echo("".join(f"{render_finding(finding)}\n" for finding in report.findings), nl=False)
    click.echo(say_verdict(report), err=True)


def say_verdict(report: CheckReport) -> str:
    """How many findings of each level, in what."""
    counted = count_levels(report.findings) or "nothing found"
    return f"{counted}: {plural(report.entries, 'entry')} in {plural(report.files, 'file')}"
