"""Replan: a plan that one job made and another performs, when the branch has moved between the two.

It is moved to the new tip where nothing that it speaks of has changed since; `flows.record.apply` then judges it there
as any other. What it covers stays the same, so that the commits in between are for the next run.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from memory_ci.records.plan import Change, Plan, PlannedStep

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
    fit = _onto_edits(workspace, _without_known(workspace, plan, tip), tip)
    moved = replace(fit, ref=ref, base=tip)
    for reason in _changed(workspace, plan, moved):
        raise _unfit(plan, tip, reason)
    return moved


def is_covered(plan: Plan) -> bool:
    """Whether a plan came out of `move_plan` without a change: its range needs none any more."""
    return plan.until is None and not plan.engine.failure and not plan.steps and not plan.episodes


def _cursor(workspace: Workspace, rev: str) -> Cursor | None:
    here = workspace_at(workspace.repo, rev)
    return find_cursor(here.repo, rev, memory_test(here))


def _without_known(workspace: Workspace, plan: Plan, tip: str) -> Plan:
    """The plan without learnings that maintainers rejected or reworded, and without episodes that are there already."""
    now, places = workspace.at(tip), _list_places(workspace, tip)
    rejected = list_rejected(now)

    def without(step: PlannedStep) -> PlannedStep:
        kept = tuple(change for change in step.changes if not _is_known(change, rejected, places))
        return replace(step, changes=kept)

    told = now.read(file.path for file in plan.episodes)
    unwanted = list_rejected_paths(now).union(told)
    return replace(
        plan,
        steps=tuple(step for step in map(without, plan.steps) if step.changes),
        episodes=tuple(file for file in plan.episodes if file.path not in unwanted),
    )


def _onto_edits(workspace: Workspace, plan: Plan, tip: str) -> Plan:
    """The plan with what it counts put onto entries that were edited since, in other fields than the counters."""
    before, after = _list_places(workspace, plan.base), _list_places(workspace, tip)

    def onto(change: Change) -> Change:
        then, now = _only(before, change), _only(after, change)
        if change.step != "reinforce" or then is None or now is None or _counters(then) != _counters(now):
            return change
        return replace(change, entry=replace(now, **_counters(change.entry)))

    steps = tuple(replace(step, changes=tuple(map(onto, step.changes))) for step in plan.steps)
    return replace(plan, steps=steps)


def _fits(change: Change, before: EntriesById, after: EntriesById) -> bool:
    """Whether a change was put onto an entry as it is now: it differs from that in counters alone."""
    then, now = _only(before, change), _only(after, change)
    if change.step != "reinforce" or then is None or now is None:
        return False
    is_same = replace(now, **_counters(change.entry)) == change.entry
    return is_same and _counters(then) == _counters(now)


def _only(places: EntriesById, change: Change) -> Entry | None:
    """The entry of a change where it stands once, in the file of the change."""
    found = places.get(change.entry.id, ())
    return found[0][1] if len(found) == 1 and found[0][0] == change.path else None


def _counters(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in COUNTERS}


def _is_known(change: Change, rejected: frozenset[str], places: EntriesById) -> bool:
    if change.step != "extract":
        return False
    return change.entry.id in places or content_key(change.entry.title, change.entry.body) in rejected


def _changed(workspace: Workspace, plan: Plan, moved: Plan) -> Iterator[str]:
    """What the moved plan speaks of that is not as it was when the plan was made."""
    repo = workspace.repo
    if workspace_at(repo, plan.base).config != workspace_at(repo, moved.base).config:
        yield "the configuration was changed"
    before, after = _list_places(workspace, plan.base), _list_places(workspace, moved.base)
    fitted = {one.entry.id for step in moved.steps for one in step.changes if _fits(one, before, after)}
    for entry_id in dict.fromkeys(change.entry.id for step in moved.steps for change in step.changes):
        if before.get(entry_id) != after.get(entry_id) and entry_id not in fitted:
            yield f"the entry {entry_id[:8]} was changed"


def _list_places(workspace: Workspace, rev: str) -> EntriesById:
    places: EntriesById = {}
    for place in workspace_at(workspace.repo, rev).at(rev).memory.located:
        places[place.entry.id] = (*places.get(place.entry.id, ()), (place.path, place.entry))
    return places


def _unfit(plan: Plan, tip: str, reason: str) -> RepositoryError:
    message = f"the plan was made for {plan.base[:12]}, the branch is at {tip[:12]}, and {reason}"
    hint = "Nothing was changed, and nothing is lost: the next run takes the range again."
    return RepositoryError(message, slug="ref-moved", hint=hint)
