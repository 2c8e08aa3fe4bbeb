"""What `show`, `why` and `graph` print of an entry, as values."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.config import Decay
from memory_ci.records.entry import Located
from memory_ci.records.episode import EventKind, Outcome
from memory_ci.records.report import Finding

EdgeKind = Literal["supports", "contradicts", "duplicates", "supersedes", "similar"]


class CountedFeedback(msgspec.Struct, frozen=True):
    """One event of feedback: what it added, what the utility was after it, and the episode that it came with. `delta`
    is what was added before the value was kept within [0, 1]. `episode` is "" where none is known."""

    at: datetime
    kind: EventKind
    delta: float
    value: float
    by: str = ""
    ref: str = ""
    episode: str = ""
    outcome: Outcome | None = None
    summary: str = ""


class Retrievability(msgspec.Struct, frozen=True):
    """What FSRS makes of the reviews: the days until 90 % are left, and what is left today."""

    stability: float
    retrievability: float
    reviews: int
    reviewed_on: date


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """An entry and all that its rank depends on besides the words of a task. `parts` multiply to `prominence`, the
    seed's figure with recency on the curve `decay`; `factors` are those by which retrieve multiplies relevance, none
    where the entry is not ranked. `given`, `used` and `touched` count pieces of work. `notes` say why it is not ranked,
    and what else is to be known."""

    located: Located
    today: date
    prominence: float
    parts: tuple[tuple[str, float], ...]
    decay: Decay
    utility: float
    given: int = 0
    used: int = 0
    touched: int = 0
    heard: tuple[CountedFeedback, ...] = ()
    is_low: bool = False
    memory: Retrievability | None = None
    factors: tuple[tuple[str, float], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """What one entry is to another. Stated edges weigh 1; a similar one, which has no direction, how alike they are."""

    source: str
    target: str
    kind: EdgeKind
    weight: float = 1.0


class Node(msgspec.Struct, frozen=True):
    """An entry of the graph, `distance` edges away from the one asked for. An id that is named but that no memory file
    has is a node without a type: `is_missing`."""

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
    """The neighbourhood of the entry `center`: the nearest nodes first; edges between nodes only. `notes` says in
    sentences how it was found, and what is left out."""

    center: str
    depth: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()
