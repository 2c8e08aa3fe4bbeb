"""What the index found, what was ranked, what is served; the tasks of the past that are alike."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.report import Finding

# Merged and kept; merged and soon fixed up by another change; reverted, and not brought back; what an episode says.
Outcome = Literal["success", "partial", "failure", "neutral"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A merged change, or a request that was closed on the day `merged_on` without being merged, and has no sha.
    `still` of its `files` are there today, renamed or not, and the first of them are `touched`, by the names of today;
    `why` tells what became of it. `quote` is the beginning of what its message says."""

    sha: str
    title: str
    merged_on: date
    number: int | None = None
    branch: str = ""
    files: int = 0
    still: int = 0
    outcome: Outcome = "success"
    why: str = ""
    is_merged: bool = True
    quote: str = ""
    touched: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """How the `source` of an entry names this change."""
        request = () if self.number is None else (f"pr:{self.number}",)
        return (*request, f"commit:{self.sha[:SHA_WIDTH]}")

    @property
    def label(self) -> str:
        """How a person would name it: `#128`, else the short sha."""
        return f"#{self.number}" if self.number is not None else self.sha[:7]


class SimilarTask(msgspec.Struct, frozen=True):
    """A task like the one asked about: the score, and the factors whose product it is, in the order they apply."""

    task: Task
    score: float
    factors: tuple[tuple[str, float], ...]


class Habits(msgspec.Struct, frozen=True):
    """What the newest changes have in common. `fragments`: for each class of change how many of its last `of` came with
    a changelog entry, and where that is. `conventional`: how many of the last titles, of how many, are Conventional
    Commits. `in_sync`: (file, another file, the comment in one of them that says to change both)."""

    fragments: dict[str, tuple[int, int, str]] = {}
    conventional: tuple[int, int] = (0, 0)
    in_sync: tuple[tuple[str, str, str], ...] = ()


class Hints(msgspec.Struct, frozen=True):
    """What git history says of a task where memory says little: earlier `changes` like it, and a line for each habit.
    Counted when it is asked for: never written, reinforced, or counted as given."""

    changes: tuple[SimilarTask, ...] = ()
    habits: tuple[str, ...] = ()


Strength = Literal[
    "HIT", "WEAK", "MISS"
]  # Memory speaks of it, of a part, or not: the nearest is served.


Mode = Literal[
    "lexical", "hybrid", "degraded"
]  # By words, also by vectors, or by words because vectors failed.


class Match(msgspec.Struct, frozen=True):
    """An entry the index found. `lexical` is -bm25(): higher is better, comparable within one query."""

    located: Located
    lexical: float


class Hit(msgspec.Struct, frozen=True):
    """A ranked entry: final score and the factors whose product it is, in the order they apply.
    `lanes` are the raw scores of the lanes that found it; `verdicts` say what became of the code it cites. `related`
    says by what relation it came, if not by the task's words: such a hit follows the others. `events`: how often
    something was said of it; `is_low`: so much against it that a person should look at it. `repository` and `link`:
    where it comes from, if not from here."""

    located: Located
    score: float
    factors: tuple[tuple[str, float], ...]
    lanes: tuple[tuple[str, float], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    related: str = ""
    events: int = 0
    is_low: bool = False
    repository: str = ""
    link: str = ""


class Withheld(msgspec.Struct, frozen=True):
    """A ranked entry that is not served although there may be room for it, and why."""

    hit: Hit
    why: str


class Norm(msgspec.Struct, frozen=True):
    """A part of institutional memory, loaded whole and never ranked: an entry, or prose of the file."""

    path: str
    line: int
    text: str
    entry_id: str | None = None
    prominence: float = 0.0


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one task: what is injected, what was dropped for want of room, what was not read.
    `notes` is what the caller should know of how it was answered, one sentence each. `verdict` is None where nothing
    was judged. `weak` matches were not given, for they are not close enough to the task, `over_limit` ones because
    so many were not asked for, `known` ones because the session was given them before. `held_out` is the mark of a
    session that is given nothing, to see what that does.
    `organisation`: what other repositories learned, in the room that is left."""

    task: str
    mode: Mode
    norms: tuple[Norm, ...] = ()
    norms_dropped: tuple[Norm, ...] = ()
    hits: tuple[Hit, ...] = ()
    hits_dropped: tuple[Hit, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    verdict: Strength | None = None
    weak: int = 0
    over_limit: int = 0
    known: int = 0
    hints: Hints = Hints()
    held_out: str = ""
    organisation: tuple[Hit, ...] = ()


class IndexStats(msgspec.Struct, frozen=True):
    """Counts of entries, of feedback, of different words and of their occurrences; vectors by model; `size` in bytes.
    `files` are memory and episode files."""

    schema: int
    sqlite: str
    size: int
    files: int
    entries: int
    feedback: int
    scopes: dict[str, int]
    types: dict[str, int]
    statuses: dict[str, int]
    terms: int
    occurrences: int
    vectors: dict[str, int]


class IndexUse(msgspec.Struct, frozen=True):
    """The index after a run: its cache key, its `size` in bytes, and whether it had to be built from nothing."""

    key: str
    size: int
    was_rebuilt: bool
