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
from memory_ci.extraction.entries import compute_content_key
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
    build_memory_test,
    find_branch_tip,
    holds_entries,
    workspace_at,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change, EpisodeFile, Plan, PlannedStep, Unwritten
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import apply_changes, edit_file
from memory_ci.store.layout import is_fragment

REJECTED_FILE_HEADING = (
    "# Learnings and episodes that a maintainer took out of the memory pull request: "
    "not proposed again.\n"
)

USE_COUNTERS = frozenset({"reinforcement_count", "last_reinforced"})
"""Fields that a run changes; an edit of maintainers counts as kept if only these differ."""

RANGE_COVERED = "another run covered this plan's range meanwhile: nothing to do"


class EntryCopy(NamedTuple):
    """An entry and the path of its file; a note of the inbox may be a second copy of it."""

    path: str
    entry: Entry


CopiesById = Mapping[str, Sequence[EntryCopy]]


class KeptDecisions(NamedTuple):
    """The decisions of maintainers on the earlier memory branch that the new one keeps.

    Attributes:
        files: the new content of each file that they change; None for a file that is deleted.
        entries: the entries that maintainers wrote.
        paths: the paths of the files that maintainers wrote.
    """

    files: Mapping[str, bytes | None] = {}
    entries: tuple[Entry, ...] = ()
    paths: tuple[str, ...] = ()


def carry_over(workspace: Workspace, base: str, decisions: MaintainerDecisions) -> KeptDecisions:
    """Return the files at `base` with the decisions of maintainers that it does not have yet.

    Other content of the base stays unchanged. Decisions are applied in this order: edits of
    entries, prose around them and whole files, and lines of REJECTED_FILE.

    Args:
        workspace: the repository.
        base: the commit that the memory branch is made on.
        decisions: what maintainers edited, added and removed on the branch before.
    """
    snapshot = workspace.at(base)
    entry_changes = list(_list_entry_changes(workspace, base, decisions))
    paths = {change.path for change in entry_changes} | {
        file.path for file in decisions.edited_files
    }
    old_files = snapshot.read({*paths, REJECTED_FILE})

    new_files = apply_changes(old_files, entry_changes)
    current_files = dict(old_files)
    for path, content in new_files.items():
        current_files[path] = content or b""
    other_files = _list_other_files(workspace, base, current_files, decisions)
    new_files |= other_files
    old_rejected = old_files.get(REJECTED_FILE, b"")
    new_rejected = _update_rejected_file(old_rejected, list_rejected_keys(snapshot), decisions)
    if new_rejected != old_rejected:
        new_files[REJECTED_FILE] = new_rejected

    written_entries: dict[str, Entry] = {}
    for change in entry_changes:
        if change.kind in ("add", "update"):
            written_entries[change.entry.id] = change.entry
    written_paths: list[str] = []
    for path, content in other_files.items():
        is_deleted_episode = content is None and not holds_entries(workspace, path)
        if not is_deleted_episode:
            written_paths.append(path)
    return KeptDecisions(new_files, tuple(written_entries.values()), tuple(written_paths))


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
        old_lines = [REJECTED_FILE_HEADING.encode()]

    lines: list[bytes] = []
    for line in old_lines:
        if line.decode("utf-8", "replace").rstrip("\r\n") not in decisions.withdrawn_lines:
            lines.append(line)
    for rejected_line in decisions.rejected_lines:
        if rejected_line.split()[0] not in rejected_keys:
            lines.append(f"{rejected_line}\n".encode())
    return b"".join(lines)


def list_lost_titles(
    workspace: Workspace, tip: str, decisions: MaintainerDecisions
) -> tuple[str, ...]:
    """Return the titles of entries that maintainers edited and that the new branch has otherwise.

    Args:
        workspace: the repository.
        tip: the tip of the new memory branch.
        decisions: what maintainers decided on the earlier branch.
    """
    if not decisions.edits:
        return ()
    located_by_id = workspace.at(tip).entries_by_id
    titles: list[str] = []
    for edit in decisions.edits:
        entry = edit.latest.entry
        if not _is_applied(edit, located_by_id.get(entry.id)):
            titles.append(entry.title)
    return tuple(titles)


def _is_applied(edit: Edit, located: Located | None) -> bool:
    """Return whether an entry has the values of all fields that maintainers edited.

    Counts of uses are not compared, because a run raises them.
    """
    if located is None:
        return False
    for name, field in edit.fields.items():
        if name not in USE_COUNTERS and getattr(located.entry, name) != field.new_value:
            return False
    return True


