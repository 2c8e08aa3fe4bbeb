"""Decisions of maintainers on the memory branch, and plans of other jobs, moved to a newer base.

The memory branch holds proposed entries; each run makes it again on the newest base, and then
applies the edits that maintainers made on it. A plan is moved to the new tip if nothing that it
refers to has changed since. `memory.apply` then checks it there as any other plan. The range that
it covers stays the same, so the commits in between are for the next run.
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
    EditedFile,
    MaintainerDecisions,
    format_rejected_line,
    has_edited_prose,
    list_prose_words,
    list_rejected_keys,
    list_rejected_paths,
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
"""Fields that a run changes; an edit of maintainers counts as kept if only these differ."""

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
    """Return the files at `base` with the decisions of maintainers that it does not have yet.

    Other content of the base stays unchanged.

    Args:
        workspace: the repository.
        base: the commit that the memory branch is made on.
        decisions: what maintainers edited, added and removed on the branch before.
    """
    snapshot = workspace.at(base)
    entry_changes = list(_list_changes(workspace, base, decisions))
    paths = {change.path for change in entry_changes} | {
        file.path for file in decisions.edited_files
    }
    old_files = snapshot.read({*paths, REJECTED_FILE})

    # First the entries, then the prose around them and whole files, then the rejected entries.
    new_files = apply_changes(old_files, entry_changes)
    current_files = dict(old_files)
    for path, content in new_files.items():
        current_files[path] = content or b""
    touched_files = _list_touched_files(workspace, base, current_files, decisions)
    new_files |= touched_files
    old_rejected = old_files.get(REJECTED_FILE, b"")
    new_rejected = _update_rejected_file(old_rejected, list_rejected_keys(snapshot), decisions)
    if new_rejected != old_rejected:
        new_files[REJECTED_FILE] = new_rejected

    written_entries: dict[str, Entry] = {}
    for change in entry_changes:
        if change.kind in ("add", "update"):
            written_entries[change.entry.id] = change.entry
    written_paths: list[str] = []
    for path, content in touched_files.items():
        is_deleted_episode = content is None and not holds_entries(workspace, path)
        if not is_deleted_episode:
            written_paths.append(path)
    return Carried(new_files, tuple(written_entries.values()), tuple(written_paths))


def _update_rejected_file(
    content: bytes, rejected_keys: frozenset[str], decisions: MaintainerDecisions
) -> bytes:
    """Return REJECTED_FILE with the newly rejected lines, and without the withdrawn lines.

    A line names an entry or episode that is not proposed again. Maintainers withdraw it by removing
    the line, so that the entry may be proposed again.

    Args:
        content: the file, b"" if it is missing.
        rejected_keys: the keys that its lines begin with.
        decisions: the decisions of maintainers.
    """
    old_lines = content.splitlines(keepends=True)
    if not old_lines and decisions.rejected_lines:
        old_lines = [HEADING.encode()]

    lines: list[bytes] = []
    for line in old_lines:
        if line.decode("utf-8", "replace").rstrip("\r\n") not in decisions.withdrawn_lines:
            lines.append(line)
    for rejected in decisions.rejected_lines:
        if rejected.split()[0] not in rejected_keys:
            lines.append(f"{rejected}\n".encode())
    return b"".join(lines)


def list_lost(workspace: Workspace, tip: str, decisions: MaintainerDecisions) -> tuple[str, ...]:
    """Return the titles of entries whose edits by maintainers the new branch does not have."""
    if not decisions.edits:
        return ()
    places = workspace.at(tip).entries_by_id
    titles: list[str] = []
    for edit in decisions.edits:
        entry = edit.latest.entry
        if not _is_applied(edit, places.get(entry.id)):
            titles.append(entry.title)
    return tuple(titles)


def _is_applied(edit: Edit, place: Located | None) -> bool:
    """Return whether an entry has the values of all fields that maintainers edited."""
    if place is None:
        return False
    for name, field in edit.fields.items():
        if name not in COUNTERS and getattr(place.entry, name) != field.new_value:
            return False
    return True


def _list_changes(
    workspace: Workspace, base: str, decisions: MaintainerDecisions
) -> Iterator[Change]:
    """Yield the changes for entries that maintainers edited, added or removed."""
    places = workspace.at(base).entries_by_id
    past_ids = list_past_ids(workspace, base) if decisions.edits else frozenset()
    for edit in decisions.edits:
        entry_id = edit.latest.entry.id
        place = places.get(entry_id)
        if place is not None:
            yield from _change_entry(edit, place)
        elif entry_id not in past_ids:  # An entry that was removed since stays removed.
            new_values = {name: field.new_value for name, field in edit.fields.items()}
            entry = replace(edit.original, **new_values)
            yield _consolidate("add", edit.latest.path, entry)

    for entry in decisions.removed_entries:
        place = places.get(entry.id)
        # An entry that was reworded since is another one, and stays.
        if place is not None and format_rejected_line(place.entry) == format_rejected_line(entry):
            yield _remove(place)


def _change_entry(edit: Edit, place: Located) -> Iterator[Change]:
    """Yield the changes that make an edit of maintainers in an entry of the base.

    A field gets its new value if the base still has a value that the maintainers edited. If the
    base has another value, the field was changed there since, and keeps that.

    Args:
        edit: the edit.
        place: the entry of the base.
    """
    new_values: dict[str, object] = {}
    for name, field in edit.fields.items():
        if getattr(place.entry, name) in field.old_values:
            new_values[name] = field.new_value
    entry = replace(place.entry, **new_values)
    if edit.moved_from == place.path:
        yield _remove(place)
        yield _consolidate("add", edit.latest.path, entry)
    elif entry != place.entry:
        yield _consolidate("update", place.path, entry)


def _consolidate(kind: Literal["add", "update", "remove"], path: str, entry: Entry) -> Change:
    return Change(step="consolidate", kind=kind, path=path, entry=entry, why="")


def _remove(place: Located) -> Change:
    """Return the change that removes an entry, or deletes the file of a note in the inbox."""
    change = _consolidate("remove", place.path, place.entry)
    if is_fragment(place.path):
        return replace(change, kind="drop", moved_from=place.path)
    return change


def _list_touched_files(
    workspace: Workspace,
    base: str,
    files: Mapping[str, bytes],
    decisions: MaintainerDecisions,
) -> dict[str, bytes | None]:
    """Return the new content of files in which maintainers changed more than entries.

    These are episode files, and memory files with changed prose between their entries.

    Args:
        workspace: the repository.
        base: the commit that the decisions are carried over to.
        files: the memory files after the changes to entries.
        decisions: the decisions of maintainers.
    """
    touched_files: dict[str, bytes | None] = {}
    for file in decisions.edited_files:
        content = files.get(file.path)
        if holds_entries(workspace, file.path):
            if has_edited_prose(file) and list_prose_words(content) != list_prose_words(
                file.new_content
            ):
                touched_files[file.path] = _merge_prose(file, content or b"")
        elif content != file.new_content:
            was_deleted = (
                content is None and find_addition(workspace.repo, base, file.path) is not None
            )
            if not was_deleted:
                touched_files[file.path] = file.new_content
    return touched_files


def _merge_prose(file: EditedFile, content: bytes) -> bytes:
    """Return a memory file with the prose of maintainers and the entries of `content`.

    Args:
        file: the file as maintainers left it.
        content: the file with the entries to keep.
    """
    their_file = parse_memory_file(file.path, file.new_content or b"")
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
    """Return a plan moved to the tip of `ref`, which may be newer than where it was made.

    If another run read its range meanwhile, the plan has no changes.

    Raises:
        RepositoryError: ref-moved, if the plan does not fit the tip.
    """
    ref, tip = branch_tip(workspace, ref)
    if tip == plan.base:
        return replace(plan, ref=ref)
    repo = workspace.repo
    if not is_in_history(repo, plan.base, tip):
        raise _make_misfit_error(plan, tip, "its history does not hold that")

    # Has another run recorded work between the plan's base and the tip?
    last_run = _find_cursor(workspace, tip)
    if last_run is not None and last_run != _find_cursor(workspace, plan.base):
        if plan.until is None or not is_in_history(repo, plan.until, last_run.source):
            raise _make_misfit_error(plan, tip, "another run landed")
        return _empty_plan(plan, ref, tip)
    if workspace_at(repo, plan.base).config != workspace_at(repo, tip).config:
        raise _make_misfit_error(plan, tip, "the configuration was changed")

    snapshot = workspace.at(tip)
    old_versions = _list_versions(workspace, plan.base)
    new_versions = _list_versions(workspace, tip)
    moved = replace(
        plan,
        ref=ref,
        base=tip,
        steps=tuple(_fit_steps(plan, old_versions, new_versions, list_rejected_keys(snapshot))),
        episodes=tuple(_fit_episodes(plan, snapshot)),
    )
    changed_id = _find_changed_entry(plan, moved, old_versions, new_versions)
    if changed_id:
        raise _make_misfit_error(plan, tip, f"the entry {changed_id[:8]} was changed")
    return moved


def _find_changed_entry(
    plan: Plan, moved: Plan, old_versions: Versions, new_versions: Versions
) -> str:
    """Return the id of an entry that a moved plan changes and that was edited since, or "".

    An edited entry does not count if the plan changes its use counts alone.

    Args:
        plan: the plan as it was made.
        moved: the plan on the new tip.
        old_versions: the entries where the plan was made.
        new_versions: the entries of the new tip.
    """
    rebased_ids: set[str] = set()
    for change in _list_plan_changes(plan):
        if _can_rebase(change, old_versions, new_versions):
            rebased_ids.add(change.entry.id)
    for change in _list_plan_changes(moved):
        entry_id = change.entry.id
        is_edited = old_versions.get(entry_id) != new_versions.get(entry_id)
        if is_edited and entry_id not in rebased_ids:
            return entry_id
    return ""


def _empty_plan(plan: Plan, ref: str, base: str) -> Plan:
    """Return a plan on a new base without its changes and without its range."""
    return replace(
        plan,
        ref=ref,
        base=base,
        until=None,
        steps=(),
        episodes=(),
        unwritten=Unwritten(),
        counted=(),
        fold_before=None,
    )


def is_covered(plan: Plan) -> bool:
    """Return whether `move_plan` removed all changes of a plan, because its range is covered."""
    has_changes = plan.steps or plan.episodes or plan.unwritten.changes
    return plan.until is None and not plan.engine.failure and not has_changes


def _list_plan_changes(plan: Plan) -> list[Change]:
    return [change for step in plan.steps for change in step.changes]


def _can_rebase(change: Change, old_versions: Versions, new_versions: Versions) -> bool:
    """Return whether the new use counts of a change fit an entry that was edited meanwhile.

    They do if nobody edited the counts, and the entry is in the same file and in no other.

    Args:
        change: a change of the plan.
        old_versions: the entries where the plan was made.
        new_versions: the entries of the new tip.
    """
    old_copies = old_versions.get(change.entry.id, ())
    new_copies = new_versions.get(change.entry.id, ())
    if change.step != "reinforce" or len(old_copies) != 1 or len(new_copies) != 1:
        return False
    old_path, old_entry = old_copies[0]
    new_path, new_entry = new_copies[0]
    is_in_place = old_path == new_path == change.path
    return is_in_place and _counters_of(old_entry) == _counters_of(new_entry)


def _fit_steps(
    plan: Plan, old_versions: Versions, new_versions: Versions, rejected_keys: frozenset[str]
) -> Iterator[PlannedStep]:
    """Yield the steps of a plan with the changes that apply to the entries of the new tip.

    Learnings that memory has meanwhile, or that maintainers rejected, are left out.

    Args:
        plan: the plan.
        old_versions: the entries where the plan was made.
        new_versions: the entries of the new tip.
        rejected_keys: content keys of the entries that maintainers rejected.
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
    """Return where the last run ended, as the history of a revision records it."""
    workspace_then = workspace_at(workspace.repo, rev)
    return find_cursor(workspace.repo, rev, build_memory_test(workspace_then))


def _counters_of(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in COUNTERS}


def _list_versions(workspace: Workspace, rev: str) -> Versions:
    """Return all copies of each entry at a revision, by id."""
    versions: defaultdict[str, list[tuple[str, Entry]]] = defaultdict(list)
    for place in workspace_at(workspace.repo, rev).at(rev).memory.located:
        versions[place.entry.id].append((place.path, place.entry))
    return dict(versions)


def _make_misfit_error(plan: Plan, tip: str, reason: str) -> RepositoryError:
    """Return the error (ref-moved) for a plan that was made for another tip of the branch."""
    message = f"the plan was made for {plan.base[:12]}, the branch is at {tip[:12]}, and {reason}"
    hint = "Nothing was changed, and nothing is lost: the next run takes the range again."
    return RepositoryError(message, slug="ref-moved", hint=hint)
