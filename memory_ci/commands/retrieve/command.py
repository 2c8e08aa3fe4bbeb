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
    """Print the entries of memory that help with a task.

    It prints institutional.md, and then the entries that match the words of the task, ranked,
    within a budget, in a wrapper that marks them as untrusted hints. If there is nothing to print,
    the output is empty. Without TASK, the text is read from standard input.

    \b
    Example:
      memory-ci retrieve "retry failed payments"
      gh issue view 128 | memory-ci retrieve --max-chars 4000
    """
    shortcut.run(**arguments)
