"""Matches of the index, ranked hits, the answer to a task, and similar tasks of git history."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.report import Finding

Outcome = Literal["success", "partial", "failure", "neutral"]
"""The outcome of a task, in this order: merged and kept; merged and soon mended by another change;
reverted and not restored; neutral according to its episode."""


class Task(msgspec.Struct, frozen=True, kw_only=True, rename={"remaining_count": "still"}):
    """A merged change, or a declined pull request.

    Attributes:
        sha: its tip; "" if it was declined.
        merged_on: the day of the merge, or the day on which it was closed.
        number: the number of its pull request.
        files: the number of files that it changed.
        remaining_count: how many of these exist today, renamed or not.
        why: the reason for the outcome.
        quote: the beginning of its message.
        touched: the first of the files that exist today, by their present names.
    """

    sha: str
    title: str
    merged_on: date
    number: int | None = None
    branch: str = ""
    files: int = 0
    remaining_count: int = 0
    outcome: Outcome = "success"
    why: str = ""
    is_merged: bool = True
    quote: str = ""
    touched: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of this change in the `source` of an entry."""
        commit = f"commit:{self.sha[:SHA_WIDTH]}"
        return (commit,) if self.number is None else (f"pr:{self.number}", commit)

    @property
    def label(self) -> str:
        """A name for people: `#128`, or the short commit id."""
        return f"#{self.number}" if self.number is not None else self.sha[:7]


class SimilarTask(msgspec.Struct, frozen=True):
    """A similar task, with its score and the factors of this product, in the order they apply."""

    task: Task
    score: float
    factors: tuple[tuple[str, float], ...]


class ChangelogHabit(msgspec.Struct, frozen=True):
    """How many of the last changes of a class added a changelog entry.

    Attributes:
        with_entry: how many added an entry.
        total: how many were counted.
        path: the changelog, or the directory of its fragments.
    """

    with_entry: int
    total: int
    path: str


class SyncedFiles(msgspec.Struct, frozen=True):
    """Two files that change together, by a comment in the first of them."""

    path: str
    other_path: str
    comment: str


class Habits(msgspec.Struct, frozen=True):
    """Habits of the newest changes.

    Attributes:
        fragments: the habit of changelog entries by class of changes.
        conventional: how many of the last titles are Conventional Commits, and how many were
            counted.
        in_sync: pairs of files of which a comment says to change both.
    """

    fragments: dict[str, ChangelogHabit] = {}
    conventional: tuple[int, int] = (0, 0)
    in_sync: tuple[SyncedFiles, ...] = ()


class Hints(msgspec.Struct, frozen=True):
    """Hints of git history on a task for which memory has few entries.

    They are computed for each answer. They are never written or reinforced, and do not count as
    served.

    Attributes:
        changes: similar earlier changes.
        habits: one line for each habit.
    """

    changes: tuple[SimilarTask, ...] = ()
    habits: tuple[str, ...] = ()


Strength = Literal["HIT", "WEAK", "MISS"]
"""How well memory matches a task: all of it, a part, or nothing. With MISS the nearest entries are
served."""

Mode = Literal["lexical", "hybrid", "degraded"]
"""The search: by words; by words and vectors; by words because vectors failed."""


class Match(msgspec.Struct, frozen=True):
    """An entry that the index found.

    Attributes:
        lexical: -bm25(): higher is better; comparable within one query.
    """

    located: Located
    lexical: float


class Hit(msgspec.Struct, frozen=True):
    """A ranked entry.

    Attributes:
        score: the product of `factors`, which are in the order they apply.
        lanes: the raw scores of the searches that found it.
        verdicts: the state of the code that it cites.
        related: the relation by which it was added, if the words of the task did not find it; such
            hits follow the others.
        events: the number of feedback events on it.
        is_low: its feedback is so bad that a person should look at it.
        repository: the repository that it comes from, if it is another one.
        link: its address there.
    """

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
    """A ranked entry that is not served for another reason than the budget."""

    hit: Hit
    why: str


class Norm(msgspec.Struct, frozen=True):
    """A part of institutional memory, loaded whole and never ranked.

    Attributes:
        entry_id: the id of an entry; None for prose of the file.
    """

    path: str
    line: int
    text: str
    entry_id: str | None = None
    prominence: float = 0.0


class Retrieval(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"weak_count": "weak", "over_limit_count": "over_limit", "known_count": "known"},
):
    """The answer to one task.

    Attributes:
        norms: the norms that are served.
        norms_dropped: the norms beyond the budget.
        hits: the entries that are served.
        hits_dropped: the entries beyond the budget.
        notes: sentences for the caller on how the task was answered.
        findings: problems of files that could not be read.
        verdict: the strength of the match; None if it was not judged.
        weak_count: the number of entries that are not close enough to the task to be served.
        over_limit_count: the number of entries beyond the requested number.
        known_count: the number of entries that the session was served before.
        held_out: the mark of a session that is served nothing, to measure the effect of memory.
        organisation: entries of other repositories, within the rest of the budget.
    """

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
    weak_count: int = 0
    over_limit_count: int = 0
    known_count: int = 0
    hints: Hints = Hints()
    held_out: str = ""
    organisation: tuple[Hit, ...] = ()


class IndexUse(msgspec.Struct, frozen=True):
    """The index after a run.

    Attributes:
        key: its cache key.
        size: its size in bytes.
        was_rebuilt: it had to be built from nothing.
    """

    key: str
    size: int
    was_rebuilt: bool
