"""What is shown of a repository (Overview, docs/report.md), of an entry (Why), and of those around it (Graph)."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.commands.health.records import Health
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.candidate import QuestionKind


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
