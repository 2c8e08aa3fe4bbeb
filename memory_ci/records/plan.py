"""Plans of runs with their changes, the result of publishing, and the line of a CI run.

docs/plan.schema.json and docs/run-line.schema.json are made of `Plan` and `RunLine`.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

from memory_ci.records.candidate import Judged
from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding

Step = Literal["fold", "extract", "reinforce", "consolidate", "promote", "compact", "retire"]

# Compaction is last: it removes retired entries, so a second run finds nothing to do.
STEPS: tuple[Step, ...] = (
    "fold",
    "extract",
    "reinforce",
    "consolidate",
    "promote",
    "retire",
    "compact",
)
"""The steps in the order of a run."""

COMMITTED_ALONE: frozenset[Step] = frozenset({"promote", "retire", "compact"})
"""The steps that are committed on their own."""

PLAN_VERSION = 1

COLLECTOR_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)
"""Environment variables with the address of an OpenTelemetry collector."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addition, update, move or removal of one entry.

    Attributes:
        kind: `add`: write `entry` into `path`; `update`: replace the entry of the same id in `path`
            by `entry`; `move`: write `entry` into `path` and delete the file `moved_from`, an inbox
            fragment; `remove`: delete `entry` from `path`, the last of several copies; `drop`:
            delete the file `moved_from`, whose entry restates `entry` in `path`.
        why: the reason for the change.
        moved_from: the file of a move or drop.
    """

    step: Step
    kind: Literal["add", "update", "move", "drop", "remove"]
    path: str
    entry: Entry
    why: str
    moved_from: str | None = None


class EngineUse(msgspec.Struct, frozen=True):
    """The engine of a run, its tokens and its cost.

    Attributes:
        reason: why this engine was chosen.
        answers: the number of answers read, including stored ones of an earlier run.
        tries: the number of calls in this run.
        cost_usd: the cost of this run; None if the price is unknown.
        unlanded_usd: the cost of earlier runs of the month for a memory pull request that this run
            replaces.
        failure: why the run stopped before the end of its range; the rest is not covered.
        hint: what to do about the failure.
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
    """A session or pull request that was read for a merged change.

    Attributes:
        how: how it was found.
        events: the number of its events.
    """

    change: str
    kind: Literal["session", "pull-request"]
    id: str
    how: str
    events: int = 0


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of changes and commits that a run read, without commits of memory-ci.

    Attributes:
        left_out: the number of events that are not evidence, by reason.
    """

    merged_changes: int = 0
    declined_changes: int = 0
    commits: int = 0
    redactions: int = 0
    left_out: dict[str, int] = {}


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step.

    Each step of `COMMITTED_ALONE` becomes a commit; the others together become one, with the
    episodes.
    """

    step: Step
    changes: tuple[Change, ...]


class EpisodeFile(msgspec.Struct, frozen=True):
    """A new file with an episode, or with amendments (docs/episodes.md)."""

    path: str
    text: str


class Unwritten(msgspec.Struct, frozen=True):
    """The merged changes of a range whose episode git's history gives, so that no file is written.

    Attributes:
        changes: their number.
        stage: the stage that the project is in; "" if it is unknown.
        removed: ids of episodes among them that a person deleted before.
    """

    changes: int = 0
    stage: str = ""
    removed: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decisions of a run on the range since..until, valid for the tree of `base`.

    Attributes:
        ref: the branch.
        until: None if the plan covers no merged work: a plan of upkeep alone, or of a run whose
            engine failed at once.
        is_asked: a user named the range, so the next run does not begin at its end.
        episodes: new files.
        unwritten: the changes that get no file.
        fold_before: the files of episodes of each month that ended before this day become one file.
        counted: the tips of the merged changes that the reinforce step counts.
        windows: the parts of the evidence that a model was not shown.
        dropped: the number of learnings in replies that could not be read, by reason.
        problems: the parts that could not be read or judged, with the reason.
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
    unwritten: Unwritten = Unwritten()
    fold_before: date | None = None
    counted: tuple[str, ...] = ()
    judged: tuple[Judged, ...] = ()
    findings: tuple[Finding, ...] = ()
    joins: tuple[Join, ...] = ()
    windows: tuple[str, ...] = ()
    dropped: dict[str, int] = {}
    problems: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True):
    """The result of publishing a run.

    Attributes:
        mode: the mode that was finally used.
        tip: the commit at the tip of its branch.
        url: the address of the pull request.
        tries: the number of tips for which the run was planned.
        reason: why it was published this way.
        subjects: the subjects of the commits.
        is_followed: the local branch is at the tip, too.
        opened: when the pull request was opened, if it is open.
        is_paused: the run was not due, or people review its pull request.
    """

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
"""The state of a CI run.

`waiting`: it is not due yet, or a pull request is under review. `stopped`: an engine or a forge
ended it before the end of its range. `failed`: an error ended it.
"""


class Lag(msgspec.Struct, frozen=True):
    """The number of merged changes that no run has covered, and the age of the oldest in days."""

    changes: int = 0
    days: int = 0


class Served(msgspec.Struct, frozen=True):
    """Memory that was served to the merged changes of a run.

    Attributes:
        changes: the number of changes that were served entries.
        served: the number of entries served.
        used: the number of these entries that the changes used.
    """

    changes: int = 0
    served: int = 0
    used: int = 0


class OpenRequest(msgspec.Struct, frozen=True):
    """The open memory pull request, and the days since it was opened."""

    url: str
    days: int


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `memory-ci ci`, a line of JSON for tools that watch many repositories.

    Attributes:
        version: the version of memory-ci.
        at: when the run began.
        reason: why the state is not `done`.
        cost_usd: the cost of this run; None if the price is unknown.
        month_usd: the cost of all runs of the calendar month.
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
