"""memory-ci bisect"""

from __future__ import annotations

import click

from memory_ci.cli.common import echo_json, json_option, today, utf8, workspace
from memory_ci.rendering.table import printable
from memory_ci.text import plural


@click.command()
@click.argument("query")
@click.option("--expect", "expected", required=True, metavar="ID", help="The entry that should be found, or its start.")
@click.option("--good", metavar="REV", help="A revision that had it. Without it one is searched.")
@click.option("--bad", metavar="REV", default="HEAD", show_default=True, help="A revision that has lost it.")
@click.option("--top", type=int, default=10, show_default=True, metavar="K", help="Among the best K it should be.")
@json_option
def command(query: str, expected: str, good: str | None, bad: str, top: int, as_json: bool) -> None:
    """Find the commit that lost an entry from the answer to a query.

    Only commits that touched memory are asked, all as on this day; nothing is checked out.

    \b
    Example:
      memory-ci bisect "retry failed payments" --expect 3f2ab91c
    """
    from memory_ci.flows.measure.bisect import Question, bisect

    if not expected.strip():
        raise click.UsageError("--expect names no entry.")
    report = bisect(workspace(), Question(utf8(query), expected, top, good, bad), today())
    if as_json:
        echo_json(report)
        return
    asked = f"({plural(report.probed, 'commit')} asked)"
    if report.loss is None:
        click.echo(f"Still found, at rank {report.rank} {asked}.")
        return
    loss = report.loss
    now = f"rank {loss.after}" if loss.after is not None else "not found"
    click.echo(f"{loss.sha[:12]} {loss.day} {printable(loss.subject)}")
    click.echo(f"rank {loss.before} before, {now} after {asked}")
    for reason in loss.why:
        click.echo(f"- {printable(reason)}")
