"""Tests of `show --graph`: an entry and the entries that are related to it."""

from __future__ import annotations

import pytest

from memory_ci.commands.show.graph import build_graph
from memory_ci.commands.show.records import Graph
from memory_ci.errors import UsageError
from memory_ci.memory.index import synced_index
from memory_ci.records.entry import Entry
from memory_ci.search.embedders import pack_vectors
from memory_ci.search.rows import text_hash
from memory_ci.search.search import list_entries
from memory_ci.search.vectors import store_vectors
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import Project

WORDS = ("ash bay", "elm fig", "oak yew", "pea rye", "tea ivy")


def entry(number: int, **fields: object) -> Entry:
    return make_entry(number, **{"title": WORDS[number % 5] + f" n{number}", **fields})


def put(project: Project, *entries: Entry, path: str = "MEMORY.md") -> None:
    project.write(path, "\n".join(map(format_entry, entries)))


def edges(graph: Graph) -> set[tuple[int, str, int]]:
    return {(int(edge.source[:8], 16), edge.kind, int(edge.target[:8], 16)) for edge in graph.edges}


def distances(graph: Graph) -> dict[int, int]:
    return {int(node.id[:8], 16): node.distance for node in graph.nodes}


def make_graph(project: Project, number: int, depth: int = 1) -> Graph:
    return build_graph(project.workspace, make_id(number)[:8], depth)


def test_the_graph_has_relations_from_and_to_the_entry(project: Project) -> None:
    center = entry(
        1, relations=(f"supports {make_id(2)}", f"refutes {make_id(3)}"), supersedes=(make_id(4),)
    )
    put(
        project,
        center,
        entry(2),
        entry(3),
        entry(4),
        entry(5, relations=(f"duplicates {make_id(1)}",)),
    )
    graph = make_graph(project, 1)
    stated = {(1, "supports", 2), (1, "contradicts", 3), (1, "supersedes", 4), (5, "duplicates", 1)}
    assert edges(graph) == stated
    assert distances(graph) == {1: 0, 2: 1, 3: 1, 4: 1, 5: 1}
    assert {edge.weight for edge in graph.edges} == {1.0}


def test_at_depth_two_the_neighbours_of_neighbours_come_in(project: Project) -> None:
    put(
        project,
        entry(1, relations=(f"supports {make_id(2)}",)),
        entry(2, relations=(f"supports {make_id(3)}",)),
        entry(3, relations=(f"supports {make_id(4)}", f"contradicts {make_id(1)}")),
        entry(4),
    )
    assert distances(make_graph(project, 2)) == {2: 0, 1: 1, 3: 1}
    assert distances(make_graph(project, 1, 2)) == {1: 0, 2: 1, 3: 1, 4: 2}
    assert (3, "supports", 4) in edges(make_graph(project, 1, 2))


def test_a_cycle_ends_and_each_edge_appears_once(project: Project) -> None:
    put(
        project,
        entry(1, relations=(f"supports {make_id(2)}",)),
        entry(2, relations=(f"supports {make_id(1)}",)),
    )
    graph = make_graph(project, 1, 2)
    assert len(graph.edges) == 2
    assert edges(graph) == {(1, "supports", 2), (2, "supports", 1)}


def test_an_id_that_no_file_has_is_a_node_that_says_so(project: Project) -> None:
    put(project, entry(1, relations=(f"supports {make_id(9)}",)))
    (node,) = [node for node in make_graph(project, 1).nodes if node.id == make_id(9)]
    assert (node.is_missing, node.title, node.distance) == (True, "", 1)


def test_similar_entries_are_found_by_words_and_a_note_says_so(project: Project) -> None:
    put(
        project,
        make_entry(1, title="Send a key with each charge"),
        make_entry(2, title="Send a key with each refund"),
    )
    graph = make_graph(project, 1, 2)
    assert [(edge.kind, edge.weight) for edge in graph.edges] == [("similar", 0.6)]
    assert graph.notes == (
        "Similar entries were found by words in common (0.45 or more), not by vectors.",
    )


def test_similar_entries_are_found_by_vectors_where_there_are_some(project: Project) -> None:
    put(project, entry(1), entry(2))
    with synced_index(project.workspace) as index:
        hashes = [text_hash(place.entry) for place in list_entries(index)]
        store_vectors(index, "planned:1", hashes, pack_vectors([(1.0, 0.0), (0.9, 0.435)]))
    graph = make_graph(project, 1)
    assert [(edge.kind, round(edge.weight, 2)) for edge in graph.edges] == [("similar", 0.9)]
    assert graph.notes == ()


def test_a_retired_entry_is_shown_where_it_is_named_and_is_like_nothing(project: Project) -> None:
    put(
        project,
        make_entry(1, title="Send a key with each charge", relations=(f"supports {make_id(2)}",)),
        make_entry(2, title="Send a key with each refund", status="retired"),
    )
    graph = make_graph(project, 1, 2)
    assert edges(graph) == {(1, "supports", 2)}
    assert graph.nodes[1].status == "retired"


def test_entries_of_every_scope_take_part(project: Project) -> None:
    put(project, entry(1, relations=(f"supports {make_id(2)}",)))
    put(project, entry(2), path="institutional.md")
    put(project, entry(3, relations=(f"supports {make_id(1)}",)), path="src/MEMORY.md")
    assert {node.scope for node in make_graph(project, 1).nodes} == {
        "project",
        "institutional",
        "team:src",
    }


def test_a_large_neighbourhood_is_cut_with_a_note(project: Project) -> None:
    put(
        project,
        *(entry(n, relations=(f"supports {make_id(1)}",) if n > 1 else ()) for n in range(1, 7)),
    )
    graph = build_graph(project.workspace, make_id(1), 1, max_nodes=3)
    assert len(graph.nodes) == 3
    assert {end for edge in graph.edges for end in (edge.source, edge.target)} <= {
        node.id for node in graph.nodes
    }
    assert "Only 3 entries are shown; 3 entries around them left out." in graph.notes


def test_an_unknown_id_is_an_error(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        make_graph(project, 7)
    assert caught.value.slug == "unknown-entry"
