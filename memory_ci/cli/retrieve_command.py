"""memory-ci retrieve"""

from __future__ import annotations

import os
import sys
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
import msgspec

from memory_ci.cli.common import echo_json, has_input, json_option, now, read_input, today, utf8, warn, workspace
from memory_ci.errors import MemoryCIError
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status
from memory_ci.records.retrieval import Retrieval
from memory_ci.rendering.context import render_context
from memory_ci.rendering.hook_format import HOOK_CHARS, HOOK_EVENTS, render_hook, render_markdown
from memory_ci.rendering.table import printable

if TYPE_CHECKING:
    from memory_ci.flows.workspace import Workspace

Format = Literal["text", "markdown", "json", "hook"]

MAX_INPUT = 8 * 1024 * 1024
"""Bytes read of a hook's input; a prompt is what a person typed or pasted."""

DAY = click.DateTime(["%Y-%m-%d"])

SCOPES = [name for name in get_args(ScopeName) if name != "institutional"]


class HookInput(msgspec.Struct, frozen=True):
    """What Claude Code tells a hook on standard input, as far as it matters here."""

    prompt: str = ""
    session_id: str | None = None
    cwd: str = ""
    hook_event_name: str = HOOK_EVENTS[0]


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
@click.option("--domain", "domains", multiple=True, type=click.Choice(get_args(Domain)), help="Only this domain.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="Only this scope.")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(get_args(Status)), help="Default: all but retired."
)
@click.option(
    "--stage", "phases", multiple=True, type=click.Choice(get_args(Phase)), help="Only what was learned then."
)
@click.option(
    "--occurred-between", nargs=2, type=DAY, metavar="DAY DAY", help="Only what happened then, both included."
)
@click.option("--limit", type=int, default=50, show_default=True, help="At most this many entries.")
@click.option("--session", metavar="JOB", help="The job that asks: its own session's entries count more.")
@click.option("--all-sessions", is_flag=True, help="See the entries of other sessions too.")
@click.option("--role", metavar="NAME", help="See only the scopes that `roles` in the configuration gives this role.")
@click.option("--at", metavar="REV|DAY", help="The memory of a commit, or of the end of a day (UTC), ranked as then.")
@click.option("--base", metavar="REV", help="For a fork's branch: the memory of where it left REV.")
@click.option("--tree", metavar="REV", help="Judge cited code in this revision instead of the work tree.")
@click.option("--stale", is_flag=True, help="Show entries whose code is gone, marked.")
@click.option(
    "--format", "form", type=click.Choice(get_args(Format)), default="text", show_default=True, help="What to print."
)
@click.option("--ids", is_flag=True, help="Print only the ids, one a line.")
@click.option("--explain", is_flag=True, help="Print why each entry was given or not, instead of its text.")
@click.option("--hook", is_flag=True, help="Be an agent's hook: its JSON on standard input, JSON out, and never fail.")
@click.option(
    "--record/--no-record",
    "record",
    default=None,
    help="Note what was given to this job, for the trailer of its commits. Default: on in CI and with --hook.",
)
@json_option
def command(
    task: tuple[str, ...],
    form: Format,
    ids: bool,
    explain: bool,
    hook: bool,
    record: bool | None,
    as_json: bool,
    occurred_between: tuple[datetime, datetime] | None,
    **asked: Any,  # noqa: ANN401 - the other fields of flows.asked.RetrieveOptions, each as its option makes it
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
    asked["occurred_between"] = _parse_days(occurred_between)
    asked["paths"] = asked["paths"] or None
    if hook:
        _serve_hook(record is not False, asked)
        return
    where = workspace()
    text = utf8(" ".join(task)) if task else _read_task()
    answer = _retrieve(where, text, asked, HOOK_CHARS if form == "hook" else None)
    warn(answer.findings)
    for note in answer.notes:
        click.echo(f"Note: {printable(note)}", err=True)
    _print(answer, "json" if as_json else form, ids, explain)
    if not explain and (record if record is not None else "CI" in os.environ):
        _record(where, answer)


def _retrieve(where: Workspace, task: str, asked: dict[str, Any], total_chars: int | None) -> Retrieval:
    from memory_ci.flows.asked import RetrieveOptions
    from memory_ci.flows.retrieve import retrieve

    return retrieve(where, task, RetrieveOptions(**asked, total_chars=total_chars), today(), os.environ)


def _print(answer: Retrieval, form: Format, ids: bool, explain: bool) -> None:
    if explain:
        from memory_ci.rendering.explain import render_explanation

        click.echo(render_explanation(answer), nl=False)
    elif form == "json":
        echo_json(answer)
    elif ids:
        from memory_ci.flows.retrieve import injected_ids

        click.echo("".join(f"{entry_id}\n" for entry_id in injected_ids(answer)), nl=False)
    else:
        click.echo(_render(answer, form, HOOK_EVENTS[0]), nl=False)


def _render(answer: Retrieval, form: Format, event: str) -> str:
    context = render_context(answer)
    if form == "hook":
        return render_hook(context, event)
    return render_markdown(context) if form == "markdown" else context


def _serve_hook(record: bool, asked: dict[str, Any]) -> None:
    """Answer an agent's hook. Whatever goes wrong is said on standard error: the prompt must reach the agent."""
    from memory_ci.flows.workspace import open_workspace

    try:
        given = msgspec.json.decode(sys.stdin.buffer.read(MAX_INPUT), type=HookInput)
        where = open_workspace(Path(given.cwd) if given.cwd else Path.cwd())
        mine = {**asked, "session": asked["session"] or given.session_id}
        answer = _retrieve(where, given.prompt, mine, HOOK_CHARS)
        warn(answer.findings)
        click.echo(_render(answer, "hook", given.hook_event_name), nl=False)
        if record:
            _record(where, answer)
    except Exception as error:  # noqa: BLE001 - an agent goes on without memory, but it must go on
        click.echo(f"memory-ci: nothing recalled: {printable(str(error))}", err=True)


def _record(where: Workspace, answer: Retrieval) -> None:
    from memory_ci.flows.injected import record_injected
    from memory_ci.flows.retrieve import injected_ids

    try:
        record_injected(where, injected_ids(answer), now())
    except MemoryCIError as error:  # what was asked for has been given
        click.echo(f"Warning: what was given is not noted: {error.message} [{error.slug}]", err=True)


def _parse_days(between: tuple[datetime, datetime] | None) -> tuple[date, date] | None:
    if between is None:
        return None
    first, last = between[0].date(), between[1].date()
    if last < first:
        raise click.UsageError("--occurred-between: the first day is after the last one.")
    return first, last


def _read_task() -> str:
    if not has_input():
        raise click.UsageError('Say what the task is: memory-ci retrieve "…", or pipe it in.')
    return read_input()
