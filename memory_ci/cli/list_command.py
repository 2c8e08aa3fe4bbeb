"""memory-ci list"""

from __future__ import annotations

from typing import get_args

import click

from memory_ci.cli.common import at_option, echo_json, json_option, today, warn, workspace
from memory_ci.records.entry import EntryType, ScopeName, Status
from memory_ci.rendering.table import render_entries


@click.command()
@click.option("--type", "types", multiple=True, type=click.Choice(get_args(EntryType)), help="Only this type.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(get_args(ScopeName)), help="Only this scope.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(get_args(Status)), help="Only this status.")
@at_option
@json_option
def command(
    types: tuple[str, ...], scopes: tuple[str, ...], statuses: tuple[str, ...], view: str | None, as_json: bool
) -> None:
    """List the entries, most prominent first.

    \b
    Example:
      memory-ci list --type corrective
      memory-ci list --at v1.2 --json
    """
    from memory_ci.flows.lookup import Selection, list_ranked

    ranked, findings = list_ranked(workspace(), view, today(), Selection(types, scopes, statuses))
    warn(findings)
    if as_json:
        echo_json([{"prominence": value, "located": place} for value, place in ranked])
    else:
        click.echo(render_entries(ranked), nl=False)
