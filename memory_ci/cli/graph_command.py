"""memory-ci graph"""

from __future__ import annotations

import click

from memory_ci.cli.common import echo_json, json_option, utf8, workspace
from memory_ci.rendering.table import printable
from memory_ci.rendering.why import render_dot, render_tree


@click.command()
@click.argument("entry_id", metavar="ID")
@click.option("--depth", type=click.IntRange(1, 2), default=1, show_default=True, help="How many edges away to look.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "dot", "json"]),
    default="text",
    show_default=True,
    help="A tree, a graph for Graphviz, or JSON.",
)
@json_option
def command(entry_id: str, depth: int, form: str, as_json: bool) -> None:
    """Show what an entry is related to; the start of its id is enough.

    Relations that entries state (supports, contradicts, duplicates), what they supersede, and entries that are like
    each other, each with its weight.

    \b
    Example:
      memory-ci graph 0f6f1f0e
      memory-ci graph 0f6f --depth 2 --format dot | dot -Tsvg > memory.svg
    """
    from memory_ci.flows.measure.graph import build_graph

    graph = build_graph(workspace(), utf8(entry_id), depth)
    if as_json or form == "json":
        echo_json(graph)
        return
    click.echo(render_dot(graph) if form == "dot" else render_tree(graph), nl=False)
    for note in graph.notes:
        click.echo(f"Note: {printable(note)}", err=True)
