"""Records of the report: an overview of a repository and its memory (docs/report.md)."""

from __future__ import annotations

from datetime import date
from typing import Literal, get_args

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
        newest_merge: the newest merge; `newest` in JSON.
        newest_memory_commit: the newest commit that changed memory; `written` in JSON.
    """

    start: date
    merges: int = 0
    learned: int = 0
    candidates: int = 0
    retired: int = 0
    newest_merge: WebLink = msgspec.field(default=WebLink(""), name="newest")
    newest_memory_commit: WebLink = msgspec.field(default=WebLink(""), name="written")


Cover = Literal["covered", "stale", "hot", "bare"]
"""Whether entries in force cite a file.

covered: entries cite the code as it is; stale: an entry cites older code;
hot: none cites it, though it changes often; bare: none cites it.
"""


class ChurnedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, how many merged changes touched it, and how many entries in force cite it.

    Attributes:
        stale_id: the id of an entry that cites older code of the file; "" if every cite is current.
    """

    path: str
    churn: int
    entries: int
    cover: Cover
    url: str = ""
    stale_id: str = ""


class LifeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One event in the life of an entry; `at` is None where the day is not recorded."""

    at: date | None
    what: str
    text: str = ""
    links: tuple[WebLink, ...] = ()


FaultKind = Literal["gone", "contradicted", "changed", "unused"]
"""What may be wrong with an entry in force, the worst first.

gone, changed: so is the code that it cites; contradicted: another entry says the opposite;
unused: it was served often and never used.
"""
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


class EntryFault(msgspec.Struct, frozen=True):
    """A fault of an entry: the cites, the title of the opponent, or the counts."""

    kind: FaultKind
    detail: str


class EntryLife(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, its use, and its life from learning to retirement.

    Attributes:
        is_in_force: whether jobs may be served it today.
        at: the day of the work that taught it.
        links: the changes that taught it.
        place: its file and line, as `path:line`.
        prominence: its rank without a task, by which the page sorts entries.
        served_count: how many jobs it was served to; `served` in JSON.
        used_count: how many of these used it; `used` in JSON.
        verdict: the verdict of its cites together; "" if it has none.
        faults: its faults, the worst first.
        quotes: its evidence.
        life: the events of its life.
        relations: as (kind, title or id of the other entry); `others` in JSON.
    """

    id: str
    title: str
    body: str
    type: str
    scope: str
    status: str
    place: str
    prominence: float
    served_count: int = msgspec.field(name="served")
    used_count: int = msgspec.field(name="used")
    verdict: VerdictKind | Literal[""]
    is_in_force: bool = True
    at: date | None = None
    links: tuple[WebLink, ...] = ()
    faults: tuple[EntryFault, ...] = ()
    quotes: tuple[str, ...] = ()
    life: tuple[LifeStep, ...] = ()
    relations: tuple[tuple[str, str], ...] = msgspec.field(default=(), name="others")


FoundState = Literal["served", "no room", "over limit", "weak", "withheld"]


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
        omitted_count: how many entries that are not served are left out of `found`; `more` in JSON.
        answer_parts: how many characters each part of the answer takes, as (part, characters); the
            part that does not fit comes last; `budget` in JSON.
        budget: how many characters an answer may have; `room` in JSON.
    """

    task: str
    found: tuple[ScoredEntry, ...]
    omitted_count: int = msgspec.field(name="more")
    answer_parts: tuple[tuple[str, int], ...] = msgspec.field(name="budget")
    budget: int = msgspec.field(name="room")


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the inbox, and the commands that answer it.

    Attributes:
        entry_id: the entry that it is about, "" if it is about a candidate.
        links: the changes that say the candidate.
    """

    kind: QuestionKind
    title: str
    why: str
    quote: str
    commands: tuple[str, ...]
    entry_id: str = ""
    links: tuple[WebLink, ...] = ()


class ReleaseHealth(msgspec.Struct, frozen=True):
    """The health at a release, or at the end of a month."""

    name: str
    health: Health


class SourceCount(msgspec.Struct, frozen=True):
    """The number of entries with sources of a kind, and their extractor: an engine, or people."""

    kind: str
    engine: str
    count: int


class EntryMention(msgspec.Struct, frozen=True):
    """An entry that a sentence names, and the reason; the id is "" for a line of a document."""

    id: str
    title: str
    reason: str = ""


class UsePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The use of memory in one period.

    Attributes:
        first: its first day.
        last: its last day.
        learned: how many entries its work taught.
        sessions: how many sessions were served an entry.
        servings: how many entries merged work was served, summed over the merged changes.
        used: how many of these it used.
        repetitions: how often a request was made that two earlier sessions had made.
        although_written: how many of these a rule preceded.
        rules_served: how often a session with known words was served a rule or a known failure.
        failed_again: in how many of these a command failed again.
    """

    first: date
    last: date
    learned: int = 0
    sessions: int = 0
    servings: int = 0
    used: int = 0
    repetitions: int = 0
    although_written: int = 0
    rules_served: int = 0
    failed_again: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to the four questions on the first screen.

    Attributes:
        recent: the last four weeks.
        before: the four weeks before.
        has_session_words: whether sessions hold words of people, by which repetitions are counted;
            `is_heard` in JSON.
        newest: ids of the entries in force of the newest work, the newest first.
        most_used: the entries that the work of the last four weeks used most.
        asked_again: the rules that people asked for in the last four weeks although written.
        failed_again: the known failures that happened again in the last four weeks.
        faulty: the entries with faults, the worst first.
        over_budget: the entries that exceeded the budget.
        compared_count: how many entries in force cite code that could be compared; `compared` in
            JSON.
    """

    recent: UsePeriod
    before: UsePeriod
    has_session_words: bool = msgspec.field(default=False, name="is_heard")
    newest: tuple[str, ...] = ()
    most_used: tuple[EntryMention, ...] = ()
    asked_again: tuple[EntryMention, ...] = ()
    failed_again: tuple[EntryMention, ...] = ()
    faulty: tuple[str, ...] = ()
    over_budget: tuple[EntryMention, ...] = ()
    compared_count: int = msgspec.field(default=0, name="compared")


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the whole page.

    Attributes:
        name: the name of the repository.
        address: its address on the web, "" if it has none.
        commit: the commit whose history counts, "" before the first one.
        summary: the answers to the questions of the first screen; None without a commit.
        entries: all entries, the most prominent first.
        inbox: the questions, the most useful first.
        waiting: how many questions there are, those that are left out included.
        cost_usd: the cost of extraction in the weeks shown.
        found_by_model: how many entries a model wrote in these weeks.
        notes: sentences on parts that could not be read or are left out.
    """

    name: str
    address: str
    today: date
    commit: str
    summary: Summary | None = None
    entries: tuple[EntryLife, ...] = ()
    weeks: tuple[WorkWeek, ...] = ()
    files: tuple[ChurnedFile, ...] = ()
    tasks: tuple[ExplainedTask, ...] = ()
    inbox: tuple[AskedQuestion, ...] = ()
    waiting: int = 0
    releases: tuple[ReleaseHealth, ...] = ()
    sources: tuple[SourceCount, ...] = ()
    cost_usd: float = 0.0
    found_by_model: int = 0
    notes: tuple[str, ...] = ()
