"""memory-ci health"""

from __future__ import annotations

import os
from typing import get_args

import click

from memory_ci.cli.common import echo_json, json_option, today, workspace
from memory_ci.records.health import Profile


@click.command()
@click.option("--at", metavar="REV|DATE", help="Look at this revision or day, with that day for today.")
@click.option("--history", is_flag=True, help="A line for today and for the end of each month, the newest twelve.")
@click.option(
    "--profile", type=click.Choice(get_args(Profile)), help="By whose definitions, instead of `health.profile`."
)
@json_option
def command(at: str | None, history: bool, profile: Profile | None, as_json: bool) -> None:
    """Say how well memory is kept, and what to do about what is weak.

    Five metrics from 0 to 100 and their mean by weight: freshness 25, coverage 25, coherence 20, efficiency 15,
    reachability 15. Red is below 50, yellow below 75, green from there. A metric without data is n/a, and its weight
    is shared out. All of it is reckoned from the files and the history; nothing is stored.

    \b
    Example:
      memory-ci health
      memory-ci health --at v1.0
      memory-ci health --history
    """
    from memory_ci.flows.measure.health import health_history, measure_health
    from memory_ci.rendering.health import render_health, render_history

    if at is not None and history:
        raise click.UsageError("--at looks at one moment, --history at many: choose one.")
    if history:
        past = health_history(workspace(), today(), profile, os.environ)
        echo_json(past) if as_json else click.echo(render_history(past), nl=False)
        return
    health = measure_health(workspace(), today(), at=at, profile=profile, environ=os.environ)
    echo_json(health) if as_json else click.echo(render_health(health), nl=False)
