"""The command line of `memory-ci add`."""

from __future__ import annotations

from typing import Any

import click

from memory_ci.cli.common import table_options
from memory_ci.commands.add import shortcut as add


@click.command("add")
@click.argument("title", required=False)
@table_options(add.OPTIONS)
def add_command(
    title: str | None,
    body: str | None,
    **arguments: Any,  # noqa: ANN401 - the arguments of add.run
) -> None:
    """Put a learning into the inbox.

    It becomes a file of its own under .memory/inbox/, so that two branches never conflict; `record`
    folds it into its scope's file. TITLE is one sentence that says the learning by itself. Without
    it the text is read from standard input, or written in your editor: first line the title, then
    the body.

    \b
    Example:
      memory-ci add "Retry a POST only with a key" --type corrective
      echo "Builds need Node 20" | memory-ci add --scope team:web
      memory-ci add "Add a line to CHANGELOG.md" --when before:commit
      memory-ci add "Leave vendor/ alone" --check "untouched: [vendor/]" --dry-run
      memory-ci add "Retry in the client" --quote "never retry in the caller"
    """
    if body is not None and title is None:
        raise click.UsageError("--body needs a title.")
    add.run(title, body, **arguments)
