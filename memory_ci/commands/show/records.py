"""Records that `show --why` and `show --graph` print of an entry."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.records.episode import EventKind, Outcome
from memory_ci.records.report import Finding

EdgeKind = Literal["supports", "contradicts", "duplicates", "supersedes", "similar"]


class CountedFeedback(msgspec.Struct, frozen=True):
    """One event of feedback and its effect on the utility of the entry.

    Attributes:
        delta: the change before the utility was bounded to [0, 1].
        value: the utility after the event.
        episode: the id of the episode that it came with, or "".
    """

    at: datetime
    kind: EventKind
    delta: float
    value: float
    by: str = ""
    ref: str = ""
    episode: str = ""
    outcome: Outcome | None = None
    summary: str = ""


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, and all that its rank depends on except the words of a task.

    Attributes:
        prominence: the seed's formula.
        parts: the factors of `prominence`.
        given: how much work was served the entry.
        used: how much work used it.
        touched: how much work was about the same thing.
        heard: the feedback, oldest first.
        factors: the factors by which retrieve multiplies relevance; none if it is not ranked.
        notes: why it is not ranked, and other remarks.
    """

    located: Located
    today: date
    prominence: float
    parts: tuple[tuple[str, float], ...]
    utility: float
    given: int = 0
    used: int = 0
    touched: int = 0
    heard: tuple[CountedFeedback, ...] = ()
    is_low: bool = False
    factors: tuple[tuple[str, float], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """A relation between two entries.

    Attributes:
        weight: 1 for a stated relation; the similarity for `similar`, which has no direction.
    """

    source: str
    target: str
    kind: EdgeKind
    weight: float = 1.0


class Node(msgspec.Struct, frozen=True):
    """An entry of the graph.

    Attributes:
        distance: how many edges it is away from the center.
        is_missing: an entry names the id, but no memory file has it; such a node has no type.
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
    """The neighbourhood of an entry.

    Attributes:
        center: the id of the entry.
        nodes: the entries around it, the nearest first.
        edges: relations between the nodes.
        notes: sentences on how it was found, and on omitted entries.
    """

    center: str
    depth: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()
