"""Options, completion, questions and output that all click commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from memory_ci.cli.plain import (
    Option,
    echo_json,
    is_colored_for,
    say,
    terminal_width,
)
from memory_ci.errors import MemoryCIError
from memory_ci.findings import printable
from memory_ci.records.config import EngineName
from memory_ci.text import shorten

C = TypeVar("C", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)


def option(*names: str, choices: Sequence[str] = (), **settings: Any) -> Callable[[C], C]:  # noqa: ANN401 - click's
    """Return a decorator that adds a click option; its help names the default, if it has one.

    Args:
        names: the flags and the parameter, as `click.option` takes them.
        choices: the allowed values, none for any.
        settings: other arguments of `click.option`.
    """
    if choices:
        settings["type"] = click.Choice(choices)
    show_default = settings.get("default") not in (None, "", Path())
    return click.option(*names, show_default=show_default, **settings)


flag = partial(click.option, is_flag=True)

json_option = flag("--json", "as_json", help="Print JSON instead of text.")
dry_run_option = flag("--dry-run", help="Say what would be done, and change nothing.")
now_option = flag("--now", "at_once", help="Publish now, whatever `publish.every` says.")
at_option = option(
    "--at", "view", metavar="REV", help="Look at this revision instead of the work tree."
)
engine_option = option(
    "--engine",
    choices=get_args(EngineName),
    help="Who reads the evidence, instead of what the configuration says.",
)


since_option = option(
    "--since",
    metavar="REV|AGE",
    help="Begin after this revision, or so long ago (90d, 12w, 6m, 1y).",
)


def change_options(command: C) -> C:
    """Add the options of commands that change something."""
    return dry_run_option(json_option(command))


def view_options(command: C) -> C:
    """Add the options of commands that look at memory."""
    return at_option(json_option(command))


def refuse_other_parameters(ctx: click.Context, mode: str, allowed: Iterable[str] = ()) -> None:
    """Raise an error if a parameter is given that one mode of a command does not take.

    Args:
        ctx: the context of the command.
        mode: the name of the parameter that chooses the mode.
        allowed: the names of the parameters that it takes.

    Raises:
        click.UsageError: another parameter is given.
    """
    flags: dict[str, str] = {}
    for parameter in ctx.command.params:
        flag_name = parameter.opts[0]
        if isinstance(parameter, click.Argument):
            flag_name = parameter.make_metavar(ctx)
        flags[str(parameter.name)] = flag_name
    for name, flag_name in flags.items():
        is_default = ctx.get_parameter_source(name) == ParameterSource.DEFAULT
        if name not in (mode, *allowed) and not is_default:
            raise click.UsageError(f"{flag_name} does not go with {flags[mode]}.")


def table_options(options: Sequence[Option]) -> Callable[[C], C]:
    """Return a decorator that adds the options of a table to a click command, in its order."""

    def decorate(command: C) -> C:
        """Add the options; the last decorator that is applied comes first in the help."""
        for table_option in reversed(options):
            flags = table_option.flag
            if table_option.negation:
                flags += f"/{table_option.negation}"
            add = option(
                flags,
                table_option.name,
                choices=table_option.choices,
                metavar=table_option.metavar,
                help=table_option.help,
                type=table_option.kind,
                is_flag=table_option.kind is bool,
                multiple=table_option.is_multiple,
                default=table_option.initial,
            )
            command = add(command)
        return command

    return decorate


def complete_id(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids of entries that begin with a text, for completion by the shell, with titles.

    Return none if memory cannot be read.
    """
    from memory_ci.cli.terminal import short_ids
    from memory_ci.memory.workspace import load_memory, open_workspace

    try:
        memory = load_memory(open_workspace(Path.cwd()), None)
    except MemoryCIError:
        return []
    entries = [located.entry for located in memory.located]
    ids = short_ids(entry.id for entry in entries)
    return [
        CompletionItem(ids[entry.id], help=printable(shorten(entry.title, 60)))
        for entry in entries
        if entry.id.startswith(incomplete.lower())
    ]


RangeArguments = str | bool | tuple[Path, ...] | None
"""Values of the options of a range: the fields of `commands.record.run_options.RecordOptions`."""


def range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that read merged work of a branch."""
    branch = option(
        "--branch", "ref", metavar="NAME", help="Read this branch, not the one that is checked out."
    )
    sessions = option(
        "--sessions",
        type=click.Path(path_type=Path, exists=True),
        multiple=True,
        help="A transcript, or a directory of them, to join with what was merged.",
    )
    return since_option(branch(sessions(engine_option(command))))


def show(value: Any, text: str | Iterable[str], as_json: bool, remarks: Iterable[str] = ()) -> None:  # noqa: ANN401 - any record
    """Print the result of a command, as JSON or as text for people.

    Args:
        value: the result as a record, for JSON.
        text: the result as text, or as lines.
        as_json: print JSON.
        remarks: lines to print on stderr after the text.
    """
    if as_json:
        echo_json(value)
        return
    if not isinstance(text, str):
        text = "".join(f"{line}\n" for line in text)
    say(text)
    for remark in remarks:
        say(remark, err=True)


def confirm(question: str, *, default: bool) -> bool:
    """Ask a question on stderr and return the answer, yes or no; an empty answer is the default.

    Raises:
        click.Abort: the person ends the questions.
    """
    keys = "[Y/n]" if default else "[y/N]"
    text = _fold_question(f"{question} {keys}")
    return click.confirm(text, default=default, show_default=False, prompt_suffix=" ", err=True)


def ask_text(question: str, at_end: str | None = None) -> str:
    """Ask a question on stderr and return the answer as text.

    Args:
        question: the question.
        at_end: the text where the person ends the input; None for an error.

    Raises:
        click.Abort: the person ends the questions.
    """
    text = _fold_question(question)
    try:
        answer = click.prompt(text, default="", show_default=False, prompt_suffix=" ", err=True)
    except click.Abort:
        if at_end is None:
            raise
        say("\n", err=True)
        return at_end
    return str(answer).strip()


def _fold_question(text: str) -> str:
    """Return a question folded between words at a terminal, in bold where there are colours."""
    width = terminal_width(sys.stderr, os.environ)
    if width:
        from memory_ci.cli.terminal import fold

        text = fold(text, width - 2).rstrip("\n")
    return click.style(text, bold=True) if is_colored_for(sys.stderr, os.environ) else text
