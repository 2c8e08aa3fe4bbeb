"""The command line of `memory-ci health`."""

from __future__ import annotations

import os
from typing import get_args

import click

from memory_ci.cli.common import flag, json_option, option, show
from memory_ci.cli.plain import progress, today, workspace
from memory_ci.commands.health.records import Profile


@click.command("health")
@option("--at", metavar="REV|DATE", help="Look at this revision or day, with that day for today.")
@flag("--history", help="A line for today and for the end of each month, the newest twelve.")
@option(
    "--profile",
    choices=get_args(Profile),
    help="By whose definitions, instead of `health.profile`.",
)
@flag("--effect", help="Compare sessions that are given memory with those that are held out.")
@json_option
def health_command(
    at: str | None, history: bool, profile: Profile | None, effect: bool, as_json: bool
) -> None:
    """Say how well memory is kept, and what to do about what is weak.

    Six metrics from 0 to 100 and their mean by weight: truth 15, recency 10, coverage 25,
    coherence 20, efficiency 15, reachability 15. Red is below 50, yellow below 75, green from
    there. A metric without data is n/a, and its weight is shared out. All of it is counted in the
    files and the history; nothing is stored.

    \b
    Example:
      memory-ci health
      memory-ci health --at v1.0
      memory-ci health --history
      memory-ci health --effect
    """
    from memory_ci.commands.health.health import measure_health, measure_history
    from memory_ci.commands.health.text import render_effect, render_health, render_history

    if effect:
        if history or at is not None or profile is not None:
            raise click.UsageError(
                "--effect compares sessions until now: give no other option with it."
            )
        from memory_ci.commands.health.effect import measure_effect

        with progress("Comparing sessions"):
            report = measure_effect(workspace(), today())
        show(report, render_effect(report), as_json)
        return
    if at is not None and history:
        raise click.UsageError("--at looks at one moment, --history at many: choose one.")
    if history:
        with progress("Measuring the past"):
            past = measure_history(workspace(), today(), profile, os.environ)
        show(past, render_history(past), as_json)
        return
    with progress("Measuring"):
        health = measure_health(workspace(), today(), at=at, profile=profile, environ=os.environ)
    show(health, render_health(health), as_json)
