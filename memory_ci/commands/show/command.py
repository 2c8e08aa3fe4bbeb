"""Commands that look at memory: list, show, log, graph, blame, why and stage."""

from __future__ import annotations

import os
import sys
from typing import get_args

import click
from msgspec import to_builtins

from memory_ci.cli.common import (
    at_option,
    complete_id,
    flag,
    format_option,
    json_option,
    option,
    show,
    show_rows,
    view_options,
)
from memory_ci.cli.plain import (
    echo,
    echo_json,
    progress,
    say,
    terminal_width,
    today,
    utf8,
    warn,
    workspace,
)
from memory_ci.findings import printable, printable_lines
from memory_ci.records.entry import EntryType, ScopeName, Status
from memory_ci.records.episode import UseCount

COLUMNS = (
    "id title type scope status prominence given used importance last_reinforced path line".split()
)
"""What a line of `list --format csv` has, of the keys of its JSON."""


@click.command("list")
@option("--type", "types", multiple=True, choices=get_args(EntryType), help="Only this type.")
@option("--scope", "scopes", multiple=True, choices=get_args(ScopeName), help="Only this scope.")
@option("--status", "statuses", multiple=True, choices=get_args(Status), help="Only this status.")
@at_option
@format_option
@json_option
def list_command(
    types: tuple[str, ...],
    scopes: tuple[str, ...],
    statuses: tuple[str, ...],
    view: str | None,
    form: str,
    as_json: bool,
) -> None:
    """List the entries, most prominent first.

    \b
    Example:
      memory-ci list --type corrective
      memory-ci list --at v1.2 --json
      memory-ci list --format csv > memory.csv
    """
    from memory_ci.cli.terminal import render_entries
    from memory_ci.memory.episodes import load_usage
    from memory_ci.memory.lookup import list_ranked
    from memory_ci.sessions.marked_notes import load_pending

    where = workspace()
    waiting = load_pending(where) if view is None else []
    every, findings = list_ranked(where, view, today(), waiting)
    warn(findings)
    usage = load_usage(where, view, [place.entry for _, place in every])
    # Of all entries, what each was used for is known; then those that were asked for are shown.
    ranked = [
        (value, place)
        for value, place in every
        if (not types or place.entry.type in types)
        and (not scopes or place.scope.name in scopes)
        and (not statuses or place.entry.status in statuses)
    ]
    used = [usage.get(place.entry.id, UseCount()) for _, place in ranked]
    found = [
        to_builtins(place.entry)
        | {"scope": place.scope.target, "path": place.path, "line": place.line, "prominence": value}
        | {"given": one.given, "used": one.used}
        for (value, place), one in zip(ranked, used, strict=True)
    ]
    text = render_entries(ranked, usage, terminal_width(sys.stdout, os.environ))
    rows = [[one[name] for name in COLUMNS] for one in found]
    show_rows("json" if as_json else form, found, text, COLUMNS, rows)


@click.command("show")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@view_options
def show_command(entry_id: str, view: str | None, as_json: bool) -> None:
    """Show one entry; the start of its id is enough.

    \b
    Example:
      memory-ci show 0f6f1f0e
      memory-ci show 0f6f --at HEAD~20
    """
    from memory_ci.memory.lookup import show_entry

    shown = show_entry(workspace(), utf8(entry_id), view, today())
    if as_json:
        echo_json(shown)
        return
    place = shown.located
    facts = (
        f"{place.path}:{place.line}  scope {place.scope.name}  prominence {shown.prominence:.3f}"
    )
    say(f"{printable(facts)}\n\n", err=True)
    say(printable_lines(shown.text))


@click.command("log")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@json_option
def log_command(entry_id: str, as_json: bool) -> None:
    """Show what commits did to one entry, newest first; it may be gone by now.

    \b
    Example:
      memory-ci log 0f6f1f0e
    """
    from memory_ci.memory.lookup import list_entry_versions

    with progress("Reading history"):
        versions = list_entry_versions(workspace(), utf8(entry_id))
    rows, lines = [], []
    for one in versions:
        commit = one.commit
        told = {"commit": commit.sha, "at": commit.committed_at, "subject": commit.subject}
        rows.append(told | {"what": one.what, "paths": one.paths})
        lines += [
            f"{commit.sha[:10]} {commit.committed_at.date()}  {one.what}",
            f"           {commit.subject}",
        ]
    show(rows, map(printable, lines), as_json)


