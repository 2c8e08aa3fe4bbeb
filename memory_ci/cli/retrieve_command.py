"""memory-ci retrieve"""

from __future__ import annotations

import os
from typing import get_args

import click

from memory_ci.cli.common import echo_json, has_input, json_option, now, read_input, today, utf8, warn, workspace
from memory_ci.errors import MemoryCIError
from memory_ci.records.entry import EntryType
from memory_ci.rendering.context import render_context


@click.command()
@click.argument("task", nargs=-1)
@click.option(
    "--max-chars", type=int, metavar="N", help="How much ranked memory to print; the configuration's default is 8000."
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="PATH",
    help="A file or directory the work touches: of the team scopes only theirs are searched. Without it all are.",
)
@click.option("--type", "types", multiple=True, type=click.Choice(get_args(EntryType)), help="Only this type.")
@click.option("--limit", type=int, default=50, show_default=True, help="At most this many entries.")
@click.option("--session", metavar="JOB", help="The job that asks: its own session's entries count more.")
@click.option("--ids", is_flag=True, help="Print only the ids, one a line.")
@click.option(
    "--record/--no-record",
    "record",
    default=None,
    help="Note what was given to this job, for the trailer of its commits. Default: on in CI.",
)
@json_option
def command(
    task: tuple[str, ...],
    max_chars: int | None,
    paths: tuple[str, ...],
    types: tuple[EntryType, ...],
    limit: int,
    session: str | None,
    ids: bool,
    record: bool | None,
    as_json: bool,
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
    from memory_ci.flows.injected import record_injected
    from memory_ci.flows.retrieve import RetrieveOptions, injected_ids, retrieve

    where = workspace()
    text = utf8(" ".join(task)) if task else _read_task()
    answer = retrieve(where, text, RetrieveOptions(max_chars, paths or None, types, session, limit), today())
    warn(answer.findings)
    if as_json:
        echo_json(answer)
    elif ids:
        click.echo("".join(f"{entry_id}\n" for entry_id in injected_ids(answer)), nl=False)
    else:
        click.echo(render_context(answer), nl=False)
    if record if record is not None else "CI" in os.environ:
        try:
            record_injected(where, injected_ids(answer), now())
        except MemoryCIError as error:  # what was asked for has been given
            click.echo(f"Warning: what was given is not noted: {error.message} [{error.slug}]", err=True)


def _read_task() -> str:
    if not has_input():
        raise click.UsageError('Say what the task is: memory-ci retrieve "…", or pipe it in.')
    return read_input()
