"""What commands that click runs share: options, and a line of progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import click
from click.shell_completion import CompletionItem

from memory_ci.cli.plain import Option, echo, echo_json, say
from memory_ci.errors import MemoryCIError
from memory_ci.records.config import EngineName
from memory_ci.rendering.table import printable
from memory_ci.text import shorten

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
now_option = click.option("--now", "at_once", is_flag=True, help="Publish now, whatever `publish.every` says.")
at_option = click.option("--at", "view", metavar="REV", help="Look at this revision instead of the work tree.")

engine_option = click.option(
    "--engine",
    type=click.Choice(get_args(EngineName)),
    help="Who reads the evidence, instead of what the configuration says.",
)

Decorated = Callable[..., None]


def table_options(options: Sequence[Option]) -> Callable[[Decorated], Decorated]:
    """The options of a table, in its order."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = _click_option(option)(command)
        return command

    return decorate


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


def complete_id(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The entries whose id begins so, each with its title; nothing where memory cannot be read: a shell waits."""
    from memory_ci.flows.workspace import load_memory, open_workspace
    from memory_ci.rendering.terminal import short_ids

    try:
        entries = [place.entry for place in load_memory(open_workspace(Path.cwd()), None).located]
    except MemoryCIError:
        return []
    ids = short_ids(entry.id for entry in entries)
    return [
        CompletionItem(ids[entry.id], help=printable(shorten(entry.title, 60)))
        for entry in entries
        if entry.id.startswith(incomplete.lower())
    ]


RangeArguments = str | bool | tuple[Path, ...] | None
"""What the options of a range may hold; they are the fields of `flows.record.run.RecordOptions`."""


def range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the commands that read merged work."""
    since = click.option(
        "--since", metavar="REV|AGE", help="Begin after this revision, or so long ago (90d, 12w, 6m, 1y)."
    )
    branch = click.option("--branch", "ref", metavar="NAME", help="Read this branch, not the one that is checked out.")
    sessions = click.option(
        "--sessions",
        type=click.Path(path_type=Path, exists=True),
        multiple=True,
        help="A transcript, or a directory of them, to join with what was merged.",
    )
    fetch = click.option("--fetch/--no-fetch", default=True, help="Fetch captured sessions first.", show_default=True)
    return since(branch(sessions(engine_option(fetch(command)))))


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json", "csv", "ids")),
    default="table",
    show_default=True,
    help="Text for people, JSON (as --json), CSV, or the ids alone, one a line.",
)


def show_rows(form: str, value: Any, text: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:  # noqa: ANN401
    """A record as `--format` says; the first of each row, which `head` names, is its id."""
    if form == "csv":
        from memory_ci.rendering.terminal import render_csv

        echo(render_csv(head, rows))
    elif form == "ids":
        echo("".join(f"{row[0]}\n" for row in rows))
    else:
        show(value, text, form == "json")


def show(value: Any, text: str | Iterable[str], as_json: bool) -> None:  # noqa: ANN401 - any record
    """A record as JSON, or what it says to people: a text as it is, or lines."""
    if as_json:
        echo_json(value)
    else:
        say(text if isinstance(text, str) else "".join(f"{line}\n" for line in text))
