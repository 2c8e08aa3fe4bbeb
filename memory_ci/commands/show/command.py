"""Commands that look at memory: list and show."""

from __future__ import annotations

from typing import Any

import click

from memory_ci.cli.common import (
    complete_id,
    flag,
    option,
    refuse_other_parameters,
    show,
    table_options,
    view_options,
)
from memory_ci.cli.plain import (
    decode_argument,
    echo_json,
    is_terminal,
    open_current_workspace,
    progress,
    say,
    today,
    warn,
)
from memory_ci.commands.show import shortcut
from memory_ci.findings import printable, printable_lines


@click.command("list")
@table_options(shortcut.OPTIONS)
def list_command(**arguments: Any) -> None:  # noqa: ANN401 - those of shortcut.run
    """List the entries, most prominent first.

    \b
    Example:
      memory-ci list --type corrective
      memory-ci list --at v1.2 --json
      memory-ci list --format csv > memory.csv
    """
    shortcut.run(**arguments)


@click.command("show")
@click.argument("entry_id", metavar="[ID]", required=False, shell_complete=complete_id)
@flag("--why", help="Show the entry's prominence and the events behind it.")
@flag("--lines", help="List the lines of code from the work that it was learned from.")
@flag("--log", help="List the commits that changed it, newest first; also for a removed entry.")
@flag("--graph", help="Show related entries.")
@option(
    "--blame",
    "blamed_place",
    metavar="PATH[:A-B]",
    help="Instead of an entry: print for each line the change that added it, "
    "with the entries that this work was served, used and led to.",
)
@view_options
@click.pass_context
def show_command(
    ctx: click.Context,
    *,
    entry_id: str | None,
    why: bool,
    lines: bool,
    log: bool,
    graph: bool,
    blamed_place: str | None,
    view: str | None,
    as_json: bool,
) -> None:
    """Show one entry: its text, or with an option its value, history or relations.

    The start of its id is enough. --why prints its prominence today, its utility event by event
    with the episode of each, the factors by which retrieve multiplies its relevance, and the state
    of the code that it cites; with --at a commit or a day, as of then. --graph prints relations
    that entries state (supports, contradicts, duplicates), superseded entries, and similar entries,
    each with its weight. --blame attributes lines to the merge commit that added them; --lines
    lists the lines that are attributed to an entry's work.

    \b
    Example:
      memory-ci show 0f6f1f0e
      memory-ci show 0f6f --at HEAD~20
      memory-ci show 0f6f --why --at 2026-09-01
      memory-ci show 0f6f --graph
      memory-ci show --blame src/client.py:10-40
    """
    if (entry_id is None) == (blamed_place is None):
        raise click.UsageError("Give the ID of an entry, or --blame PATH.")
    if blamed_place is not None:
        refuse_other_parameters(ctx, "blamed_place", ("view", "as_json"))
        _show_blame(decode_argument(blamed_place), view, as_json)
        return
    shown_id = decode_argument(entry_id or "")
    if why:
        refuse_other_parameters(ctx, "why", ("entry_id", "view", "as_json"))
        _show_why(shown_id, view, as_json)
    elif lines:
        refuse_other_parameters(ctx, "lines", ("entry_id", "view", "as_json"))
        _show_lines(shown_id, view, as_json)
    elif log:
        refuse_other_parameters(ctx, "log", ("entry_id", "as_json"))
        _show_log(shown_id, as_json)
    elif graph:
        refuse_other_parameters(ctx, "graph", ("entry_id", "as_json"))
        _show_graph(shown_id, as_json)
    else:
        _show_entry(shown_id, view, as_json)


def _show_entry(entry_id: str, view: str | None, as_json: bool) -> None:
    """Print an entry: for a person on a terminal, as its file has it for a pipe, or as JSON."""
    from memory_ci.memory.lookup import show_entry

    shown = show_entry(open_current_workspace(), entry_id, view, today())
    if as_json:
        echo_json(shown)
        return
    if is_terminal():
        from memory_ci.commands.show.text import render_entry

        say(render_entry(shown))
        return
    located = shown.located
    place = f"{located.path}:{located.line}"
    facts = f"{place}  scope {located.scope.name}  prominence {shown.prominence:.3f}"
    say(f"{printable(facts)}\n\n", err=True)
    say(printable_lines(shown.text))


def _show_log(entry_id: str, as_json: bool) -> None:
    """Print the commits that added, changed or removed an entry, the newest first."""
    from memory_ci.memory.lookup import list_entry_versions

    with progress("Reading history"):
        versions = list_entry_versions(open_current_workspace(), entry_id)
    records = []
    lines = []
    for version in versions:
        commit = version.commit
        records.append(
            {
                "commit": commit.sha,
                "at": commit.committed_at,
                "subject": commit.subject,
                "what": version.what,
                "paths": version.paths,
            }
        )
        lines.append(f"{commit.sha[:10]} {commit.committed_at.date()}  {version.what}")
        lines.append(f"           {commit.subject}")
    show(records, [printable(line) for line in lines], as_json)


def _show_graph(entry_id: str, as_json: bool) -> None:
    """Print the entries that an entry is related to, and notes on them to standard error."""
    from memory_ci.commands.show.graph import build_graph
    from memory_ci.commands.show.text import render_tree

    with progress("Relating"):
        graph = build_graph(open_current_workspace(), entry_id, 1)
    show(graph, render_tree(graph), as_json)
    if not as_json:
        for note in graph.notes:
            say(f"Note: {printable(note)}", err=True)


def _show_blame(place: str, view: str | None, as_json: bool) -> None:
    """Print the merged change that added each line of a file."""
    from memory_ci.commands.show.blame import blame
    from memory_ci.commands.show.text import render_blame

    with progress("Reading history"):
        blamed = blame(open_current_workspace(), place, view)
    show(blamed, render_blame(blamed), as_json)


def _show_lines(entry_id: str, view: str | None, as_json: bool) -> None:
    """Print the lines of code that were written by the work that an entry was learned from."""
    from memory_ci.commands.show.blame import list_lines_of_entry
    from memory_ci.commands.show.text import render_blame

    with progress("Reading history"):
        lines = list_lines_of_entry(open_current_workspace(), entry_id, view)
    text = (
        render_blame(lines)
        or "No current line of code comes from the work that this entry was learned from.\n"
    )
    show(lines, text, as_json)


def _show_why(entry_id: str, view: str | None, as_json: bool) -> None:
    """Print the weight of an entry in ranking, and the facts that determine it."""
    from memory_ci.commands.show.text import render_why
    from memory_ci.commands.show.why import explain_entry

    why = explain_entry(open_current_workspace(), entry_id, today(), view)
    warn(why.findings)
    show(why, render_why(why), as_json)
