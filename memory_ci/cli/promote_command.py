"""memory-ci promote"""

from __future__ import annotations

import os

import click

from memory_ci.cli.common import echo_json, engine_option, now, today, workspace
from memory_ci.cli.upkeep import run_upkeep, upkeep_options
from memory_ci.records.config import EngineName


@click.command()
@click.option(
    "--global", "to_global", is_flag=True, help="Copy what holds in any repository into the checkout of `global.path`."
)
@engine_option
@upkeep_options
def command(to_global: bool, engine: EngineName | None, branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Move entries that recur up one scope: from a team or session to the project.

    An entry recurs when three or more sessions or merged changes brought it. One commit, if anything changes;
    `record` does the same at its end. With --global, project entries that recur and name nothing of this repository
    are copied into the global memory, as a commit there; where a model is configured, only those that it agrees on.

    \b
    Example:
      memory-ci promote --dry-run
      memory-ci promote --global
    """
    if not to_global:
        run_upkeep("promote", branch, dry_run, as_json)
        return
    from memory_ci.flows.model import choose_model
    from memory_ci.flows.record.promotion import agreed_by_model, promote_globally, propose_globally

    where = workspace()
    model = choose_model(where.config.engine, engine, os.environ)
    proposed = agreed_by_model(propose_globally(where, branch, today()), model.engine)
    promoted = promote_globally(where.config.global_.path, proposed, now(), dry_run=dry_run)
    if as_json:
        echo_json({"dry_run": dry_run, "promoted": promoted})
        return
    click.echo("Would promote:" if dry_run and promoted else "Promoted:" if promoted else "Nothing to promote.")
    for entry in promoted:
        click.echo(f"  {entry.id[:8]}  {entry.title}")
