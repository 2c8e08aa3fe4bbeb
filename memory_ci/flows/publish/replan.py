"""Replan: a plan that one job made and another performs, when the branch has moved between the two.

It is moved to the new tip where nothing that it speaks of has changed since; `flows.record.apply` then judges it there
as any other. What it covers stays the same, so that the commits in between are for the next run.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import content_key
from memory_ci.flows.publish.carry_over import COUNTERS
from memory_ci.flows.record.maintainer_decisions import list_rejected, list_rejected_paths
from memory_ci.flows.workspace import Workspace, branch_tip, memory_test, workspace_at
from memory_ci.gitrepo.history import Cursor, find_cursor
from memory_ci.gitrepo.repo import is_held
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Change, Plan

COVERED = "another run covered this plan's range meanwhile: nothing to do"

EntriesById = dict[str, tuple[tuple[str, Entry], ...]]
"""Where each entry stands, notes of the inbox too, and what it says, by id."""


def move_plan(workspace: Workspace, plan: Plan, ref: str) -> Plan:
    """The plan as it fits the tip of `ref`; one without a change where a run landed that covers its range.

    Raises RepositoryError (ref-moved) where it fits no more.
    """
    ref, tip = branch_tip(workspace, ref)
    if tip == plan.base:
        return replace(plan, ref=ref)
    if not is_held(workspace.repo, plan.base, tip):
        raise _unfit(plan, tip, "its history does not hold that")
    then, now = _cursor(workspace, plan.base), _cursor(workspace, tip)
    if now is not None and now != then:
        if plan.until is None or not is_held(workspace.repo, plan.until, now.source):
            raise _unfit(plan, tip, "another run landed")
        return replace(plan, ref=ref, base=tip, until=None, steps=(), episodes=(), counted=(), fold_before=None)
    if workspace_at(workspace.repo, plan.base).config != workspace_at(workspace.repo, tip).config:
        raise _unfit(plan, tip, "the configuration was changed")
    before, after = _list_places(workspace, plan.base), _list_places(workspace, tip)
    snapshot, fitted = workspace.at(tip), set[str]()
    rejected = list_rejected(snapshot)

    def fit(change: Change) -> Change | None:
        """The change on entries as they are now; None for a learning that is known, or that maintainers rejected.

        What it counts is put onto an entry that was edited since in other fields than the counters.
        """
        id_, entry = change.entry.id, change.entry
        if change.step == "extract":
            return None if id_ in after or content_key(entry.title, entry.body) in rejected else change
        then, now = before.get(id_, ()), after.get(id_, ())
        is_plain = [path for path, _ in then] == [path for path, _ in now] == [change.path]
        if change.step != "reinforce" or not is_plain or _counters(then[0][1]) != _counters(now[0][1]):
            return change
        fitted.add(id_)
        return replace(change, entry=replace(now[0][1], **_counters(entry)))

    steps = (replace(step, changes=tuple(filter(None, map(fit, step.changes)))) for step in plan.steps)
    unwanted = list_rejected_paths(snapshot).union(snapshot.read(file.path for file in plan.episodes))
    moved = replace(
        plan,
        ref=ref,
        base=tip,
        steps=tuple(step for step in steps if step.changes),
        episodes=tuple(file for file in plan.episodes if file.path not in unwanted),
    )
    ids = [change.entry.id for step in moved.steps for change in step.changes if change.entry.id not in fitted]
    if changed := [id_ for id_ in ids if before.get(id_) != after.get(id_)]:
        raise _unfit(plan, tip, f"the entry {changed[0][:8]} was changed")
    return moved


def is_covered(plan: Plan) -> bool:
    """Whether a plan came out of `move_plan` without a change: its range needs none any more."""
    return plan.until is None and not plan.engine.failure and not plan.steps and not plan.episodes


def _cursor(workspace: Workspace, rev: str) -> Cursor | None:
    here = workspace_at(workspace.repo, rev)
    return find_cursor(here.repo, rev, memory_test(here))


def _counters(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in COUNTERS}


def _list_places(workspace: Workspace, rev: str) -> EntriesById:
    places: EntriesById = {}
    for place in workspace_at(workspace.repo, rev).at(rev).memory.located:
        places[place.entry.id] = (*places.get(place.entry.id, ()), (place.path, place.entry))
    return places


def _unfit(plan: Plan, tip: str, reason: str) -> RepositoryError:
    message = f"the plan was made for {plan.base[:12]}, the branch is at {tip[:12]}, and {reason}"
    hint = "Nothing was changed, and nothing is lost: the next run takes the range again."
    return RepositoryError(message, slug="ref-moved", hint=hint)
