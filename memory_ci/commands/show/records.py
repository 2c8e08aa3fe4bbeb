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


class RankExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, and all that its rank depends on except the words of a task.

    Attributes:
        located: the entry, with its place in memory.
        today: the day of the explanation.
        prominence: the rank without a task, the product of `prominence_factors`.
        prominence_factors: the name and value of each factor; `parts` in JSON.
        utility: the value of the entry by the feedback on it, from 0 to 1.
        served_count: how much work was served the entry; `served` in JSON.
        used_count: how much work used it; `used` in JSON.
        related_count: how many events of `feedback` only say that work which was served the entry
            was about the same thing; `touched` in JSON.
        feedback: every event, oldest first; `heard` in JSON.
        has_low_utility: much of the feedback is negative; `is_low` in JSON.
        rank_factors: the name and value of each factor by which retrieve multiplies relevance;
            none if the entry is not ranked; `factors` in JSON.
        verdicts: whether the code that it cites is unchanged.
        notes: why it is not ranked, and other remarks.
        findings: findings on episode files that cannot be read.
    """

    located: Located
    today: date
    prominence: float
    prominence_factors: tuple[tuple[str, float], ...] = msgspec.field(name="parts")
    utility: float
    served_count: int = msgspec.field(default=0, name="served")
    used_count: int = msgspec.field(default=0, name="used")
    related_count: int = msgspec.field(default=0, name="touched")
    feedback: tuple[CountedFeedback, ...] = msgspec.field(default=(), name="heard")
    has_low_utility: bool = msgspec.field(default=False, name="is_low")
    rank_factors: tuple[tuple[str, float], ...] = msgspec.field(default=(), name="factors")
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def judging_count(self) -> int:
        """The number of feedback events that say something for or against the entry."""
        return len(self.feedback) - self.related_count


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
