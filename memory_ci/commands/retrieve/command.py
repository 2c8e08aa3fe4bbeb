"""The command line of `memory-ci retrieve`."""

from __future__ import annotations

from typing import Any

import click

from memory_ci.cli.common import table_options
from memory_ci.commands.retrieve import shortcut


@click.command("retrieve")
@click.argument("task", nargs=-1)
@table_options(shortcut.OPTIONS)
def retrieve_command(**arguments: Any) -> None:  # noqa: ANN401 - those of shortcut.run
    """Print what memory knows about a task.

    institutional.md always, then the entries that the task's words find, ranked, within a budget,
    in a wrapper that says what they are: untrusted hints. Nothing known: nothing printed. Without
    TASK the text is read from standard input.

    \b
    Example:
      memory-ci retrieve "retry failed payments"
      gh issue view 128 | memory-ci retrieve --max-chars 4000
    """
    shortcut.run(**arguments)
