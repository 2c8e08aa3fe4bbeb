"""Decisions of maintainers, and plans of other jobs, moved to a newer base.

A plan is moved to the new tip if nothing that it refers to has changed since. `memory.apply` then
checks it there as any other plan. The range that it covers stays the same, so the commits in
between are for the next run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import content_key
from memory_ci.gitrepo.history import find_addition
from memory_ci.gitrepo.record_commits import Cursor, find_cursor
from memory_ci.gitrepo.repo import is_in_history
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.maintainer_decisions import (
    Edit,
    MaintainerDecisions,
    Touched,
    changes_prose,
    line_of,
    list_rejected,
    list_rejected_paths,
    prose_of,
)
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    branch_tip,
    build_memory_test,
    holds_entries,
    workspace_at,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change, EpisodeFile, Plan, PlannedStep, Unwritten
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import apply_changes, edit_file
from memory_ci.store.layout import is_fragment

HEADING = (
    "# Learnings and episodes that a maintainer took out of the memory pull request: "
    "not proposed again.\n"
)

COUNTERS = frozenset({"reinforcement_count", "last_reinforced"})
"""Fields that a run changes; an edit of maintainers is not lost if only these differ."""

COVERED = "another run covered this plan's range meanwhile: nothing to do"

Versions = Mapping[str, Sequence[tuple[str, Entry]]]
"""The path and the content of each copy of an entry, notes of the inbox included, by id."""


class Carried(NamedTuple):
    """The files that carry over decisions of maintainers, and their contents.

    Attributes:
        files: the new content of each changed file; None for a file that is deleted.
        entries: the entries that maintainers wrote.
        paths: the paths of the files that maintainers wrote.
    """

    files: Mapping[str, bytes | None] = {}
    entries: tuple[Entry, ...] = ()
    paths: tuple[str, ...] = ()


def carry_over(workspace: Workspace, base: str, decisions: MaintainerDecisions) -> Carried:
    """Return the decisions of maintainers that are not yet applied at `base`.

    Where the base has been changed otherwise, the base stays as it is.
    """
    snapshot = workspace.at(base)
    changes = list(_list_changes(workspace, base, decisions))
    paths = {change.path for change in changes} | {file.path for file in decisions.touched}
    old_files = snapshot.read({*paths, REJECTED_FILE})
    files = apply_changes(old_files, changes)

    current_files = dict(old_files)
    for path, content in files.items():
        current_files[path] = content or b""
    touched_files = _list_touched_files(workspace, base, current_files, decisions)
    files |= touched_files

    old_rejected = old_files.get(REJECTED_FILE, b"")
    new_rejected = _update_rejected_file(old_rejected, list_rejected(snapshot), decisions)
    if new_rejected != old_rejected:
        files[REJECTED_FILE] = new_rejected

    entries = {
        change.entry.id: change.entry for change in changes if change.kind in ("add", "update")
    }
    written_paths = [
        path
        for path, content in touched_files.items()
        if content is not None or holds_entries(workspace, path)
    ]
    return Carried(files, tuple(entries.values()), tuple(written_paths))


def _update_rejected_file(
    content: bytes, rejected_keys: frozenset[str], decisions: MaintainerDecisions
) -> bytes:
    """Return REJECTED_FILE without the released lines and with the newly rejected ones."""
    old_lines = content.splitlines(keepends=True)
    if not old_lines and decisions.rejected:
        old_lines = [HEADING.encode()]

    lines: list[bytes] = []
    for line in old_lines:
        if line.decode("utf-8", "replace").rstrip("\r\n") not in decisions.released:
            lines.append(line)
    for rejected in decisions.rejected:
        if rejected.split()[0] not in rejected_keys:
            lines.append(f"{rejected}\n".encode())
    return b"".join(lines)


def list_lost(workspace: Workspace, tip: str, decisions: MaintainerDecisions) -> tuple[str, ...]:
    """Return the titles of entries that differ at `tip` from the edits of maintainers."""
    if not decisions.edits:
        return ()
    places = workspace.at(tip).entries_by_id
    titles: list[str] = []
    for edit in decisions.edits:
        entry = edit.place.entry
        if not _is_applied(edit, places.get(entry.id)):
            titles.append(entry.title)
    return tuple(titles)


def _is_applied(edit: Edit, place: Located | None) -> bool:
    if place is None:
        return False
    return all(
        getattr(place.entry, name) == value
        for name, (_, value) in edit.fields.items()
        if name not in COUNTERS
    )


def _list_changes(
    workspace: Workspace, base: str, decisions: MaintainerDecisions
) -> Iterator[Change]:
    """Yield the changes for entries that maintainers edited, added or removed."""
    places = workspace.at(base).entries_by_id
    past_ids = list_past_ids(workspace, base) if decisions.edits else frozenset()
    for edit in decisions.edits:
        entry_id = edit.place.entry.id
        place = places.get(entry_id)
        if place is not None:
            yield from _change_entry(edit, place)
        elif entry_id not in past_ids:
            new_values = {name: value for name, (_, value) in edit.fields.items()}
            entry = replace(edit.first, **new_values)
            yield _consolidate("add", edit.place.path, entry)

    for entry in decisions.taken_out:
        place = places.get(entry.id)
        if place is not None and line_of(place.entry) == line_of(entry):
            yield _remove(place)


def _change_entry(edit: Edit, place: Located) -> Iterator[Change]:
    """Yield the changes for an edit of an entry of the base.

    Only edited fields change, and none that the base has changed otherwise.
    """
    new_values = {
        name: value
        for name, (old_values, value) in edit.fields.items()
        if getattr(place.entry, name) in old_values
    }
    entry = replace(place.entry, **new_values)
    if edit.moved_from == place.path:
        yield _remove(place)
        yield _consolidate("add", edit.place.path, entry)
    elif entry != place.entry:
        yield _consolidate("update", place.path, entry)


def _consolidate(kind: Literal["add", "update", "remove"], path: str, entry: Entry) -> Change:
    return Change(step="consolidate", kind=kind, path=path, entry=entry, why="")


def _remove(place: Located) -> Change:
    change = _consolidate("remove", place.path, place.entry)
    if is_fragment(place.path):
        # A note of the inbox is a file of its own, which is deleted.
        return replace(change, kind="drop", moved_from=place.path)
    return change


def _list_touched_files(
    workspace: Workspace,
    base: str,
    files: Mapping[str, bytes],
    decisions: MaintainerDecisions,
) -> dict[str, bytes | None]:
    """Return the content of changed episode files, and of memory files with changed prose.

    Args:
        workspace: the repository.
        base: the commit that the decisions are carried over to.
        files: the memory files after the changes to entries.
        decisions: the decisions of maintainers.
    """
    touched_files: dict[str, bytes | None] = {}
    for file in decisions.touched:
        content = files.get(file.path)
        if holds_entries(workspace, file.path):
            if changes_prose(file) and prose_of(content) != prose_of(file.new):
                touched_files[file.path] = _merge_prose(file, content or b"")
        elif content != file.new:
            is_deleted = (
                content is None and find_addition(workspace.repo, base, file.path) is not None
            )
            if not is_deleted:
                touched_files[file.path] = file.new
    return touched_files


def _merge_prose(file: Touched, content: bytes) -> bytes:
    """Return a file with the prose of maintainers and the entries of `content`."""
    their_file = parse_memory_file(file.path, file.new or b"")
    their_entries = {entry.id: entry for entry in their_file.entries}
    entries = {entry.id: entry for entry in parse_memory_file(file.path, content).entries}

    added: list[Entry] = []
    updated: list[Entry] = []
    for entry_id, entry in entries.items():
        if entry_id not in their_entries:
            added.append(entry)
        elif their_entries[entry_id] != entry:
            updated.append(entry)
    removed = [entry for entry_id, entry in their_entries.items() if entry_id not in entries]
    edited = edit_file(their_file, added=added, updated=updated, removed=removed)
    return render_memory_file(edited)


def move_plan(workspace: Workspace, plan: Plan, ref: str) -> Plan:
    """Return a plan moved to the tip of `ref`.

    If another run covered its range meanwhile, the plan has no changes.

    Raises:
        RepositoryError: ref-moved, if the plan does not fit the tip.
    """
    ref, tip = branch_tip(workspace, ref)
    if tip == plan.base:
        return replace(plan, ref=ref)
    repo = workspace.repo
    if not is_in_history(repo, plan.base, tip):
        raise _not_fitting(plan, tip, "its history does not hold that")

    cursor = _find_cursor(workspace, tip)
    if cursor is not None and cursor != _find_cursor(workspace, plan.base):
        if plan.until is None or not is_in_history(repo, plan.until, cursor.source):
            raise _not_fitting(plan, tip, "another run landed")
        return replace(
            plan,
            ref=ref,
            base=tip,
            until=None,
            steps=(),
            episodes=(),
            unwritten=Unwritten(),
            counted=(),
            fold_before=None,
        )
    if workspace_at(repo, plan.base).config != workspace_at(repo, tip).config:
        raise _not_fitting(plan, tip, "the configuration was changed")

    snapshot = workspace.at(tip)
    old_versions = _list_versions(workspace, plan.base)
    new_versions = _list_versions(workspace, tip)
    rebased_ids = {
        change.entry.id
        for change in _list_plan_changes(plan)
        if _can_rebase(change, old_versions, new_versions)
    }
    moved = replace(
        plan,
        ref=ref,
        base=tip,
        steps=tuple(_fit_steps(plan, old_versions, new_versions, list_rejected(snapshot))),
        episodes=tuple(_fit_episodes(plan, snapshot)),
    )
    for change in _list_plan_changes(moved):
        id_ = change.entry.id
        if id_ not in rebased_ids and old_versions.get(id_) != new_versions.get(id_):
            raise _not_fitting(plan, tip, f"the entry {id_[:8]} was changed")
    return moved


def is_covered(plan: Plan) -> bool:
    """Return whether `move_plan` removed all changes of a plan, because its range is covered."""
    has_changes = plan.steps or plan.episodes or plan.unwritten.changes
    return plan.until is None and not plan.engine.failure and not has_changes


def _list_plan_changes(plan: Plan) -> list[Change]:
    return [change for step in plan.steps for change in step.changes]


def _can_rebase(change: Change, old_versions: Versions, new_versions: Versions) -> bool:
    """Return whether new counters can be written into an entry that was edited since.

    That is so if the counters were not edited, and the entry has no copy in another file.
    """
    old = old_versions.get(change.entry.id, ())
    new = new_versions.get(change.entry.id, ())
    if change.step != "reinforce" or len(old) != 1 or len(new) != 1:
        return False
    old_path, old_entry = old[0]
    new_path, new_entry = new[0]
    is_in_place = old_path == new_path == change.path
    return is_in_place and _counters_of(old_entry) == _counters_of(new_entry)


def _fit_steps(
    plan: Plan, old_versions: Versions, new_versions: Versions, rejected_keys: frozenset[str]
) -> Iterator[PlannedStep]:
    """Yield the steps of a plan with the changes that apply to the entries of the new tip.

    Learnings that memory has meanwhile, or that maintainers rejected, are left out.
    """
    for step in plan.steps:
        changes: list[Change] = []
        for change in step.changes:
            entry = change.entry
            if change.step == "extract":
                is_rejected = content_key(entry.title, entry.body) in rejected_keys
                if entry.id in new_versions or is_rejected:
                    continue
            elif _can_rebase(change, old_versions, new_versions):
                _, new_entry = new_versions[entry.id][0]
                change = replace(change, entry=replace(new_entry, **_counters_of(entry)))
            changes.append(change)
        if changes:
            yield replace(step, changes=tuple(changes))


def _fit_episodes(plan: Plan, snapshot: Snapshot) -> Iterator[EpisodeFile]:
    """Yield the episode files of a plan that are neither in memory nor rejected."""
    existing_paths = snapshot.read(file.path for file in plan.episodes).keys()
    rejected_paths = list_rejected_paths(snapshot)
    for file in plan.episodes:
        if file.path not in existing_paths and file.path not in rejected_paths:
            yield file


def _find_cursor(workspace: Workspace, rev: str) -> Cursor | None:
    workspace_then = workspace_at(workspace.repo, rev)
    return find_cursor(workspace.repo, rev, build_memory_test(workspace_then))


def _counters_of(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in COUNTERS}


def _list_versions(workspace: Workspace, rev: str) -> Versions:
    versions: defaultdict[str, list[tuple[str, Entry]]] = defaultdict(list)
    for place in workspace_at(workspace.repo, rev).at(rev).memory.located:
        versions[place.entry.id].append((place.path, place.entry))
    return dict(versions)


def _not_fitting(plan: Plan, tip: str, reason: str) -> RepositoryError:
    message = f"the plan was made for {plan.base[:12]}, the branch is at {tip[:12]}, and {reason}"
    hint = "Nothing was changed, and nothing is lost: the next run takes the range again."
    return RepositoryError(message, slug="ref-moved", hint=hint)
