"""memory-ci hook: what git hooks call. Hidden; a hook must never stand in the way of a commit."""

from __future__ import annotations

from pathlib import Path

import click

from memory_ci.cli.common import workspace
from memory_ci.errors import MemoryCIError


@click.group(hidden=True)
def command() -> None:
    """Run a git hook's work.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """


@command.command("prepare-commit-msg", hidden=True)
@click.argument("message_file", type=click.Path(path_type=Path))
@click.argument("rest", nargs=-1)
def prepare_commit_msg(message_file: Path, rest: tuple[str, ...]) -> None:
    """Add a Memory-Retrieved trailer with what the work since the last commit was given.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """
    from memory_ci.flows.injected import add_retrieved_trailer

    try:
        add_retrieved_trailer(workspace(), message_file)
    except (MemoryCIError, OSError) as error:
        click.echo(f"memory-ci: no trailer added: {error}", err=True)
