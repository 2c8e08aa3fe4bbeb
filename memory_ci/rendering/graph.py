"""The neighbourhood of an entry: as a tree for a person, as DOT for Graphviz."""

from __future__ import annotations

from memory_ci.records.why import Edge, Graph, Node
from memory_ci.rendering.table import printable
from memory_ci.text import shorten

MAX_TITLE = 80
ID_WIDTH = 8


def render_tree(graph: Graph) -> str:
    """A line for each edge, under the entry where it was met first; an entry that stands above is only named again.

    `→`: the entry above says it of the one on the line; `←`: the other way; `~`: without direction.
    """
    nodes = {node.id: node for node in graph.nodes}
    lines = [_describe(nodes[graph.center]), *_branches(graph, nodes)]
    return "".join(f"{printable(line)}\n" for line in lines)


def render_dot(graph: Graph) -> str:
    """A directed graph in DOT; text of entries is in quoted strings only, in which nothing has a meaning."""
    center = {graph.center: ", penwidth=2"}
    nodes = (
        f"  {_quoted(node.id)} [label={_quoted(_describe(node))}{_style(node)}{center.get(node.id, '')}];"
        for node in graph.nodes
    )
    edges = (f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{_attributes(edge)}];" for edge in graph.edges)
    lines = ["digraph memory {", "  node [shape=box];", *nodes, *edges, "}"]
    return "".join(f"{line}\n" for line in lines)


def _branches(graph: Graph, nodes: dict[str, Node]) -> list[str]:
    """The lines below the root, depth first; each edge stands once."""
    shown, used = {graph.center}, set[Edge]()
    lines: list[str] = []

    def grow(id_: str, indent: str) -> None:
        edges = [edge for edge in graph.edges if id_ in (edge.source, edge.target) and edge not in used]
        used.update(edges)
        fresh = {other for edge in edges if (other := _other(edge, id_)) not in shown}
        shown.update(fresh)
        for place, edge in enumerate(edges, start=1):
            other, is_last = _other(edge, id_), place == len(edges)
            is_first = other in fresh
            fresh.discard(other)
            what = _describe(nodes[other]) if is_first else f"{other[:ID_WIDTH]} (above)"
            lines.append(f"{indent}{'└─' if is_last else '├─'} {_label(edge)} {_arrow(edge, id_)} {what}")
            if is_first:
                grow(other, f"{indent}{'   ' if is_last else '│  '}")

    grow(graph.center, "")
    return lines


def _other(edge: Edge, id_: str) -> str:
    return edge.target if edge.source == id_ else edge.source


def _arrow(edge: Edge, id_: str) -> str:
    if edge.kind == "similar":
        return "~"
    return "→" if edge.source == id_ else "←"


def _label(edge: Edge) -> str:
    return f"{edge.kind} {edge.weight:.2f}"


def _describe(node: Node) -> str:
    """`0f6f1f0e Retry a POST only with a key (corrective, project)`."""
    if node.is_missing:
        return f"{node.id[:ID_WIDTH]} (not in memory)"
    status = f", {node.status}" if node.status != "active" else ""
    return f"{node.id[:ID_WIDTH]} {shorten(node.title, MAX_TITLE)} ({node.type}, {node.scope}{status})"


def _style(node: Node) -> str:
    return ", style=dashed" if node.is_missing or node.status == "retired" else ""


def _attributes(edge: Edge) -> str:
    return f"label={_quoted(_label(edge))}{', dir=none' if edge.kind == 'similar' else ''}"


def _quoted(text: str) -> str:
    """A string of DOT. A backslash begins an escape in labels (`\\N` is the node's name), so each becomes two."""
    safe = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe}"'
