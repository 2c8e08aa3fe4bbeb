"""memory-ci log"""

from __future__ import annotations

import click

from memory_ci.cli.common import echo_json, json_option, utf8, workspace
from memory_ci.rendering.table import printable


@click.command()
@click.argument("entry_id", metavar="ID")
@json_option
def command(entry_id: str, as_json: bool) -> None:
    """Show what commits did to one entry, newest first; it may be gone by now.

    \b
    Example:
      memory-ci log 0f6f1f0e
    """
    from memory_ci.flows.lookup import list_entry_versions

    versions = list_entry_versions(workspace(), utf8(entry_id))
    if as_json:
        rows = [
            {
                "commit": v.commit.sha,
                "at": v.commit.committed_at,
                "subject": v.commit.subject,
                "what": v.what,
                "paths": v.paths,
            }
            for v in versions
        ]
        echo_json(rows)
        return
    for version in versions:
        day = version.commit.committed_at.date().isoformat()
        click.echo(printable(f"{version.commit.sha[:10]} {day}  {version.what}"))
        click.echo(f"           {printable(version.commit.subject)}")
