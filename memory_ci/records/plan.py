"""Change: a decision, not yet done. Plan: all that a run decided (docs/plan.schema.json). Published: its way out.

RunLine: what a CI run was, in one line of JSON for whoever watches many repositories (docs/run-line.schema.json).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

from memory_ci.records.candidate import Judged
from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding

Step = Literal["fold", "extract", "reinforce", "consolidate", "promote", "compact", "retire"]
# In the order of a run. Compaction is last: it takes out what was retired, so that a second run has nothing to do.
STEPS: tuple[Step, ...] = (
    "fold",
    "extract",
    "reinforce",
    "consolidate",
    "promote",
    "retire",
    "compact",
)


ALONE: frozenset[Step] = frozenset(
    {"promote", "retire", "compact"}
)  # Steps that are a commit of their own.


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry added, updated, moved or taken out.

    add     `entry` goes into `path`
    update  the entry of that id in `path` becomes `entry`
    move    the file `moved_from` goes away and its `entry` stands in `path` (an inbox fragment folded)
    remove  `entry` is taken out of `path`; of several copies the last
    drop    the file `moved_from` goes away: its entry restates `entry`, which stands in `path`
    """

    step: Step
    kind: Literal["add", "update", "move", "drop", "remove"]
    path: str
    entry: Entry
    why: str
    moved_from: str | None = None


PLAN_VERSION = 1


class EngineUse(msgspec.Struct, frozen=True):
    """Which engine ran, why that one, and what it took. `cost_usd` is None where no price is known.

    `answers` are those that were read, some of them kept from an earlier run; `tries` are the calls made now.
    `failure` says why the run stopped before the end of its range; what it did not reach is not covered;
    `hint` what to do about it. `unlanded_usd`: what earlier runs of the month took for a memory request that this run
    replaces.
    """

    name: str
    reason: str
    model: str = ""
    answers: int = 0
    tries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = 0.0
    unlanded_usd: float = 0.0
    failure: str = ""
    hint: str = ""


class Join(msgspec.Struct, frozen=True):
    """A session or a pull request that was read for a merged change, and how it was found; `events` are its own."""

    change: str
    kind: Literal["session", "pull-request"]
    id: str
    how: str
    events: int = 0


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run looked at, commits of its own not counted.

    `left_out` counts events by the reason they are not evidence.
    """

    merged_changes: int = 0
    declined_changes: int = 0
    commits: int = 0
    redactions: int = 0
    left_out: dict[str, int] = {}


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step. Those of ALONE become a commit of their own, the others one with the episodes."""

    step: Step
    changes: tuple[Change, ...]


class EpisodeFile(msgspec.Struct, frozen=True):
    """A new file of an episode, or of what was learned of one later (docs/episodes.md)."""

    path: str
    text: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions for the range since..until, valid on the tree of `base` of branch `ref`.

    `until` is None for a plan that covers no merged work: one of upkeep alone, or of a run whose engine failed at
    once. `is_asked`: the range was asked for, so that the next run does not begin there. `counted` are the tips of the
    merged changes that the reinforce step counts. `windows` say what a model was not shown, `dropped` counts learnings
    of replies that could not be read, `problems` what could not be asked. `episodes` are new files; those of months
    that ended before `fold_before` become one file each.
    """

    schema_version: int
    ref: str
    base: str
    since: str | None
    until: str | None
    is_asked: bool = False
    engine: EngineUse
    counts: Counts
    steps: tuple[PlannedStep, ...] = ()
    episodes: tuple[EpisodeFile, ...] = ()
    fold_before: date | None = None
    counted: tuple[str, ...] = ()
    judged: tuple[Judged, ...] = ()
    findings: tuple[Finding, ...] = ()
    joins: tuple[Join, ...] = ()
    windows: tuple[str, ...] = ()
    dropped: dict[str, int] = {}
    problems: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True):
    """`mode` is the one that was used in the end, `tip` where its branch is now, `url` that of the pull request.
    `tries` counts the tips the run was planned on; `reason` says why it went this way; `subjects` are those of the
    commits. `is_followed`: the local branch is at the tip as well. `opened`: when its pull request was, where one is
    open. `is_paused`: the run was not due, or people review its request."""

    mode: str
    tip: str
    url: str = ""
    tries: int = 1
    reason: str = ""
    plan: Plan | None = None
    subjects: tuple[str, ...] = ()
    is_followed: bool = False
    opened: datetime | None = None
    is_paused: bool = False


RunState = Literal["done", "waiting", "findings", "stopped", "failed"]
"""`waiting`: not due yet, or a request is under review. `stopped`: an engine or a forge ended it before its range did.
`failed`: an error ended it."""


ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)  # A collector of lines (OTLP).


class Lag(msgspec.Struct, frozen=True):
    """Merged changes that no run has covered, and the age of the oldest in days."""

    changes: int = 0
    days: int = 0


class Served(msgspec.Struct, frozen=True):
    """Of the merged changes that this run read: how many were given memory, how many entries, how many they used."""

    changes: int = 0
    given: int = 0
    used: int = 0


class OpenRequest(msgspec.Struct, frozen=True):
    """The memory request that is open, and since how many days."""

    url: str
    days: int


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `memory-ci ci`. `version` is that of memory-ci, `at` when the run began, `reason` why it is not done.

    `cost_usd` is what this run took (None: the price is not known), `month_usd` all runs of the calendar month.
    """

    schema_version: int = 1
    version: str
    repository: str
    at: datetime
    job: str
    state: RunState
    reason: str = ""
    commit: str = ""
    findings: int = 0
    learned: int = 0
    lag: Lag = Lag()
    served: Served = Served()
    cost_usd: float | None = 0.0
    month_usd: float = 0.0
    request: OpenRequest | None = None
