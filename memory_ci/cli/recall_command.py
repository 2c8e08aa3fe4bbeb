"""memory-ci recall"""

from __future__ import annotations

import os
from datetime import datetime
from typing import get_args

import click

from memory_ci.cli.common import echo_json, has_input, json_option, now, read_input, utf8, workspace
from memory_ci.cli.retrieve_command import DAY, parse_days
from memory_ci.records.episode import Outcome, Ranking
from memory_ci.rendering.table import printable


@click.command()
@click.argument("query", nargs=-1)
@click.option("--ranking", type=click.Choice(get_args(Ranking)), help="Instead of `episodes.ranking`.")
@click.option("--limit", type=int, default=10, show_default=True, metavar="N", help="At most this many episodes.")
@click.option("--at", metavar="REV|DAY", help="The episodes of a commit, or of the end of a day (UTC), ranked as then.")
@click.option(
    "--occurred-between", nargs=2, type=DAY, metavar="DAY DAY", help="Only what happened then, both included."
)
@click.option(
    "--outcome", "outcomes", type=click.Choice(get_args(Outcome)), multiple=True, help="Only what ended like this."
)
@click.option("--session", metavar="JOB", help="The job that asks: it sees the episodes of its own session too.")
@click.option("--all-sessions", is_flag=True, help="See the episodes of all sessions.")
@click.option("--explain", is_flag=True, help="Print the factors of each score.")
@json_option
def command(
    query: tuple[str, ...],
    ranking: Ranking | None,
    limit: int,
    at: str | None,
    occurred_between: tuple[datetime, datetime] | None,
    outcomes: tuple[Outcome, ...],
    session: str | None,
    all_sessions: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Print the episodes that answer a question: what was done, and what came of it.

    Episodes are noted by `record` for each merged or declined change, and by hand with `memory-ci episode`. Without
    QUERY the text is read from standard input. Nothing like it: nothing printed.

    \b
    Example:
      memory-ci recall "retry failed payments"
      memory-ci recall "what did we try for retries" --ranking t4dm --outcome failure --explain
    """
    from memory_ci.flows.serve.recall import recall_episodes
    from memory_ci.rendering.sessions import render_recalled

    if not query and not has_input():
        raise click.UsageError('Say what is asked: memory-ci recall "…", or pipe it in.')
    recalled = recall_episodes(
        workspace(),
        utf8(" ".join(query)) if query else read_input(),
        now=now(),
        ranking=ranking,
        limit=limit,
        session=session,
        all_sessions=all_sessions,
        outcomes=outcomes,
        occurred=parse_days(occurred_between),
        at=at,
        environ=os.environ,
    )
    for note in recalled.notes:
        click.echo(f"Note: {printable(note)}", err=True)
    if as_json:
        echo_json(recalled)
    else:
        click.echo(render_recalled(recalled, explain=explain), nl=False)
