"""Graph: an entry, what it names, what names it, and what is like it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memory_ci.flows.index import synced_index
from memory_ci.flows.lookup import find_entry
from memory_ci.flows.workspace import Workspace
from memory_ci.index.database import Index
from memory_ci.index.neighbours import LEAST_JACCARD, find_similar
from memory_ci.index.search import list_entries
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import words_of
from memory_ci.records.entry import Located
from memory_ci.records.overview import Edge, Graph, Node
from memory_ci.text import plural

MAX_NODES = 200
"""More than that nobody reads, and for each of them the index is asked."""


def build_graph(workspace: Workspace, prefix: str, depth: int, most: int = MAX_NODES) -> Graph:
    """The entry whose id starts with `prefix`, with up to `most` that are at most `depth` edges away in memory at hand.

    Stated edges are followed both ways. Retired entries are shown where they are named; none is similar to anything.
    Raises UsageError: unknown-entry, ambiguous-entry.
    """
    with synced_index(workspace) as index:
        located = list_entries(index)
        center = find_entry(located, prefix).entry.id
        return _Neighbourhood(index, located, center, most).explore(depth)


class _Neighbourhood:
    """The nodes and edges met so far, and how to find more."""

    def __init__(self, index: Index, located: Iterable[Located], center: str, most: int) -> None:
        self._index = index
        self._places: dict[str, Located] = {}
        for place in located:
            self._places.setdefault(place.entry.id, place)
        self._stated = _list_stated(self._places)
        self._center, self._most = center, most
        self._distances = {center: 0}
        self._edges: dict[tuple[frozenset[str] | tuple[str, str], str], Edge] = {}
        self._is_by_words = False
        self._left_out: set[str] = set()

    def explore(self, depth: int) -> Graph:
        frontier = [self._center]
        for distance in range(1, depth + 1):
            similar = self._list_similar(frontier)
            frontier = [
                one
                for id_ in frontier
                for edge in (*self._stated[id_], *similar.get(id_, ()))
                for one in self._take_in(edge, id_, distance)
            ]
        nodes = tuple(_node(id_, distance, self._places.get(id_)) for id_, distance in self._distances.items())
        return Graph(self._center, depth, nodes, tuple(self._edges.values()), tuple(self._notes()))

    def _take_in(self, edge: Edge, id_: str, distance: int) -> Iterator[str]:
        """Keep an edge of an entry; the id at its other end if that was not known before and there is room for it."""
        other = edge.target if edge.source == id_ else edge.source
        if other not in self._distances:
            if len(self._distances) >= self._most:
                self._left_out.add(other)
                return
            self._distances[other] = distance
            yield other
        ends = frozenset((edge.source, edge.target)) if edge.kind == "similar" else (edge.source, edge.target)
        self._edges.setdefault((ends, edge.kind), edge)

    def _list_similar(self, ids: Sequence[str]) -> dict[str, list[Edge]]:
        places = [
            self._places[id_] for id_ in ids if id_ in self._places and self._places[id_].entry.status != "retired"
        ]
        found = find_similar(self._index, places, words_of, scopes=None)
        self._is_by_words |= any(one.basis == "words" for one in found)
        return {
            place.entry.id: [
                Edge(place.entry.id, near.located.entry.id, "similar", round(near.weight, 4)) for near in one.near
            ]
            for place, one in zip(places, found, strict=True)
        }

    def _notes(self) -> Iterator[str]:
        if self._is_by_words:
            yield f"Similar entries were found by words in common ({LEAST_JACCARD:.2f} or more), not by vectors."
        if self._left_out:
            yield f"Only {self._most} entries are shown; {plural(len(self._left_out), 'entry')} around them left out."


def _list_stated(places: Mapping[str, Located]) -> defaultdict[str, list[Edge]]:
    """By each id the edges that it has a part in, in the order of the kinds and of the ids at their other ends."""
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for id_, place in sorted(places.items()):
        relations = (Edge(id_, relation.id, relation.kind) for relation in relations_of(place.entry))
        older = (Edge(id_, old, "supersedes") for old in place.entry.supersedes)
        for edge in dict.fromkeys((*relations, *older)):
            edges[edge.source].append(edge)
            if edge.target != edge.source:
                edges[edge.target].append(edge)
    return edges


def _node(id_: str, distance: int, place: Located | None) -> Node:
    if place is None:
        return Node(id_, distance, is_missing=True)
    entry, scope = place.entry, place.scope
    return Node(id_, distance, entry.title, entry.type, entry.status, scope.target, place.path, place.line)
