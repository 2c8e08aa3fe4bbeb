"""What commands that click runs share: options, and a line of progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from memory_ci.cli.plain import (
    Option,
    echo,
    echo_json,
    say,
)
from memory_ci.errors import MemoryCIError
from memory_ci.findings import printable
from memory_ci.records.config import EngineName
from memory_ci.text import shorten

if TYPE_CHECKING:
    from memory_ci.records.config import EngineName

C = TypeVar("C", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)


def option(*names: str, choices: Sequence[str] = (), **settings: Any) -> Callable[[C], C]:  # noqa: ANN401 - click's
    """An option of click's, one of `choices` where there are any; its help says the default, unless that is nothing."""
    if choices:
        settings["type"] = click.Choice(choices)
    return click.option(
        *names, show_default=settings.get("default") not in (None, "", Path()), **settings
    )


flag = partial(click.option, is_flag=True)

json_option = flag("--json", "as_json", help="Print JSON instead of text.")
dry_run_option = flag("--dry-run", help="Say what would be done, and change nothing.")
now_option = flag("--now", "at_once", help="Publish now, whatever `publish.every` says.")
at_option = option(
    "--at", "view", metavar="REV", help="Look at this revision instead of the work tree."
)
engine_said = "Who reads the evidence, instead of what the configuration says."
engine_option = option("--engine", choices=get_args(EngineName), help=engine_said)


def change_options(command: C) -> C:
    """Those of whatever changes something."""
    return dry_run_option(json_option(command))


def view_options(command: C) -> C:
    """Those of whatever looks at memory."""
    return at_option(json_option(command))


def table_options(options: Sequence[Option]) -> Callable[[C], C]:
    """The options of a table, in its order."""

    def decorate(command: C) -> C:
        for one in reversed(options):
            flags = f"{one.flag}/{one.negation}" if one.negation else one.flag
            how = {
                "type": one.kind,
                "is_flag": one.kind is bool,
                "multiple": one.is_multiple,
                "default": one.initial,
            }
            command = option(
                flags, one.name, choices=one.choices, metavar=one.metavar, help=one.help, **how
            )(command)
        return command

    return decorate


def complete_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The entries whose id begins so, each with its title; nothing where memory cannot be read: a shell waits."""
    from memory_ci.cli.terminal import short_ids
    from memory_ci.memory.workspace import load_memory, open_workspace

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
    since = option(
        "--since",
        metavar="REV|AGE",
        help="Begin after this revision, or so long ago (90d, 12w, 6m, 1y).",
    )
    branch = option(
        "--branch", "ref", metavar="NAME", help="Read this branch, not the one that is checked out."
    )
    place, told = (
        click.Path(path_type=Path, exists=True),
        "A transcript, or a directory of them, to join with what was merged.",
    )
    sessions = option("--sessions", type=place, multiple=True, help=told)
    fetch = option("--fetch/--no-fetch", default=True, help="Fetch captured sessions first.")
    return since(branch(sessions(engine_option(fetch(command)))))


format_option = option(
    "--format",
    "form",
    choices=("table", "json", "csv", "ids"),
    default="table",
    help="Text for people, JSON (as --json), CSV, or the ids alone, one a line.",
)


def show_rows(
    form: str,
    value: Any,  # noqa: ANN401 - any record
    text: str,
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
) -> None:
    """A record as `--format` says; the first of each row, which `head` names, is its id."""
    if form == "csv":
        from memory_ci.cli.terminal import render_csv
        from memory_ci.secrets import mask_secrets

        echo(mask_secrets(render_csv(head, rows)))
    elif form == "ids":
        echo("".join(f"{row[0]}\n" for row in rows))
    else:
        show(value, text, form == "json")


def show(value: Any, text: str | Iterable[str], as_json: bool, remarks: Iterable[str] = ()) -> None:  # noqa: ANN401 - any record
    """A record as JSON, or what it says to people: a text as it is, or lines, and remarks on stderr."""
    if as_json:
        echo_json(value)
        return
    say(text if isinstance(text, str) else "".join(f"{line}\n" for line in text))
    for remark in remarks:
        say(remark, err=True)


def _read_days(
    context: click.Context, option: click.Parameter, between: tuple[datetime, datetime] | None
) -> tuple[date, date] | None:
    if between is None:
        return None
    first, last = between[0].date(), between[1].date()
    if last < first:
        raise click.UsageError("--occurred-between: the first day is after the last one.")
    return first, last


between_option = option(
    "--occurred-between",
    nargs=2,
    type=click.DateTime(["%Y-%m-%d"]),
    callback=_read_days,
    metavar="DAY DAY",
    help="Only what happened then, both included.",
)
branch_option = option(
    "--branch", metavar="NAME", help="Work on this branch instead of the one checked out."
)
