"""Carrying over: what maintainers decided on the memory branch, or another job planned, made true on a newer base.

A plan is moved to the new tip where nothing that it speaks of has changed since; `flows.record.apply` then judges it
there as any other. What it covers stays the same, so that the commits in between are for the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import content_key
from memory_ci.gitrepo.history import Cursor, find_addition, find_cursor
from memory_ci.gitrepo.repo import is_held
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.maintainer_decisions import (
    Edit,
    MaintainerDecisions,
    changes_prose,
    line_of,
    list_rejected,
    list_rejected_paths,
    prose_of,
)
from memory_ci.memory.workspace import (
    Workspace,
    branch_tip,
    holds_entries,
    memory_test,
    workspace_at,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change, Plan
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import apply_changes, edit_file
from memory_ci.store.layout import is_fragment

HEADING = "# Learnings and episodes that a maintainer took out of the memory pull request: not proposed again.\n"
COUNTERS = frozenset({"reinforcement_count", "last_reinforced"})
"""What a run counts on: no word of maintainers is lost where these differ."""

COVERED = "another run covered this plan's range meanwhile: nothing to do"

EntriesById = dict[str, tuple[tuple[str, Entry], ...]]
"""Where each entry stands, notes of the inbox too, and what it says, by id."""


class Carried(NamedTuple):
    """The files that make the verdicts true (None: it goes away); the entries and the paths of what people wrote."""

    files: Mapping[str, bytes | None] = {}
    entries: tuple[Entry, ...] = ()
    paths: tuple[str, ...] = ()


def carry_over(workspace: Workspace, base: str, verdicts: MaintainerDecisions) -> Carried:
    """What of the verdicts is not so on `base` yet; what is decided there otherwise is left as it is."""
    changes = tuple(_list_changes(workspace, base, verdicts))
    paths = {change.path for change in changes} | {file.path for file in verdicts.touched}
    snapshot = workspace.at(base)
    content = snapshot.read({*paths, REJECTED_FILE})
    files = apply_changes(content, changes)
    current = content | {path: data or b"" for path, data in files.items()}
    touched = dict(_list_files(workspace, base, current, verdicts))
    files |= touched
    before, known = content.get(REJECTED_FILE, b""), list_rejected(snapshot)
    lines = before.splitlines(keepends=True) or ([HEADING.encode()] if verdicts.rejected else [])
    old = [
        line
        for line in lines
        if line.decode("utf-8", "replace").rstrip("\r\n") not in verdicts.released
    ]
    new = [f"{line}\n".encode() for line in verdicts.rejected if line.split()[0] not in known]
    if (after := b"".join((*old, *new))) != before:
        files[REJECTED_FILE] = after
    written = {
        change.entry.id: change.entry for change in changes if change.kind in ("add", "update")
    }
    kept = (
        path for path, data in touched.items() if data is not None or holds_entries(workspace, path)
    )
    return Carried(files, tuple(written.values()), tuple(kept))


def list_lost(workspace: Workspace, tip: str, verdicts: MaintainerDecisions) -> tuple[str, ...]:
    """The titles of edits by maintainers that are not at `tip` as they wrote them."""
    there = workspace.at(tip).places if verdicts.edits else {}

    def stands(edit: Edit, place: Located | None) -> bool:
        fields = ((name, now) for name, (_, now) in edit.fields.items() if name not in COUNTERS)
        return place is not None and all(getattr(place.entry, name) == now for name, now in fields)

    return tuple(
        edit.place.entry.title
        for edit in verdicts.edits
        if not stands(edit, there.get(edit.place.entry.id))
    )


def _list_changes(
    workspace: Workspace, base: str, verdicts: MaintainerDecisions
) -> Iterator[Change]:
    """What maintainers wrote, put in; what they took out of what the base has, taken out there as well."""
    kept = workspace.at(base).places
    past = list_past_ids(workspace, base) if verdicts.edits else frozenset()
    change = partial(Change, step="consolidate", why="")

    def removal(known: Located) -> Change:
        if is_fragment(known.path):  # a note of the inbox goes with its file
            return change(kind="drop", path=known.path, entry=known.entry, moved_from=known.path)
        return change(kind="remove", path=known.path, entry=known.entry)

    for edit in verdicts.edits:
        known = kept.get(edit.place.entry.id)
        if known is not None:  # those fields alone, and none that the base changed otherwise
            fields = (
                (name, now)
                for name, (old, now) in edit.fields.items()
                if getattr(known.entry, name) in old
            )
            entry = replace(known.entry, **dict(fields))
            if edit.moved_from == known.path:
                yield removal(known)
                yield change(kind="add", path=edit.place.path, entry=entry)
            elif entry != known.entry:
                yield change(kind="update", path=known.path, entry=entry)
        elif edit.place.entry.id not in past:
            entry = replace(edit.first, **{name: now for name, (_, now) in edit.fields.items()})
            yield change(kind="add", path=edit.place.path, entry=entry)
    for entry in verdicts.taken_out:
        known = kept.get(entry.id)
        if known is not None and line_of(known.entry) == line_of(entry):
            yield removal(known)


def _list_files(
    workspace: Workspace, base: str, content: Mapping[str, bytes], verdicts: MaintainerDecisions
) -> Iterator[tuple[str, bytes | None]]:
    """(path, content) of what maintainers changed beside entries: episode files, and prose around the entries of
    `content`."""
    for file in verdicts.touched:
        known = content.get(file.path)
        if holds_entries(workspace, file.path):
            if changes_prose(file) and prose_of(known) != prose_of(file.new):
                theirs = parse_memory_file(file.path, file.new or b"")
                there = {entry.id: entry for entry in theirs.entries}
                wanted = {
                    entry.id: entry for entry in parse_memory_file(file.path, known or b"").entries
                }
                edited = edit_file(
                    theirs,
                    added=[entry for key, entry in wanted.items() if key not in there],
                    updated=[
                        entry
                        for key, entry in wanted.items()
                        if key in there and there[key] != entry
                    ],
                    removed=[entry for key, entry in there.items() if key not in wanted],
                )
                yield file.path, render_memory_file(edited)
        elif known != file.new and (
            known is not None or find_addition(workspace.repo, base, file.path) is None
        ):
            yield file.path, file.new


def move_plan(workspace: Workspace, plan: Plan, ref: str) -> Plan:
    """The plan as it fits the tip of `ref`; one without a change where a run landed that covers its range. Raises
    RepositoryError (ref-moved) where it fits no more."""
    ref, tip = branch_tip(workspace, ref)
    if tip == plan.base:
        return replace(plan, ref=ref)
    if not is_held(workspace.repo, plan.base, tip):
        raise _unfit(plan, tip, "its history does not hold that")
    then, now = _cursor(workspace, plan.base), _cursor(workspace, tip)
    if now is not None and now != then:
        if plan.until is None or not is_held(workspace.repo, plan.until, now.source):
            raise _unfit(plan, tip, "another run landed")
        return replace(
            plan, ref=ref, base=tip, until=None, steps=(), episodes=(), counted=(), fold_before=None
        )
    if workspace_at(workspace.repo, plan.base).config != workspace_at(workspace.repo, tip).config:
        raise _unfit(plan, tip, "the configuration was changed")
    before, after = _list_places(workspace, plan.base), _list_places(workspace, tip)
    snapshot, fitted = workspace.at(tip), set[str]()
    rejected = list_rejected(snapshot)

    def fit(change: Change) -> Change | None:
        """The change on entries as they are now; None for a learning that is known, or that maintainers rejected. What
        it counts is put onto an entry that was edited since in other fields than the counters."""
        id_, entry = change.entry.id, change.entry
        if change.step == "extract":
            return (
                None if id_ in after or content_key(entry.title, entry.body) in rejected else change
            )
        then, now = before.get(id_, ()), after.get(id_, ())
        is_plain = [path for path, _ in then] == [path for path, _ in now] == [change.path]
        if (
            change.step != "reinforce"
            or not is_plain
            or _counters(then[0][1]) != _counters(now[0][1])
        ):
            return change
        fitted.add(id_)
        return replace(change, entry=replace(now[0][1], **_counters(entry)))

    steps = (
        replace(step, changes=tuple(filter(None, map(fit, step.changes)))) for step in plan.steps
    )
    unwanted = list_rejected_paths(snapshot).union(
        snapshot.read(file.path for file in plan.episodes)
    )
    moved = replace(
        plan,
        ref=ref,
        base=tip,
        steps=tuple(step for step in steps if step.changes),
        episodes=tuple(file for file in plan.episodes if file.path not in unwanted),
    )
    ids = [
        change.entry.id
        for step in moved.steps
        for change in step.changes
        if change.entry.id not in fitted
    ]
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
