"""memory-ci why"""

from __future__ import annotations

import click

from memory_ci.cli.common import at_option, echo_json, json_option, today, utf8, warn, workspace


@click.command()
@click.argument("entry_id", metavar="ID")
@at_option
@json_option
def command(entry_id: str, view: str | None, as_json: bool) -> None:
    """Say what an entry counts, and what made it so.

    Its prominence today, its utility event by event with the episode of each, how well it is kept by FSRS, the factors
    by which retrieve multiplies its relevance, and what became of the code that it cites. ID is an entry's id or at
    least 8 characters of its start. With --at a commit or a day: as of then.

    \b
    Example:
      memory-ci why 0f6f1f0e
      memory-ci why 0f6f1f0e --at 2026-09-01 --json
    """
    from memory_ci.flows.measure.why import explain_entry
    from memory_ci.rendering.why import render_why

    why = explain_entry(workspace(), utf8(entry_id), today(), view)
    warn(why.findings)
    if as_json:
        echo_json(why)
    else:
        click.echo(render_why(why), nl=False)
