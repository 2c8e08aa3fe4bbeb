"""memory-ci index"""

from __future__ import annotations

from pathlib import Path

import click

from memory_ci.cli.common import at_option, echo_json, json_option, workspace
from memory_ci.text import plural


@click.command()
@click.option("--key", "only_key", is_flag=True, help="Print the cache key of HEAD (or --at REV) and build nothing.")
@click.option(
    "--db", type=click.Path(path_type=Path, dir_okay=False), help="Build here instead of in the git directory."
)
@at_option
@json_option
def command(only_key: bool, db: Path | None, view: str | None, as_json: bool) -> None:
    """Build the search index, or print its cache key.

    The index is derived: `retrieve` opens, checks and repairs it by itself. Building it ahead saves the first
    retrieval that work, and makes it a file that CI can cache under its key.

    \b
    Example:
      memory-ci index
      memory-ci index --key
      memory-ci index --db memory.db --at HEAD
    """
    from memory_ci.flows.index import build_index, index_key

    if only_key:
        key = index_key(workspace(), view or "HEAD")
        echo_json({"key": key}) if as_json else click.echo(key)
        return
    report = build_index(workspace(), view, db)
    if as_json:
        echo_json(report)
        return
    how = "rebuilt" if report.was_rebuilt else "up to date" if not report.files_read else "updated"
    click.echo(
        f"{how}: {plural(report.entries, 'entry')} of {plural(report.files, 'file')}, {report.files_read} read\n"
        f"{report.path}\n{report.key}"
    )
