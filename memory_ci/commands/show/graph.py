"""The graph around an entry: entries that it is related to, supersedes, or is similar to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory_ci.commands.show.records import Edge, Graph, Node
from memory_ci.lifecycle.relations import parse_relations
from memory_ci.lifecycle.similarity import list_entry_words
from memory_ci.memory.index import synced_index
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Located
from memory_ci.search.database import Index
from memory_ci.search.neighbours import MIN_JACCARD, find_similar
from memory_ci.search.search import list_entries
from memory_ci.text import plural

MAX_NODES = 200  # Nobody reads more, and the index is queried for each of them.


def build_graph(workspace: Workspace, prefix: str, depth: int, max_nodes: int = MAX_NODES) -> Graph:
    """Return the graph around the entry whose id starts with a prefix.

    Edges are the relations that entries state, which are followed both ways, and similarity.
    Retired entries are shown if an entry names them; they have no similar entries.

    Args:
        workspace: the repository and its configuration.
        prefix: the first characters of the entry's id.
        depth: how many edges away from the entry to look.
        max_nodes: the largest number of nodes.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    with synced_index(workspace) as index:
        all_located = list_entries(index)
        center_id = find_entry(all_located, prefix).entry.id
        builder = _GraphBuilder(index, all_located, center_id, max_nodes)
        for distance in range(1, depth + 1):
            builder.add_level(distance)

    notes = []
    if builder.has_word_matches:
        notes.append(
            f"Similar entries were found by words in common ({MIN_JACCARD:.2f} or more), "
            "not by vectors."
        )
    if builder.omitted_ids:
        count = plural(len(builder.omitted_ids), "entry")
        notes.append(f"Only {max_nodes} entries are shown; {count} around them left out.")
    edges = tuple(builder.edges.values())
    return Graph(center_id, depth, builder.list_nodes(), edges, tuple(notes))


class _EdgeKey(NamedTuple):
    """What makes two edges the same: a kind, and the ids of two entries.

    The ids of a similar edge are in alphabetic order: it has no direction, and counts once.
    """

    source: str
    target: str
    kind: str


class _GraphBuilder:
    """Breadth-first search over the edges between entries.

    Attributes:
        edges: the edges, each once.
        omitted_ids: ids of entries for which the graph has no room.
        has_word_matches: some similar entries were found by words instead of vectors.
    """

    def __init__(
        self, index: Index, all_located: Sequence[Located], center_id: str, max_nodes: int
    ) -> None:
        """Start the search at one entry.

        Args:
            index: the index that similar entries are searched in.
            all_located: all entries of memory.
            center_id: the id of the first entry.
            max_nodes: the largest number of nodes.
        """
        self.edges: dict[_EdgeKey, Edge] = {}
        self.omitted_ids: set[str] = set()
        self.has_word_matches = False
        self._index = index
        self._max_nodes = max_nodes
        # Of several entries with one id the first counts.
        self._located = {located.entry.id: located for located in reversed(all_located)}
        self._stated_edges = _map_stated_edges(self._located)
        self._distances = {center_id: 0}
        self._frontier = [center_id]  # The ids of the nodes that were reached last.

    def add_level(self, distance: int) -> None:
        """Add the edges of the frontier; the nodes that they reach become the new frontier."""
        edges_by_id = {node_id: list(self._stated_edges[node_id]) for node_id in self._frontier}
        for edge in self._find_similar_edges():
            edges_by_id[edge.source].append(edge)

        self._frontier = []
        for node_id, edges in edges_by_id.items():
            for edge in edges:
                self._add_edge(node_id, edge, distance)

    def list_nodes(self) -> tuple[Node, ...]:
        """List the nodes, the nearest first."""
        return tuple(
            _make_node(node_id, distance, self._located.get(node_id))
            for node_id, distance in self._distances.items()
        )

    def _find_similar_edges(self) -> list[Edge]:
        """Return edges from the entries of the frontier to the entries similar to them.

        The frontier are the nodes that were reached last. Retired entries have no similar ones.
        """
        located_entries = []
        for node_id in self._frontier:
            located = self._located.get(node_id)
            if located is not None and located.entry.status != "retired":
                located_entries.append(located)
        all_scopes = None
        results = find_similar(self._index, located_entries, list_entry_words, scopes=all_scopes)

        edges = []
        for located, similar in zip(located_entries, results, strict=True):
            if similar.basis == "words":
                self.has_word_matches = True
            for neighbour in similar.neighbours:
                weight = round(neighbour.weight, 4)
                neighbour_id = neighbour.located.entry.id
                edges.append(Edge(located.entry.id, neighbour_id, kind="similar", weight=weight))
        return edges

    def _add_edge(self, node_id: str, edge: Edge, distance: int) -> None:
        """Add an edge of a node, and the node at its other end if there is room for it.

        Args:
            node_id: the node from which the edge is followed.
            edge: the edge.
            distance: the distance of the other end from the center, if it is new.
        """
        other_id = edge.target if edge.source == node_id else edge.source
        if other_id not in self._distances:
            if len(self._distances) >= self._max_nodes:
                self.omitted_ids.add(other_id)
                return
            self._distances[other_id] = distance
            self._frontier.append(other_id)
        source, target = edge.source, edge.target
        if edge.kind == "similar":
            source, target = sorted((source, target))
        self.edges.setdefault(_EdgeKey(source, target, edge.kind), edge)


def _map_stated_edges(located_by_id: Mapping[str, Located]) -> defaultdict[str, list[Edge]]:
    """Return for each id the edges that an entry states and that begin or end at the id."""
    edges_by_id: defaultdict[str, list[Edge]] = defaultdict(list)
    for entry_id, located in sorted(located_by_id.items()):
        entry = located.entry
        edges = [Edge(entry_id, relation.id, relation.kind) for relation in parse_relations(entry)]
        edges += [Edge(entry_id, older_id, kind="supersedes") for older_id in entry.supersedes]
        unique_edges = dict.fromkeys(edges)
        for edge in unique_edges:
            for end_id in {edge.source, edge.target}:
                edges_by_id[end_id].append(edge)
    return edges_by_id


def _make_node(node_id: str, distance: int, located: Located | None) -> Node:
    """Return the node of an id.

    Args:
        node_id: the id.
        distance: how many edges it is away from the center.
        located: the entry; None if an entry names the id, and no memory file has it.
    """
    if located is None:
        return Node(node_id, distance, is_missing=True)
    entry = located.entry
    return Node(
        id=node_id,
        distance=distance,
        title=entry.title,
        type=entry.type,
        status=entry.status,
        scope=located.scope.target,
        path=located.path,
        line=located.line,
    )