@click.command("graph")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@option("--depth", type=click.IntRange(1, 2), default=1, help="How many edges away to look.")
@option(
    "--format",
    "form",
    choices=["text", "dot", "json"],
    default="text",
    help="A tree, a graph for Graphviz, or JSON.",
)
@json_option
def graph_command(entry_id: str, depth: int, form: str, as_json: bool) -> None:
    """Show what an entry is related to; the start of its id is enough.

    Relations that entries state (supports, contradicts, duplicates), what they supersede, and entries that are like
    each other, each with its weight.

    \b
    Example:
      memory-ci graph 0f6f1f0e
      memory-ci graph 0f6f --depth 2 --format dot | dot -Tsvg > memory.svg
    """
    from memory_ci.commands.show.text import render_dot, render_tree
    from memory_ci.commands.show.why import build_graph

    with progress("Relating"):
        graph = build_graph(workspace(), utf8(entry_id), depth)
    if form == "dot" and not as_json:
        echo(render_dot(graph))
    else:
        show(graph, render_tree(graph), as_json or form == "json")
    for note in () if as_json or form == "json" else graph.notes:
        say(f"Note: {printable(note)}", err=True)


@click.command("blame")
@click.argument("place", metavar="PATH[:A-B]")
@view_options
def blame_command(place: str, view: str | None, as_json: bool) -> None:
    """Say of each line which work brought it, what that was given and used, and what was learned of it.

    A merge stands for all that it brought. `memory-ci why ID --lines` is the way back.

    \b
    Example:
      memory-ci blame src/client.py:10-40
    """
    from memory_ci.commands.show.text import render_blame
    from memory_ci.commands.show.why import blame

    with progress("Reading history"):
        blamed = blame(workspace(), utf8(place), view)
    show(blamed, render_blame(blamed), as_json)


@click.command("why")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@flag("--lines", "is_lines", help="List the lines that the work brought which taught it.")
@view_options
def why_command(entry_id: str, is_lines: bool, view: str | None, as_json: bool) -> None:
    """Say what an entry counts, and what made it so.

    Its prominence today, its utility event by event with the episode of each, how well it is kept by FSRS, the factors
    by which retrieve multiplies its relevance, and what became of the code that it cites. ID is an entry's id or the
    start of it. With --at a commit or a day: as of then.

    \b
    Example:
      memory-ci why 0f6f1f0e
      memory-ci why 0f6f1f0e --lines
      memory-ci why 0f6f1f0e --at 2026-09-01 --json
    """
    from memory_ci.commands.show.text import render_blame, render_why
    from memory_ci.commands.show.why import explain_entry, list_lines_of

    if is_lines:
        with progress("Reading history"):
            lines = list_lines_of(workspace(), utf8(entry_id), view)
        show(
            lines,
            render_blame(lines) or "No line that stands today was brought by what taught it.\n",
            as_json,
        )
        return

    why = explain_entry(workspace(), utf8(entry_id), today(), view)
    warn(why.findings)
    show(why, render_why(why), as_json)


@click.command("stage")
@option("--at", "view", metavar="REV", default="HEAD", help="Look at this revision.")
@json_option
def stage_command(view: str, as_json: bool) -> None:
    """Print the stage each project is in.

    It is read from INTENT.md, at the root and in each directory of projects/: `stage:`, a heading or its milestones.
    When a stage ends, `record` retires the task entries that belong to it. A stage that is unclear is not a change.

    \b
    Example:
      memory-ci stage
      memory-ci stage --at v1.2 --json
    """
    from memory_ci.memory.stage import list_stages

    place = workspace()
    stages = list_stages(place, view)
    if not stages and not as_json:
        say(f"There is no {place.config.stage.file}, so there is no stage.", err=True)
    found, lines = [], []
    for stage in stages:
        point, line = stage.known, stage.stated.line if stage.stated is not None else None
        known = (
            f"{point.phase} since {point.commit.sha[:7]} ({point.commit.committed_at:%Y-%m-%d})"
            if point
            else ""
        )
        unclear = f"{stage.path}: states no stage clearly" + (
            f"; {known}, the last that it did" if known else ""
        )
        lines.append(unclear if line is None else f"{stage.path}:{line}: {known}")
        told = {
            "project": stage.project,
            "path": stage.path,
            "line": line,
            "stage": point.phase if point else None,
        }
        found.append(
            told | {"since": point.commit.sha if point else None, "is_clear": line is not None}
        )
    show(found, map(printable, lines), as_json)
