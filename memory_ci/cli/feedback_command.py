"""memory-ci feedback"""

from __future__ import annotations

from typing import get_args

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, now, utf8, warn, workspace
from memory_ci.records.episode import Feedback, FeedbackKind
from memory_ci.rendering.table import printable


@click.command()
@click.argument("entry_id", metavar="ID")
@click.argument("kind", type=click.Choice(get_args(FeedbackKind)))
@click.option("--ref", default="", metavar="REF", help="The work it is about: pr:128, or commit:9d0c3f2.")
@click.option("--by", default="", metavar="NAME", help="Who says so; default: git's user.name.")
@click.option("--at", "when", metavar="TIME", help="When, as ISO 8601 (UTC where it names no zone); default: now.")
@dry_run_option
@json_option
def command(
    entry_id: str, kind: FeedbackKind, ref: str, by: str, when: str | None, dry_run: bool, as_json: bool
) -> None:
    """Say whether an entry helped.

    It becomes a file of its own under .memory/episodes/, and moves the entry's utility. ID is an entry's id or at least
    8 characters of its start. What was said of one entry, kind and --ref is noted once, whoever says it.

    \b
    Example:
      memory-ci feedback 0f6f1f0e confirmed --ref pr:128
      memory-ci feedback 0f6f1f0e undone --ref commit:9d0c3f2 --dry-run
    """
    from memory_ci.flows.inbox.feedback import give_feedback, parse_time

    at = parse_time(when) if when is not None else now().replace(microsecond=0)
    said = Feedback(id=utf8(entry_id), kind=kind, at=at, by=utf8(by), ref=utf8(ref))
    given = give_feedback(workspace(), said, dry_run=dry_run)
    warn(given.findings)
    if as_json:
        echo_json(given)
    elif not given.is_new:
        click.echo(f"Noted already; nothing written. Utility of {given.feedback.id[:8]}: {given.before:.2f}")
    else:
        click.echo(f"{'Would write' if dry_run else 'Wrote'} {printable(given.path)}")
        click.echo(f"Utility of {given.feedback.id[:8]}: {given.before:.2f} -> {given.after:.2f}")
        if given.feedback.ref and not given.amends:
            click.echo(f"Note: no episode is known of {printable(given.feedback.ref)}.", err=True)
        if not dry_run:
            click.echo("Commit it, on its own or with your work.", err=True)
