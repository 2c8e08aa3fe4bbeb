"""memory-ci show"""

from __future__ import annotations

import click

from memory_ci.cli.common import at_option, echo_json, json_option, today, utf8, workspace
from memory_ci.rendering.table import printable, printable_lines


@click.command()
@click.argument("entry_id", metavar="ID")
@at_option
@json_option
def command(entry_id: str, view: str | None, as_json: bool) -> None:
    """Show one entry; the start of its id is enough.

    \b
    Example:
      memory-ci show 0f6f1f0e
      memory-ci show 0f6f --at HEAD~20
    """
    from memory_ci.flows.lookup import show_entry

    shown = show_entry(workspace(), utf8(entry_id), view, today())
    if as_json:
        echo_json(shown)
        return
    place = shown.located
    facts = f"{place.path}:{place.line}  scope {place.scope.name}  prominence {shown.prominence:.3f}"
    click.echo(f"{printable(facts)}\n", err=True)
    click.echo(printable_lines(shown.text), nl=False)
