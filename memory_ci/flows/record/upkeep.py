"""Upkeep: the steps that keep memory in shape, planned on a draft, alone or at the end of a record run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import permutations

import msgspec
from msgspec.structs import replace

from memory_ci.flows.anchors import gone_since, judge_anchors
from memory_ci.flows.branch import branch_tip
from memory_ci.flows.draft import Draft
from memory_ci.flows.record.promotion import names_of
from memory_ci.flows.stage import plan_retirements
from memory_ci.flows.workspace import Snapshot, Workspace, memory_test, workspace_at
from memory_ci.gitrepo.history import find_cursor, list_replacing
from memory_ci.lifecycle.compact import list_unlike, plan_compaction
from memory_ci.lifecycle.consolidate import plan_consolidation
from memory_ci.lifecycle.promote import plan_promotion
from memory_ci.lifecycle.reverts import Revert
from memory_ci.lifecycle.undone import plan_undone
from memory_ci.lifecycle.upkeep import plan_repoint, plan_stale_retirement
from memory_ci.records.change import STEPS, Change, Step
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import PLAN_VERSION, Counts, EngineUse, Plan, PlannedStep
from memory_ci.store.document import parse_memory_file

SEARCHED = 1000
"""Characters of the line that is looked for in history: enough to be found by, and no longer than an argument."""


class Upkeep(msgspec.Struct, frozen=True):
    """What upkeep goes by beside its draft: merged work from `since` on, with its stages and reverts."""

    since: str | None
    today: date
    reverts: tuple[Revert, ...] = ()
    stale_after: int | None = None


def plan_upkeep(upkeep: Upkeep, draft: Draft, steps: Collection[Step]) -> Iterator[PlannedStep]:
    """The steps that change something, in order, each planned on what the one before leaves of the draft."""
    draft = draft.copy()
    for step in STEPS:
        if step in steps and step in PLANNERS:
            changes = draft.take(_last_updates(PLANNERS[step](upkeep, draft)))
            if changes:
                yield PlannedStep(step=step, changes=changes)


def _last_updates(changes: Sequence[Change]) -> tuple[Change, ...]:
    """One update of each entry: the last, which was planned on what the earlier ones gave."""
    last = {(change.path, change.entry.id): change for change in changes if change.kind == "update"}
    why = {key: "; ".join(dict.fromkeys(c.why for c in changes if (c.path, c.entry.id) == key)) for key in last}
    updates = tuple(replace(change, why=why[key]) for key, change in last.items())
    return (*updates, *(change for change in changes if change.kind != "update"))


def plan_upkeep_alone(
    workspace: Workspace, steps: Collection[Step], branch: str | None, today: date, stale_after: int | None = None
) -> Plan:
    """A plan of these steps only, on the tip of a branch. It covers no merged work, and moves no cursor."""
    ref, base = branch_tip(workspace, branch)
    workspace = workspace_at(workspace.repo, base)
    draft = Draft(workspace.at(base))
    cursor = find_cursor(workspace.repo, base, memory_test(workspace))
    upkeep = Upkeep(cursor.source if cursor else None, today, stale_after=stale_after)
    return Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=base,
        since=None,
        until=None,
        engine=EngineUse("none", "upkeep needs none"),
        counts=Counts(),
        steps=tuple(plan_upkeep(upkeep, draft, steps)),
        findings=draft.base.memory.findings,
    )


def _consolidate(upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    verdicts = judge_anchors(draft.base.workspace, draft.kept, draft.base.sha)
    repointed = draft.take(plan_repoint(draft.kept, verdicts, draft.base.sha))
    undone = draft.take(plan_undone(draft.kept, upkeep.reverts))
    return (*repointed, *undone, *plan_consolidation(draft.kept, upkeep.today))


def _promote(upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    return plan_promotion(draft.kept, upkeep.today, draft.path_of, names_of(draft.base)).changes


def _retire(upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    changes = plan_retirements(draft.base, draft.kept, upkeep.since, upkeep.today)
    if upkeep.stale_after is None:
        return changes
    verdicts = judge_anchors(draft.base.workspace, draft.kept, draft.base.sha)
    gone = gone_since(draft.base.workspace, draft.kept, verdicts, draft.base.sha)
    ended = {change.entry.id for change in changes}
    stale = plan_stale_retirement(draft.kept, verdicts, gone, upkeep.today, upkeep.stale_after)
    return (*changes, *(change for change in stale if change.entry.id not in ended))


def _compact(upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    return plan_compaction(draft.kept, tuple(_find_older(draft.base, list_unlike(draft.kept))))


def _find_older(base: Snapshot, unlike: Iterable[Sequence[Located]]) -> Iterator[Located]:
    """Those copies of an id of which a commit made another: edited on one branch, moved on the other, and merged."""
    for one, other in (pair for copies in unlike for pair in permutations(copies, 2)):
        text, path = _text(one.entry), other.path
        line = max({*text.split("\n")}.difference(_text(other.entry).split("\n")), key=len, default="")[:SEARCHED]
        commits = list_replacing(base.workspace.repo, base.sha, path, line) if line else []
        sides = [[_said_under(base.workspace, rev, one, path) for rev in (f"{sha}^", sha)] for sha in commits]
        if any(before == [text] != after and len(after) == 1 for before, after in sides):
            yield one


def _said_under(workspace: Workspace, rev: str, place: Located, path: str) -> list[str]:
    """What a file of a revision says under the id of an entry."""
    file = parse_memory_file(path, workspace.at(rev).read([path]).get(path, b""))
    return [_text(entry) for entry in file.entries if entry.id == place.entry.id]


def _text(entry: Entry) -> str:
    return f"{entry.title}\n{entry.body}"


PLANNERS: Mapping[Step, Callable[[Upkeep, Draft], Sequence[Change]]] = {
    "consolidate": _consolidate,
    "promote": _promote,
    "retire": _retire,
    "compact": _compact,
}
