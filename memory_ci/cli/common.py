"""What commands share: where they run, the clock, JSON, warnings. The only place that reads the time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from memory_ci.records.config import EngineName
from memory_ci.records.report import Finding
from memory_ci.rendering.table import render_finding

if TYPE_CHECKING:
    from memory_ci.flows.workspace import Workspace

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
at_option = click.option("--at", "view", metavar="REV", help="Look at this revision instead of the work tree.")

engine_option = click.option(
    "--engine",
    type=click.Choice(get_args(EngineName)),
    help="Who reads the evidence, instead of what the configuration says.",
)

RangeArguments = str | bool | tuple[Path, ...] | None
"""What the options of a range may hold; they are the fields of `flows.record.RecordOptions`."""


def range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the commands that read merged work."""
    since = click.option("--since", metavar="REV", help="Begin after this revision, not where the last run ended.")
    branch = click.option("--branch", "ref", metavar="NAME", help="Read this branch, not the one that is checked out.")
    sessions = click.option(
        "--sessions",
        type=click.Path(path_type=Path, exists=True),
        multiple=True,
        help="A transcript, or a directory of them, to join with what was merged.",
    )
    fetch = click.option("--fetch/--no-fetch", default=True, help="Fetch captured sessions first.", show_default=True)
    return since(branch(sessions(engine_option(fetch(command)))))


def now() -> datetime:
    """The time; SOURCE_DATE_EPOCH, if set, is the clock (reproducible-builds.org)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isascii() and epoch.isdigit():
        try:
            return datetime.fromtimestamp(int(epoch), UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise click.UsageError(f"SOURCE_DATE_EPOCH is no time: {error}") from error
    return datetime.now(UTC)  # noqa: TID251 - here the clock is read, and passed down


def today() -> date:
    """Today in UTC: the same day for every runner."""
    return now().date()


def workspace() -> Workspace:
    """The workspace of the current directory, with the configuration of its work tree."""
    from memory_ci.flows.workspace import open_workspace

    return open_workspace(Path.cwd())


def committed_workspace() -> Workspace:
    """The workspace for commands that work on a branch: they read the configuration that is committed there."""
    from memory_ci.flows.workspace import open_committed

    return open_committed(Path.cwd())


def echo_json(value: Any) -> None:  # noqa: ANN401 - any record
    """A record as indented JSON on stdout."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def warn(findings: Iterable[Finding]) -> None:
    """Findings of a command that goes on all the same, one line each on stderr."""
    for finding in findings:
        click.echo(f"Warning: {render_finding(finding, with_level=False)}", err=True)


def utf8(text: str) -> str:
    """An argument as the text its bytes are, whatever the locale made of them; what is no UTF-8 becomes U+FFFD."""
    return os.fsencode(text).decode("utf-8", "replace")


def has_input() -> bool:
    """Whether something is piped in."""
    return sys.stdin is not None and not sys.stdin.isatty()


def read_input() -> str:
    """Standard input as UTF-8."""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress line on stderr, only where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def advance(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield advance
