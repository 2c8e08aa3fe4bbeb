"""What is shown of a repository (Overview, docs/report.md), of an entry (Why), and of those around it (Graph)."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict, VerdictKind
from memory_ci.records.candidate import QuestionKind
from memory_ci.records.config import Decay
from memory_ci.records.entry import Located
from memory_ci.records.episode import EventKind, Outcome
from memory_ci.records.health import Health
from memory_ci.records.report import Finding


class WebLink(msgspec.Struct, frozen=True):
    """A name, and where it leads: "" where the repository has no address on the web."""

    label: str
    url: str = ""


class WorkWeek(msgspec.Struct, frozen=True, kw_only=True):
    """The week that begins on the Monday `start`: what was merged, and what became of memory. `newest` is the newest
    merge, `written` the newest commit that changed memory."""

    start: date
    merges: int = 0
    learned: int = 0
    candidates: int = 0
    retired: int = 0
    newest: WebLink = WebLink("")
    written: WebLink = WebLink("")


# Of a file: an entry in force cites it; all that do cite other code; none does though it changes often; none does.
Cover = Literal["covered", "stale", "hot", "bare"]


class ChurnedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, how many merged changes touched it, and how many entries in force cite it."""

    path: str
    churn: int
    entries: int
    cover: Cover
    url: str = ""


class LifeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to an entry; `at` None: nobody noted the day."""

    at: date | None
    what: str
    text: str = ""
    links: tuple[WebLink, ...] = ()


class EntryLife(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, its use, and what happened to it from its learning to its retirement. `verdict` says what became of the
    code that it cites, "" where it cites none; `others` are its relations."""

    id: str
    title: str
    body: str
    type: str
    scope: str
    status: str
    place: str
    prominence: float
    given: int
    used: int
    verdict: VerdictKind | Literal[""]
    quotes: tuple[str, ...] = ()
    life: tuple[LifeStep, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


FoundState = Literal["given", "no room", "weak", "withheld"]


class ScoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a task finds. `parts` add up to the score: what each factor of the product added or took."""

    id: str
    title: str
    state: FoundState
    score: float
    parts: tuple[tuple[str, float], ...]
    why: str = ""


class ExplainedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task and all that it finds, first what is given.

    `more` weak entries are left out of `found`. `budget` is how many of the `room` characters each part of the answer
    takes; what was left out comes last.
    """

    task: str
    found: tuple[ScoredEntry, ...]
    more: int
    budget: tuple[tuple[str, int], ...]
    room: int


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the inbox, and the commands that answer it."""

    kind: QuestionKind
    title: str
    why: str
    quote: str
    commands: tuple[str, ...]


class ReleaseHealth(msgspec.Struct, frozen=True):
    """The health at a release, or at the end of a month."""

    name: str
    health: Health


class SourceCount(msgspec.Struct, frozen=True):
    """How many entries came from sources of a kind, and who found them: an engine, or people."""

    kind: str
    engine: str
    count: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page shows. `notes` say what could not be read or is left out, one sentence each."""

    name: str
    address: str
    today: date
    commit: str
    entries: tuple[EntryLife, ...] = ()
    weeks: tuple[WorkWeek, ...] = ()
    files: tuple[ChurnedFile, ...] = ()
    tasks: tuple[ExplainedTask, ...] = ()
    inbox: tuple[AskedQuestion, ...] = ()
    releases: tuple[ReleaseHealth, ...] = ()
    sources: tuple[SourceCount, ...] = ()
    cost_usd: float = 0.0
    notes: tuple[str, ...] = ()


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


EdgeKind = Literal["supports", "contradicts", "duplicates", "supersedes", "similar"]


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
