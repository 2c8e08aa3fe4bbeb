"""Commands that look at memory: list, show, log, graph, blame, why and stage."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, get_args

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

if TYPE_CHECKING:
    from memory_ci.memory.stage import ProjectStage

COLUMNS = (
    "id title type scope status prominence given used importance last_reinforced path line".split()
)
"""The columns of `list --format csv`, each a key of its JSON."""


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

    current_workspace = workspace()
    pending = load_pending(current_workspace) if view is None else []
    all_ranked, findings = list_ranked(current_workspace, view, today(), pending)
    warn(findings)
    # The usage of an entry may depend on entries that are not listed.
    all_entries = [located.entry for _, located in all_ranked]
    usage = load_usage(current_workspace, view, all_entries)
    ranked = [
        (value, located)
        for value, located in all_ranked
        if (not types or located.entry.type in types)
        and (not scopes or located.scope.name in scopes)
        and (not statuses or located.entry.status in statuses)
    ]

    records = []
    for value, located in ranked:
        count = usage.get(located.entry.id, UseCount())
        record = to_builtins(located.entry)
        record["scope"] = located.scope.target
        record["path"] = located.path
        record["line"] = located.line
        record["prominence"] = value
        record["given"] = count.given
        record["used"] = count.used
        records.append(record)
    text = render_entries(ranked, usage, terminal_width(sys.stdout, os.environ))
    rows = [[record[name] for name in COLUMNS] for record in records]
    show_rows("json" if as_json else form, records, text, COLUMNS, rows)


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
    located = shown.located
    place = f"{located.path}:{located.line}"
    facts = f"{place}  scope {located.scope.name}  prominence {shown.prominence:.3f}"
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

    Relations that entries state (supports, contradicts, duplicates), what they supersede, and
    entries that are like each other, each with its weight.

    \b
    Example:
      memory-ci graph 0f6f1f0e
      memory-ci graph 0f6f --depth 2 --format dot | dot -Tsvg > memory.svg
    """
    from memory_ci.commands.show.graph import build_graph
    from memory_ci.commands.show.text import render_dot, render_tree

    with progress("Relating"):
        graph = build_graph(workspace(), utf8(entry_id), depth)
    prints_json = as_json or form == "json"
    if form == "dot" and not as_json:
        echo(render_dot(graph))
    else:
        show(graph, render_tree(graph), prints_json)
    if not prints_json:
        for note in graph.notes:
            say(f"Note: {printable(note)}", err=True)


@click.command("blame")
@click.argument("place", metavar="PATH[:A-B]")
@view_options
def blame_command(place: str, view: str | None, as_json: bool) -> None:
    """Say which work brought each line, what it was given and used, and what was learned of it.

    A merge stands for all that it brought. `memory-ci why ID --lines` is the way back.

    \b
    Example:
      memory-ci blame src/client.py:10-40
    """
    from memory_ci.commands.show.blame import blame
    from memory_ci.commands.show.text import render_blame

    with progress("Reading history"):
        blamed = blame(workspace(), utf8(place), view)
    show(blamed, render_blame(blamed), as_json)


@click.command("why")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@flag("--lines", "is_lines", help="List the lines that the work brought which taught it.")
@view_options
def why_command(entry_id: str, is_lines: bool, view: str | None, as_json: bool) -> None:
    """Say what an entry counts, and what made it so.

    Its prominence today, its utility event by event with the episode of each, how well it is kept
    by FSRS, the factors by which retrieve multiplies its relevance, and what became of the code
    that it cites. ID is an entry's id or the start of it. With --at a commit or a day: as of then.

    \b
    Example:
      memory-ci why 0f6f1f0e
      memory-ci why 0f6f1f0e --lines
      memory-ci why 0f6f1f0e --at 2026-09-01 --json
    """
    from memory_ci.commands.show.blame import list_lines_of
    from memory_ci.commands.show.text import render_blame, render_why
    from memory_ci.commands.show.why import explain_entry

    if is_lines:
        with progress("Reading history"):
            lines = list_lines_of(workspace(), utf8(entry_id), view)
        text = render_blame(lines) or "No line that stands today was brought by what taught it.\n"
        show(lines, text, as_json)
        return

    why = explain_entry(workspace(), utf8(entry_id), today(), view)
    warn(why.findings)
    show(why, render_why(why), as_json)


@click.command("stage")
@option("--at", "view", metavar="REV", default="HEAD", help="Look at this revision.")
@json_option
def stage_command(view: str, as_json: bool) -> None:
    """Print the stage each project is in.

    It is read from INTENT.md, at the root and in each directory of projects/: `stage:`, a heading
    or its milestones. When a stage ends, `record` retires the task entries that belong to it. A
    stage that is unclear is not a change.

    \b
    Example:
      memory-ci stage
      memory-ci stage --at v1.2 --json
    """
    from memory_ci.memory.stage import INTENT_FILE, list_stages

    current_workspace = workspace()
    stages = list_stages(current_workspace, view)
    if not stages and not as_json:
        say(f"There is no {INTENT_FILE}, so there is no stage.", err=True)
    records = []
    lines = []
    for stage in stages:
        last = stage.known
        line = stage.stated.line if stage.stated is not None else None
        lines.append(_describe_stage(stage))
        records.append(
            {
                "project": stage.project,
                "path": stage.path,
                "line": line,
                "stage": last.phase if last else None,
                "since": last.commit.sha if last else None,
                "is_clear": line is not None,
            }
        )
    show(records, [printable(line) for line in lines], as_json)


def _describe_stage(stage: ProjectStage) -> str:
    phase = ""
    if stage.known:
        commit = stage.known.commit
        phase = f"{stage.known.phase} since {commit.sha[:7]} ({commit.committed_at:%Y-%m-%d})"
    if stage.stated is not None:
        return f"{stage.path}:{stage.stated.line}: {phase}"
    last = f"; {phase}, the last that it did" if phase else ""
    return f"{stage.path}: states no stage clearly{last}"
