"""Tests of entries and graphs as text, with any titles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.show.records import Edge, Graph, Node
from memory_ci.commands.show.text import render_entry, render_tree
from memory_ci.memory.lookup import ShownEntry
from tests.make import make_id, make_located


def node(name: str, title: str = "", **fields: object) -> Node:
    return Node(name * 8, 1, **{"title": title or f"About {name}", "type": "procedural", "status": "active",
                                "scope": "project", **fields})  # type: ignore[arg-type] # fields of Node  # fmt: skip


def edge(source: str, kind: str, target: str, weight: float = 1.0) -> Edge:
    return Edge(source * 8, target * 8, kind, weight)  # type: ignore[arg-type] # a kind


GRAPH = Graph(
    "a" * 8,
    2,
    (node("a"), node("b"), node("c", status="retired"), Node("d" * 8, 2, is_missing=True)),
    (
        edge("a", "supports", "b"),
        edge("c", "contradicts", "a"),
        edge("b", "similar", "c", 0.83),
        edge("b", "supersedes", "d"),
    ),
)

TREE = """\
aaaaaaaa About a (procedural, project)
├─ supports 1.00 → bbbbbbbb About b (procedural, project)
│  ├─ similar 0.83 ~ cccccccc (above)
│  └─ supersedes 1.00 → dddddddd (not in memory)
└─ contradicts 1.00 ← cccccccc About c (procedural, project, retired)
"""


def test_a_tree_has_a_line_for_each_edge() -> None:
    assert render_tree(GRAPH) == TREE


def test_an_entry_that_names_itself_is_named_once() -> None:
    graph = Graph("a" * 8, 1, (node("a"),), (edge("a", "supports", "a"),))
    assert render_tree(graph).splitlines()[1] == "└─ supports 1.00 → aaaaaaaa (above)"


@given(st.text(max_size=60))
def test_no_title_leaves_its_line(title: str) -> None:
    graph = Graph(
        "a" * 8,
        1,
        (node("a", title or "x"), node("b", title or "x")),
        (edge("a", "supports", "b"),),
    )
    assert len(render_tree(graph).split("\n")) == 3
    assert all(char.isprintable() or char in "\n\u200c\u200d" for char in render_tree(graph))


def test_an_entry_is_shown_with_its_title_first_and_its_place_last() -> None:
    located = make_located(1, title="Retry \x1b[2Jonce", body="With a key.", evidence=("So said.",))
    text = render_entry(ShownEntry(located, "raw", 0.5))
    assert text.splitlines() == [
        "Retry \\x1b[2Jonce",
        "",
        "With a key.",
        "",
        "procedural, project; prominence 0.50, which --why explains",
        "evidence:",
        "- So said.",
        "",
        f"{make_id(1)}  {located.path}:{located.line}",
    ]
