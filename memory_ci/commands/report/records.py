"""Records of the report: an overview of a repository and its memory (docs/report.md)."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.commands.health.records import Health
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.candidate import QuestionKind


class WebLink(msgspec.Struct, frozen=True):
    """A label and its URL; the URL is "" where the repository has no address on the web."""

    label: str
    url: str = ""


class WorkWeek(msgspec.Struct, frozen=True, kw_only=True):
    """Merges and changes of memory in one week.

    Attributes:
        start: its Monday.
        merges: how many changes were merged.
        learned: how many entries its work taught.
        candidates: how many candidates of its work are in the inbox.
        retired: how many entries were retired.
        newest: the newest merge.
        written: the newest commit that changed memory.
    """

    start: date
    merges: int = 0
    learned: int = 0
    candidates: int = 0
    retired: int = 0
    newest: WebLink = WebLink("")
    written: WebLink = WebLink("")


Cover = Literal["covered", "stale", "hot", "bare"]
"""Whether entries in force cite a file.

covered: an entry cites the code as it is; stale: all entries that cite it cite older code;
hot: none cites it, though it changes often; bare: none cites it.
"""


class ChurnedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, how many merged changes touched it, and how many entries in force cite it."""

    path: str
    churn: int
    entries: int
    cover: Cover
    url: str = ""


class LifeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One event in the life of an entry; `at` is None where the day is not recorded."""

    at: date | None
    what: str
    text: str = ""
    links: tuple[WebLink, ...] = ()


class EntryLife(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, its use, and its life from learning to retirement.

    Attributes:
        place: its file and line, as `path:line`.
        given: how many jobs it was served to.
        used: how many of these used it.
        verdict: the verdict of its cites together; "" if it has none.
        quotes: its evidence.
        life: the events of its life.
        others: its relations, as (kind, title or id of the other entry).
    """

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


FoundState = Literal["given", "no room", "over limit", "weak", "withheld"]


class ScoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a task finds, and the factors of its score.

    Attributes:
        parts: how much each factor of the product added or took, as (factor, difference);
            they add up to the score.
        why: why it is withheld, if it is.
    """

    id: str
    title: str
    state: FoundState
    score: float
    parts: tuple[tuple[str, float], ...]
    why: str = ""


class ExplainedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task and the entries that it finds.

    Attributes:
        found: the entries, first those that are served.
        more: how many entries that are not served are left out of `found`.
        budget: how many characters each part of the answer takes, as (part, characters); the
            part that does not fit comes last.
        room: the budget, in characters.
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
    """The number of entries with sources of a kind, and their extractor: an engine, or people."""

    kind: str
    engine: str
    count: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the whole page.

    Attributes:
        name: the name of the repository.
        address: its address on the web, "" if it has none.
        commit: the commit whose history counts, "" before the first one.
        cost_usd: the cost of extraction in the weeks shown.
        found_by_model: how many entries a model wrote in these weeks.
        notes: sentences on parts that could not be read or are left out.
    """

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
    found_by_model: int = 0
    notes: tuple[str, ...] = ()
