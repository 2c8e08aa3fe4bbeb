"""memory-ci retrieve"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import click

from memory_ci.cli.retrieve_options import OPTIONS, Option
from memory_ci.cli.retrieving import serve

DAY = click.DateTime(["%Y-%m-%d"])

Decorated = Callable[..., None]


def retrieve_options(command: Decorated) -> Decorated:
    """The options of the table, in its order."""
    for option in reversed(OPTIONS):
        command = _click_option(option)(command)
    return command


def _click_option(option: Option) -> Callable[[Decorated], Decorated]:
    flags = f"{option.flag}/{option.negation}" if option.negation else option.flag
    return click.option(
        flags,
        option.name,
        type=click.Choice(option.choices) if option.choices else option.kind,
        is_flag=option.kind is bool,
        multiple=option.is_multiple,
        default=option.initial,
        show_default=option.default is not None,
        metavar=option.metavar,
        help=option.help,
    )


@click.command()
@click.argument("task", nargs=-1)
@retrieve_options
@click.option(
    "--occurred-between", nargs=2, type=DAY, metavar="DAY DAY", help="Only what happened then, both included."
)
def command(
    occurred_between: tuple[datetime, datetime] | None,
    **arguments: Any,  # noqa: ANN401 - those of retrieving.serve, each as its option makes it
) -> None:
    """Print what memory knows about a task.

    institutional.md always, then the entries that the task's words find, ranked, within a budget, in a wrapper that
    says what they are: untrusted hints. Nothing known: nothing printed. Without TASK the text is read from standard
    input.

    \b
    Example:
      memory-ci retrieve "retry failed payments"
      gh issue view 128 | memory-ci retrieve --max-chars 4000
    """
    serve(**arguments, occurred_between=parse_days(occurred_between))


def parse_days(between: tuple[datetime, datetime] | None) -> tuple[date, date] | None:
    if between is None:
        return None
    first, last = between[0].date(), between[1].date()
    if last < first:
        raise click.UsageError("--occurred-between: the first day is after the last one.")
    return first, last
