"""The command line of `memory-ci add`."""

from __future__ import annotations

from typing import Any

import click

from memory_ci.cli.common import option, table_options
from memory_ci.commands.add import shortcut as add
from memory_ci.records.entry import NEW_IMPORTANCE


@click.command("add")
@click.argument("text", required=False)
@table_options(add.OPTIONS)
@option("--importance", type=click.FloatRange(0, 1), default=NEW_IMPORTANCE, help="0 to 1.")
def add_command(
    text: str | None,
    title: str | None,
    body: str | None,
    **arguments: Any,  # noqa: ANN401 - the arguments of add.run
) -> None:
    """Put a learning into the inbox.

    It becomes a file of its own under .memory/inbox/, so that two branches never conflict; `record`
    folds it into its scope's file. TEXT is the same as --title. Without either the text is read
    from standard input, or written in your editor: first line the title, then the body.

    \b
    Example:
      memory-ci add "Retry a POST only with a key" --type corrective
      echo "Builds need Node 20" | memory-ci add --scope team:web
      memory-ci add "Retry in the client" --quote "never retry in the caller"
    """
    if text is not None and title is not None:
        raise click.UsageError("TEXT is the title: give it once, as an argument or with --title.")
    if body is not None and text is None and title is None:
        raise click.UsageError("--body needs a title.")
    add.run(text, title, body, **arguments)
