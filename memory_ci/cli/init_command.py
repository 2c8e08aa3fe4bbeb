"""memory-ci init"""

from __future__ import annotations

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, workspace


@click.command()
@dry_run_option
@json_option
def command(dry_run: bool, as_json: bool) -> None:
    """Write the files a repository starts with.

    .memory-ci.yaml, MEMORY.md and institutional.md. A file that is there is left as it is, so running this again
    changes nothing.

    \b
    Example:
      memory-ci init
      git add .memory-ci.yaml MEMORY.md institutional.md && git commit -m "Add memory"
    """
    from memory_ci.flows.setup.init import init_repository

    steps = init_repository(workspace(), dry_run=dry_run)
    if as_json:
        echo_json({"dry_run": dry_run, "files": steps})
        return
    for step in steps:
        would = "would be written" if dry_run and step.result == "written" else step.result
        click.echo(f"{would:8} {step.path}")
    if any(step.path == "MEMORY.md" and step.result == "kept" for step in steps):
        click.echo("MEMORY.md was there: its prose stays, but only entries are given to agents (`memory-ci import`).")
    if any(step.result == "written" for step in steps) and not dry_run:
        click.echo("\nCommit these files; `memory-ci record` takes up from there.")