def _list_entry_changes(
    workspace: Workspace, base: str, decisions: MaintainerDecisions
) -> Iterator[Change]:
    """Yield the changes to the base for entries that maintainers edited, added or removed.

    Args:
        workspace: the repository.
        base: the commit that the memory branch is made on.
        decisions: what maintainers decided on the earlier branch.
    """
    located_by_id = workspace.at(base).entries_by_id
    past_ids = list_past_ids(workspace, base) if decisions.edits else frozenset()
    for edit in decisions.edits:
        entry_id = edit.latest.entry.id
        located = located_by_id.get(entry_id)
        if located is not None:
            yield from _change_entry(edit, located)
        elif entry_id not in past_ids:  # An entry that was removed since stays removed.
            new_values = {name: field.new_value for name, field in edit.fields.items()}
            entry = replace(edit.original, **new_values)
            yield _make_change("add", edit.latest.path, entry)

    for entry in decisions.removed_entries:
        located = located_by_id.get(entry.id)
        if located is None:
            continue
        # An entry that was reworded since is not the one that they removed, and stays.
        if format_rejected_line(located.entry) == format_rejected_line(entry):
            yield _make_removal(located)


def _change_entry(edit: Edit, located: Located) -> Iterator[Change]:
    """Yield the changes that make an edit of maintainers in an entry of the base.

    A field gets its new value if the base has a value that the maintainers saw. If the base has
    another value, the field was changed there since, and keeps that value.

    Args:
        edit: the edit.
        located: the entry of the base.
    """
    new_values: dict[str, object] = {}
    for name, field in edit.fields.items():
        if getattr(located.entry, name) in field.old_values:
            new_values[name] = field.new_value
    entry = replace(located.entry, **new_values)
    if edit.moved_from == located.path:
        yield _make_removal(located)
        yield _make_change("add", edit.latest.path, entry)
    elif entry != located.entry:
        yield _make_change("update", located.path, entry)


def _make_change(kind: Literal["add", "update", "remove"], path: str, entry: Entry) -> Change:
    """Return a change; the step and the reason do not matter, because it is in no plan."""
    return Change(step="consolidate", kind=kind, path=path, entry=entry, why="")


def _make_removal(located: Located) -> Change:
    """Return the change that removes an entry, or deletes the file of a note in the inbox."""
    change = _make_change("remove", located.path, located.entry)
    if is_fragment(located.path):
        return replace(change, kind="drop", moved_from=located.path)
    return change


