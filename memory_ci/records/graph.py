"""Graph: an entry and those around it, as `memory-ci graph` shows them."""

from __future__ import annotations

from typing import Literal

import msgspec

EdgeKind = Literal["supports", "contradicts", "duplicates", "supersedes", "similar"]


class Edge(msgspec.Struct, frozen=True):
    """What one entry is to another. Stated edges weigh 1; a similar one, which has no direction, how alike they are."""

    source: str
    target: str
    kind: EdgeKind
    weight: float = 1.0


class Node(msgspec.Struct, frozen=True):
    """An entry of the graph, `distance` edges away from the one asked for.

    An id that is named but that no memory file has is a node without a type: `is_missing`.
    """

    id: str
    distance: int
    title: str = ""
    type: str = ""
    status: str = ""
    scope: str = ""
    path: str = ""
    line: int = 0
    is_missing: bool = False


class Graph(msgspec.Struct, frozen=True):
    """The neighbourhood of the entry `center`: the nearest nodes first; edges between nodes only.

    `notes` says in sentences how it was found, and what is left out.
    """

    center: str
    depth: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()
