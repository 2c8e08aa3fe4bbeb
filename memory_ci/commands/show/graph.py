"""The neighbourhood of an entry: stated relations, superseded entries, and similar entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from memory_ci.commands.show.records import Edge, Graph, Node
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import words_of
from memory_ci.memory.index import synced_index
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Located
from memory_ci.search.database import Index
from memory_ci.search.neighbours import LEAST_JACCARD, find_similar
from memory_ci.search.search import list_entries
from memory_ci.text import plural

MAX_NODES = 200  # Nobody reads more, and the index is queried for each of them.


def build_graph(workspace: Workspace, prefix: str, depth: int, most: int = MAX_NODES) -> Graph:
    """Return the graph around the entry whose id starts with a prefix.

    Stated edges are followed both ways. Retired entries are shown if an entry names them; they
    have no similar entries.

    Args:
        depth: how many edges away from the entry to look.
        most: the number of nodes at most.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    with synced_index(workspace) as index:
        all_located = list_entries(index)
        center = find_entry(all_located, prefix).entry.id
        builder = _GraphBuilder(index, all_located, center, most)
        for distance in range(1, depth + 1):
            builder.add_level(distance)

    notes = []
    if builder.is_by_words:
        notes.append(
            f"Similar entries were found by words in common ({LEAST_JACCARD:.2f} or more), "
            "not by vectors."
        )
    if builder.left_out:
        count = plural(len(builder.left_out), "entry")
        notes.append(f"Only {most} entries are shown; {count} around them left out.")
    return Graph(center, depth, builder.list_nodes(), tuple(builder.edges.values()), tuple(notes))


class _GraphBuilder:
    """Breadth-first search over the edges between entries.

    Attributes:
        edges: edges by their ends and kind; a similar edge has no direction and counts once.
        left_out: ids of entries that are over the maximum.
        is_by_words: some similar entries were found by words instead of vectors.
    """

    def __init__(
        self, index: Index, all_located: Sequence[Located], center: str, max_nodes: int
    ) -> None:
        self.edges: dict[tuple[frozenset[str] | tuple[str, str], str], Edge] = {}
        self.left_out: set[str] = set()
        self.is_by_words = False
        self._index = index
        self._max_nodes = max_nodes
        # Of several entries with one id the first counts.
        self._located = {located.entry.id: located for located in reversed(all_located)}
        self._stated = _list_stated(self._located)
        self._distances = {center: 0}
        self._frontier = [center]

    def add_level(self, distance: int) -> None:
        """Add the edges of the frontier; the nodes that they reach become the new frontier."""
        edges = {id_: list(self._stated[id_]) for id_ in self._frontier}
        for edge in self._find_similar_edges():
            edges[edge.source].append(edge)

        self._frontier = []
        for id_, node_edges in edges.items():
            for edge in node_edges:
                self._add_edge(id_, edge, distance)

    def list_nodes(self) -> tuple[Node, ...]:
        """List the nodes, the nearest first."""
        return tuple(
            _make_node(id_, distance, self._located.get(id_))
            for id_, distance in self._distances.items()
        )

    def _find_similar_edges(self) -> list[Edge]:
        located_entries = []
        for id_ in self._frontier:
            located = self._located.get(id_)
            if located is not None and located.entry.status != "retired":
                located_entries.append(located)
        results = find_similar(self._index, located_entries, words_of, scopes=None)

        edges = []
        for located, similar in zip(located_entries, results, strict=True):
            if similar.basis == "words":
                self.is_by_words = True
            for neighbour in similar.neighbours:
                weight = round(neighbour.weight, 4)
                neighbour_id = neighbour.located.entry.id
                edges.append(Edge(located.entry.id, neighbour_id, "similar", weight))
        return edges

    def _add_edge(self, id_: str, edge: Edge, distance: int) -> None:
        other_id = edge.target if edge.source == id_ else edge.source
        if other_id not in self._distances:
            if len(self._distances) >= self._max_nodes:
                self.left_out.add(other_id)
                return
            self._distances[other_id] = distance
            self._frontier.append(other_id)
        ends = (edge.source, edge.target)
        key = frozenset(ends) if edge.kind == "similar" else ends
        self.edges.setdefault((key, edge.kind), edge)


def _list_stated(located_by_id: Mapping[str, Located]) -> defaultdict[str, list[Edge]]:
    """List by id the edges that entries state, in the order of kinds and of other ids."""
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for id_, located in sorted(located_by_id.items()):
        stated = [Edge(id_, relation.id, relation.kind) for relation in relations_of(located.entry)]
        stated += [Edge(id_, older_id, "supersedes") for older_id in located.entry.supersedes]
        for edge in dict.fromkeys(stated):
            for end in {edge.source, edge.target}:
                edges[end].append(edge)
    return edges


def _make_node(id_: str, distance: int, located: Located | None) -> Node:
    if located is None:
        return Node(id_, distance, is_missing=True)
    entry = located.entry
    return Node(
        id=id_,
        distance=distance,
        title=entry.title,
        type=entry.type,
        status=entry.status,
        scope=located.scope.target,
        path=located.path,
        line=located.line,
    )
