"""memory-ci episode"""

from __future__ import annotations

from typing import get_args

import click

from memory_ci.cli.common import dry_run_option, echo_json, has_input, json_option, now, read_input, utf8, workspace
from memory_ci.records.episode import Outcome, Situation
from memory_ci.rendering.table import printable


@click.command()
@click.argument("text", nargs=-1)
@click.option(
    "--outcome", type=click.Choice(get_args(Outcome)), default="neutral", show_default=True, help="What came of it."
)
@click.option(
    "--valence", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How much it matters, 0 to 1."
)
@click.option("--domain", default="", metavar="WORD", help="The part of the work it belongs to.")
@click.option("--topic", default="", metavar="WORDS", help="What it was about.")
@click.option("--file", default="", metavar="PATH", help="The file that was worked on.")
@click.option("--tool", default="", metavar="NAME", help="The tool that was used.")
@click.option("--session", metavar="JOB", help="Tell it to this session only.")
@dry_run_option
@json_option
def command(
    text: tuple[str, ...],
    outcome: Outcome,
    valence: float,
    domain: str,
    topic: str,
    file: str,
    tool: str,
    session: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Note what was tried and what came of it.

    It becomes a file of its own under .memory/episodes/, which `memory-ci recall` finds. Without TEXT it is read from
    standard input. The same text again is known already.

    \b
    Example:
      memory-ci episode "Tried a queue for retries; the worker starved" --outcome failure --domain payments
    """
    from memory_ci.flows.inbox.episode import create_episode

    if not text and not has_input():
        raise click.UsageError('Say what happened: memory-ci episode "…", or pipe it in.')
    noted = create_episode(
        workspace(),
        utf8(" ".join(text)) if text else read_input(),
        {name: utf8(value) for name, value in (("file", file), ("tool", tool)) if value},
        outcome,
        valence,
        session,
        now(),
        situation=Situation(domain=utf8(domain), topic=utf8(topic)),
        dry_run=dry_run,
    )
    if noted.left_out:
        click.echo(f"Note: not kept, for it is not of this repository: {', '.join(noted.left_out)}", err=True)
    if as_json:
        echo_json(noted)
    elif not noted.is_new:
        click.echo(f"Known already as {noted.episode.id} in {printable(noted.path)}; nothing written.")
    else:
        click.echo(f"{'Would note' if dry_run else 'Noted'} {printable(noted.path)}\n{noted.episode.id}")
        if not dry_run:
            click.echo("Commit it with your work.", err=True)