def _list_other_files(
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
    other_files: dict[str, bytes | None] = {}
    for file in decisions.edited_files:
        content = files.get(file.path)  # The file at the base, with the changes to entries.
        if holds_entries(workspace, file.path):
            if has_edited_prose(file) and list_prose_words(content) != list_prose_words(
                file.new_content
            ):
                other_files[file.path] = _merge_prose(file, content or b"")
        elif content != file.new_content:
            # A missing file whose addition is in the history was deleted there, and stays deleted.
            was_deleted_at_base = (
                content is None and find_addition(workspace.repo, base, file.path) is not None
            )
            if not was_deleted_at_base:
                other_files[file.path] = file.new_content
    return other_files


def _merge_prose(file: EditedFile, content: bytes) -> bytes:
    """Return a memory file with the prose of maintainers and the entries of `content`.

    Args:
        file: the file as maintainers left it.
        content: the file with the entries to keep.
    """
    their_file = parse_memory_file(file.path, file.new_content or b"")
    their_entries = {entry.id: entry for entry in their_file.entries}
    entries = {entry.id: entry for entry in parse_memory_file(file.path, content).entries}

    added_entries: list[Entry] = []
    updated_entries: list[Entry] = []
    for entry_id, entry in entries.items():
        if entry_id not in their_entries:
            added_entries.append(entry)
        elif their_entries[entry_id] != entry:
            updated_entries.append(entry)
    removed_entries = [
        entry for entry_id, entry in their_entries.items() if entry_id not in entries
    ]
    edited_file = edit_file(
        their_file, added=added_entries, updated=updated_entries, removed=removed_entries
    )
    return render_memory_file(edited_file)


def move_plan(workspace: Workspace, plan: Plan, ref: str) -> Plan:
    """Return a plan for the tip of `ref`, which may be newer than the base where it was made.

    1. If another run has recorded the same range since, the plan loses all changes.
    2. If another run recorded anything else, or the configuration changed, the plan does not fit.
    3. Learnings that the tip has already, or that people rejected, are dropped.
    4. If an entry that the plan changes was edited since, the plan does not fit, except for raised
       use counts.

    Raises:
        RepositoryError: ref-moved, if the plan does not fit the tip.
    """
    ref, tip = find_branch_tip(workspace, ref)
    if tip == plan.base:
        return replace(plan, ref=ref)
    repo = workspace.repo
    if not is_in_history(repo, plan.base, tip):
        raise _make_misfit_error(plan, tip, "its history does not hold that")

    last_run = _find_cursor(workspace, tip)
    has_other_run = last_run is not None and last_run != _find_cursor(workspace, plan.base)
    if last_run is not None and has_other_run:
        is_range_covered = plan.until and is_in_history(repo, plan.until, last_run.source)
        if not is_range_covered:
            raise _make_misfit_error(plan, tip, "another run landed")
        return _drop_changes(plan, ref, tip)
    if workspace_at(repo, plan.base).config != workspace_at(repo, tip).config:
        raise _make_misfit_error(plan, tip, "the configuration was changed")

    snapshot = workspace.at(tip)
    old_copies_by_id = _list_copies(workspace, plan.base)
    new_copies_by_id = _list_copies(workspace, tip)
    moved_plan = replace(
        plan,
        ref=ref,
        base=tip,
        steps=tuple(
            _update_steps(plan, old_copies_by_id, new_copies_by_id, list_rejected_keys(snapshot))
        ),
        episodes=tuple(_list_new_episodes(plan, snapshot)),
    )
    edited_id = _find_edited_entry(plan, moved_plan, old_copies_by_id, new_copies_by_id)
    if edited_id:
        raise _make_misfit_error(plan, tip, f"the entry {edited_id[:8]} was changed")
    return moved_plan


def _find_edited_entry(
    plan: Plan, moved_plan: Plan, old_copies_by_id: CopiesById, new_copies_by_id: CopiesById
) -> str:
    """Return the id of an entry that the plan changes and that others edited meanwhile, or "".

    Such an entry is no obstacle if the plan only raises its use counts and nobody edited these.

    Args:
        plan: the plan as it was made.
        moved_plan: the plan for the new tip.
        old_copies_by_id: the entries where the plan was made.
        new_copies_by_id: the entries of the new tip.
    """
    fitting_ids: set[str] = set()
    for change in _list_plan_changes(plan):
        if _fits_edited_entry(change, old_copies_by_id, new_copies_by_id):
            fitting_ids.add(change.entry.id)
    for change in _list_plan_changes(moved_plan):
        entry_id = change.entry.id
        is_edited = old_copies_by_id.get(entry_id) != new_copies_by_id.get(entry_id)
        if is_edited and entry_id not in fitting_ids:
            return entry_id
    return ""


def _drop_changes(plan: Plan, ref: str, base: str) -> Plan:
    """Return a plan on a new base without its changes, and without the end of its range.

    So it records nothing, and the next run begins where the other run ended.
    """
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


def _fits_edited_entry(
    change: Change, old_copies_by_id: CopiesById, new_copies_by_id: CopiesById
) -> bool:
    """Return whether a change that raises use counts fits an entry that was edited meanwhile.

    It does if nobody edited the counts, and the entry is in the same file and in no other.

    Args:
        change: a change of the plan.
        old_copies_by_id: the entries where the plan was made.
        new_copies_by_id: the entries of the new tip.
    """
    old_copies = old_copies_by_id.get(change.entry.id, ())
    new_copies = new_copies_by_id.get(change.entry.id, ())
    if change.step != "reinforce" or len(old_copies) != 1 or len(new_copies) != 1:
        return False
    old_copy, new_copy = old_copies[0], new_copies[0]
    is_in_same_file = old_copy.path == new_copy.path == change.path
    has_same_counts = _read_use_counters(old_copy.entry) == _read_use_counters(new_copy.entry)
    return is_in_same_file and has_same_counts


def _update_steps(
    plan: Plan,
    old_copies_by_id: CopiesById,
    new_copies_by_id: CopiesById,
    rejected_keys: frozenset[str],
) -> Iterator[PlannedStep]:
    """Yield the steps of a plan, updated for the entries of the new tip.

    Learnings that the tip has already, or that maintainers rejected, are dropped. Raised use counts
    are put into the entry as it is at the tip. All other changes are kept; `_find_edited_entry`
    finds those that do not fit.

    Args:
        plan: the plan.
        old_copies_by_id: the entries where the plan was made.
        new_copies_by_id: the entries of the new tip.
        rejected_keys: content keys of the entries that maintainers rejected.
    """
    for step in plan.steps:
        changes: list[Change] = []
        for change in step.changes:
            entry = change.entry
            if change.step == "extract":
                is_rejected = compute_content_key(entry.title, entry.body) in rejected_keys
                if entry.id in new_copies_by_id or is_rejected:
                    continue
            elif _fits_edited_entry(change, old_copies_by_id, new_copies_by_id):
                entry_at_tip = new_copies_by_id[entry.id][0].entry
                counted_entry = replace(entry_at_tip, **_read_use_counters(entry))
                change = replace(change, entry=counted_entry)
            changes.append(change)
        if changes:
            yield replace(step, changes=tuple(changes))


def _list_new_episodes(plan: Plan, snapshot: Snapshot) -> Iterator[EpisodeFile]:
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


def _read_use_counters(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in USE_COUNTERS}


def _list_copies(workspace: Workspace, rev: str) -> CopiesById:
    """Return all copies of each entry at a revision, by id."""
    copies: defaultdict[str, list[EntryCopy]] = defaultdict(list)
    for located in workspace_at(workspace.repo, rev).at(rev).memory.located:
        copies[located.entry.id].append(EntryCopy(located.path, located.entry))
    return dict(copies)


def _make_misfit_error(plan: Plan, tip: str, reason: str) -> RepositoryError:
    """Return the error (ref-moved) for a plan that was made for another tip of the branch."""
    message = f"the plan was made for {plan.base[:12]}, the branch is at {tip[:12]}, and {reason}"
    hint = "Nothing was changed, and nothing is lost: the next run takes the range again."
    return RepositoryError(message, slug="ref-moved", hint=hint)
