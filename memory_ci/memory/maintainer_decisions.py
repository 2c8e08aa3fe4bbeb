"""Decisions of maintainers on proposed entries: removed ones stay removed, edits are preserved.

Entries that maintainers remove from the memory pull request are listed in `.memory/rejected.txt`,
which memory-ci writes in that same pull request. A line is the hash of the entry's content and its
title, or the path of an episode. The file is under version control: to allow an entry after all,
take its line out. `commands.publish.carry_over` applies the decisions to a rebuilt branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from memory_ci.extraction.entries import content_key
from memory_ci.gitrepo.log import FILE_OPTIONS, list_committers, read_log
from memory_ci.gitrepo.record_commits import RANGE, STEP
from memory_ci.gitrepo.repo import find_merge_base
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.forgotten import REJECTED_FILE, read_rejected
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    build_memory_test,
    holds_entries,
    workspace_at,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.store.document import parse_memory_file
from memory_ci.store.episodes import (
    find_month,
    is_episode_path,
    list_ids,
    month_path,
    parse_episode_file,
)
from memory_ci.text import shorten

KEEP = "keep"
"""The step of the commit that carries over decisions of maintainers."""

TITLE_WIDTH = 90
"""Length of a title in REJECTED_FILE in characters."""


class FieldEdit(NamedTuple):
    """An edit of one field of an entry.

    Attributes:
        old_values: the values from which the field may change.
        new_value: its new value.
    """

    old_values: tuple[object, ...]
    new_value: object


class Edit(NamedTuple):
    """An edit of one entry by maintainers, over all of their commits.

    Attributes:
        place: the entry after the last edit, and its place.
        first: the entry before the first edit.
        fields: the edits of its fields.
        moved_from: the file that had the entry before, if that is another.
    """

    place: Located
    first: Entry
    fields: Mapping[str, FieldEdit]
    moved_from: str = ""


class EntryEdits(NamedTuple):
    """What commits did to entries.

    Attributes:
        removed: the first and the last version of each removed entry, one if they are the same, by
            the id of the entry.
        edits: the edits of changed and added entries, by id.
    """

    removed: dict[str, tuple[Entry, ...]]
    edits: dict[str, Edit]


class BranchCommits(NamedTuple):
    """The commits of a memory branch whose edits are decisions, oldest first.

    Attributes:
        theirs: the commits of people.
        preserved: these, and commits of memory-ci that are to be carried over as well.
    """

    theirs: list[Commit]
    preserved: list[Commit]


class EditedFile(NamedTuple):
    """A file that maintainers changed: its content before and after, or None without a file."""

    path: str
    old: bytes | None
    new: bytes | None


class MaintainerDecisions(NamedTuple):
    """The decisions of maintainers on a memory branch.

    Attributes:
        rejected: the lines of REJECTED_FILE.
        taken_out: the entries that they removed.
        edits: the entries that they edited or added.
        touched: the files that they changed.
        released: the lines that they removed from REJECTED_FILE.
        obstacle: why the decisions cannot be carried over, so that the branch must not be rebuilt.
    """

    rejected: tuple[str, ...] = ()
    taken_out: tuple[Entry, ...] = ()
    edits: tuple[Edit, ...] = ()
    touched: tuple[EditedFile, ...] = ()
    released: frozenset[str] = frozenset()
    obstacle: str = ""


class Boxes(NamedTuple):
    """The boxes that people ticked or unticked in a pull request.

    Attributes:
        accepted: keys of candidates that they accept.
        unticked: ids of entries that they do not want.
        taken_back: keys of candidates that they rejected before and now want.
    """

    accepted: frozenset[str] = frozenset()
    unticked: frozenset[str] = frozenset()
    taken_back: frozenset[str] = frozenset()


def list_rejected(snapshot: Snapshot) -> frozenset[str]:
    """Return the content keys of rejected entries."""
    return frozenset(line.split()[0] for line in read_rejected(snapshot))


def list_rejected_paths(snapshot: Snapshot) -> frozenset[str]:
    """Return the paths of rejected episode files."""
    return frozenset(line for line in read_rejected(snapshot) if is_episode_path(line))


def read_decisions(
    workspace: Workspace,
    base: str,
    branch: str,
    boxes: Boxes | None = None,
    *,
    with_ours: bool = False,
    with_ranges: bool = True,
) -> MaintainerDecisions:
    """Read the decisions of maintainers from the commits of a branch that are not in `base`.

    The decisions are the edits in commits that memory-ci did not make, and the boxes of the pull
    request. An entry whose box is unticked counts as removed. A rejected entry whose box is ticked
    counts as taken out of REJECTED_FILE, so that it may be proposed again.

    Args:
        workspace: the repository.
        base: the commit that the branch will be rebuilt on.
        branch: the memory branch.
        boxes: the boxes of its pull request.
        with_ours: whether to preserve edits of memory-ci's own commits as well.
        with_ranges: whether to preserve edits of memory-ci's own commits on a range that a person
            asked for. A run that begins at the cursor does not read that range.
    """
    boxes = boxes or Boxes()
    fork = find_merge_base(workspace.repo, base, branch) or base
    commits = _select_commits(
        workspace, fork, base, branch, with_ours=with_ours, with_ranges=with_ranges
    )
    tip = workspace.at(branch)
    rejected_lines = read_rejected(tip)
    if not commits.preserved and not boxes.unticked and not boxes.taken_back:
        return MaintainerDecisions(rejected=tuple(dict.fromkeys(rejected_lines)))

    released = _list_released(workspace, commits.theirs, rejected_lines, boxes.taken_back)
    entries = _decide_on_entries(tip, fork, commits, boxes.unticked, released)
    changed_files = _read_touched(workspace, commits.theirs if with_ours else commits.preserved)
    touched = _drop_released(changed_files, released)

    rejected = [line for line in rejected_lines if line not in released]
    rejected += _list_deleted_episodes(touched)
    rejected += [line_of(entry) for entry in entries.taken_out]
    return MaintainerDecisions(
        rejected=tuple(dict.fromkeys(rejected)),
        released=frozenset(released),
        taken_out=tuple(entries.taken_out),
        edits=tuple(entries.edits),
        touched=tuple(touched),
        obstacle=_find_obstacle(tip, base, commits.theirs, touched) if commits.theirs else "",
    )


def _select_commits(
    workspace: Workspace,
    fork: str,
    base: str,
    branch: str,
    *,
    with_ours: bool,
    with_ranges: bool,
) -> BranchCommits:
    """Return the commits of a memory branch by people, and those to be carried over.

    Args:
        workspace: the repository.
        fork: the commit at which the branch began.
        base: the commit that the branch will be rebuilt on.
        branch: the branch.
        with_ours: whether to carry over commits of memory-ci.
        with_ranges: whether to carry over commits of memory-ci on a range that a person asked for.
    """
    commits = BranchCommits([], [])
    for commit, is_ours in _list_commits(workspace, fork, base, branch):
        if not is_ours:
            commits.theirs.append(commit)
            commits.preserved.append(commit)
        elif with_ours or (with_ranges and find_trailers(commit.message, (RANGE,))):
            commits.preserved.append(commit)
    return commits


def _list_released(
    workspace: Workspace,
    commits: Sequence[Commit],
    lines: Sequence[str],
    taken_back: Collection[str],
) -> set[str]:
    """Return the lines of REJECTED_FILE that people took back: they may be proposed again.

    People tick a box in the pull request, or remove the line from the file.

    Args:
        workspace: the repository.
        commits: the commits of people.
        lines: the lines of the file now; a line that was removed and came back is left out.
        taken_back: the keys of the entries whose boxes are ticked; a line begins with a key.
    """
    released = {line for line in lines if line.split()[0] in taken_back}
    remaining = set(lines) - released
    for commit in commits:
        if any(file.path == REJECTED_FILE for file in commit.files):
            before = read_rejected(workspace.at(commit.parents[0]))
            after = read_rejected(workspace.at(commit.sha))
            released |= set(before) - set(after) - remaining
    return released


class EntryDecisions(NamedTuple):
    """The decisions on entries: those that people removed, and the edits of the others."""

    taken_out: list[Entry]
    edits: list[Edit]


def _decide_on_entries(
    tip: Snapshot,
    fork: str,
    commits: BranchCommits,
    unticked_ids: Collection[str],
    released: Collection[str],
) -> EntryDecisions:
    """Return which entries of a memory branch people removed, and how the others were edited.

    Args:
        tip: the tip of the branch.
        fork: the commit at which the branch began.
        commits: the commits of people, and those whose edits are carried over.
        unticked_ids: the ids of entries whose boxes are unticked, which counts as a removal.
        released: the lines of REJECTED_FILE that people took back; their entries are left out.
    """
    edits_by_people = _read_edits(tip.workspace, fork, commits.theirs)
    edits = edits_by_people.edits
    if len(commits.preserved) > len(commits.theirs):
        edits = _read_edits(tip.workspace, fork, commits.preserved).edits

    removed = edits_by_people.removed | _list_unticked(tip, unticked_ids, edits)
    remaining_ids = tip.entries_by_id.keys() - unticked_ids
    taken_out = _list_taken_out(removed, remaining_ids, released)
    remaining_edits = [edit for entry_id, edit in edits.items() if entry_id in remaining_ids]
    return EntryDecisions(taken_out, remaining_edits)


def _list_unticked(
    tip: Snapshot, unticked_ids: Collection[str], edits: Mapping[str, Edit]
) -> dict[str, tuple[Entry, ...]]:
    """Return the first and the last version of entries whose boxes are unticked, by entry id.

    An entry that nobody edited has one version.
    """
    versions_by_id = {}
    for entry_id, located in tip.entries_by_id.items():
        if entry_id in unticked_ids:
            last = located.entry
            versions_by_id[entry_id] = _list_versions(edits.get(entry_id), last)
    return versions_by_id


def _list_versions(edit: Edit | None, last: Entry) -> tuple[Entry, ...]:
    """Return an entry before its first edit and in its last version, once if they are the same."""
    if edit is None or edit.first == last:
        return (last,)
    return edit.first, last


def _list_taken_out(
    removed: Mapping[str, tuple[Entry, ...]],
    remaining_ids: Collection[str],
    released: Collection[str],
) -> list[Entry]:
    """Return the removed entries that are not on the branch any more.

    Args:
        removed: the versions of each removed entry, by its id.
        remaining_ids: the ids of the entries on the branch.
        released: the lines that people removed from REJECTED_FILE; their entries are left out.
    """
    taken_out = []
    for entry_id, versions in removed.items():
        if entry_id not in remaining_ids:
            taken_out += [entry for entry in versions if line_of(entry) not in released]
    return taken_out


def _drop_released(files: Iterable[EditedFile], released: Collection[str]) -> list[EditedFile]:
    """Leave out deleted files whose deletion a person took back."""
    return [file for file in files if file.new is not None or file.path not in released]


def _list_deleted_episodes(files: Iterable[EditedFile]) -> list[str]:
    """Return the paths of deleted episode files, as lines of REJECTED_FILE.

    A file that holds several episodes counts as a file for each of them, because the next run may
    combine them with others. A path that does not fit on a line is left out.
    """
    paths: list[str] = []
    for file in files:
        is_deleted = file.new is None
        if not is_deleted or not is_episode_path(file.path) or not file.path.isprintable():
            continue
        directory = file.path.rpartition("/")[0]
        episode_ids = list_ids(file.path, file.old or b"")
        paths.append(file.path)
        paths += [f"{directory}/{episode_id}.md" for episode_id in episode_ids]
    return list(dict.fromkeys(paths))


def line_of(entry: Entry) -> str:
    """Return the line of REJECTED_FILE for an entry."""
    return f"{content_key(entry.title, entry.body)} {shorten(entry.title, TITLE_WIDTH)}"


def prose_of(data: bytes | None) -> list[str]:
    """Return the words of a memory file outside of its entries."""
    words = []
    for segment in parse_memory_file("", data or b"").segments:
        if segment.entry is None:
            words += segment.raw.split()
    return words


def changes_prose(file: EditedFile) -> bool:
    """Return whether maintainers changed words of a memory file outside of its entries."""
    return prose_of(file.old) != prose_of(file.new)


def _read_edits(workspace: Workspace, fork: str, commits: Sequence[Commit]) -> EntryEdits:
    """Read which entries commits removed, changed or added.

    Args:
        workspace: the repository.
        fork: the commit at which the branch began.
        commits: commits of the branch, oldest first.
    """
    entries_at_fork = workspace.at(fork).entries_by_id
    removed: dict[str, tuple[Entry, ...]] = {}
    edits: dict[str, Edit] = {}
    for commit in commits:
        old_entries = workspace.at(commit.parents[0]).entries_by_id
        new_entries = workspace.at(commit.sha).entries_by_id
        for entry_id in old_entries.keys() - new_entries.keys():
            last = old_entries[entry_id].entry
            removed[entry_id] = _list_versions(edits.get(entry_id), last)
        for entry_id, after in new_entries.items():
            before = old_entries.get(entry_id)
            if before is None or (before.entry, before.path) != (after.entry, after.path):
                at_fork = entries_at_fork.get(entry_id)
                edits[entry_id] = _extend_edit(edits.get(entry_id), before, after, at_fork)
    return EntryEdits(removed, edits)


def _extend_edit(
    edit: Edit | None, before: Located | None, after: Located, at_fork: Located | None
) -> Edit:
    """Extend the edit of an entry by what one more commit changed.

    A field may change from its value before the first edit, or where the branch began.

    Args:
        edit: the edit by earlier commits, if any.
        before: the entry before the commit; None if the commit added it.
        after: the entry after the commit.
        at_fork: the entry in the commit at which the branch began, if it existed there.
    """
    previous = before
    if previous is None and edit is not None:
        previous = edit.place  # removed by an earlier commit, and now added again
    if previous is None:
        return Edit(after, after.entry, {})

    fields = dict(edit.fields) if edit else {}
    for name in after.entry.__struct_fields__:
        old_value = getattr(previous.entry, name)
        new_value = getattr(after.entry, name)
        if old_value == new_value:
            continue
        if name in fields:
            old_values = fields[name].old_values
        elif at_fork:
            old_values = (old_value, getattr(at_fork.entry, name))
        else:
            old_values = (old_value,)
        fields[name] = FieldEdit(old_values, new_value)

    if edit is None:
        first = previous.entry
        first_path = previous.path
    else:
        first = edit.first
        first_path = edit.moved_from or edit.place.path
    moved_from = first_path if first_path != after.path else ""
    return Edit(after, first, fields, moved_from)


def _read_touched(workspace: Workspace, commits: Sequence[Commit]) -> list[EditedFile]:
    """Return the memory files that commits changed, with their content before and afterwards.

    REJECTED_FILE is left out: its lines are read one by one.
    """
    is_memory = build_memory_test(workspace)
    first_content: dict[str, bytes | None] = {}
    last_content: dict[str, bytes | None] = {}
    for commit in commits:
        paths = []
        for file in commit.files:
            if is_memory(file.path) and file.path != REJECTED_FILE:
                paths.append(file.path)
        before = workspace.at(commit.parents[0]).read(paths)
        after = workspace.at(commit.sha).read(paths)
        for path in paths:
            first_content.setdefault(path, before.get(path))
            last_content[path] = after.get(path)

    touched = []
    for path, new in last_content.items():
        old = first_content[path]
        if new != old:
            touched.append(EditedFile(path, old, new))
    return touched


def _find_obstacle(
    tip: Snapshot, base: str, commits: Sequence[Commit], touched: Sequence[EditedFile]
) -> str:
    """Return why the work of people on a memory branch cannot be carried over, or "".

    Args:
        tip: the tip of the branch.
        base: the commit that the branch will be rebuilt on.
        commits: the commits of people on the branch.
        touched: the files that these commits changed.
    """
    workspace = tip.workspace
    is_memory = build_memory_test(workspace)
    for commit in commits:
        if not all(is_memory(file.path) for file in commit.files):
            return "others changed more than memory there"

    errors = [finding for finding in tip.memory.findings if finding.level == "error"]
    for file in touched:
        if file.new is not None and is_episode_path(file.path):
            errors += parse_episode_file(file.path, file.new).findings
    if errors:
        return f"{errors[0].path}:{errors[0].line} cannot be read there: {errors[0].message}"

    base_content = workspace.at(base).read(file.path for file in touched)
    for file in touched:
        base_data = base_content.get(file.path)
        if holds_entries(workspace, file.path):
            is_in_conflict = _is_prose_in_conflict(file, base_data)
        else:
            is_in_conflict = _is_file_in_conflict(file, base_data)
        if is_in_conflict:
            return f"{file.path} was changed there, and is not the same in the base"
    return ""


def _is_prose_in_conflict(file: EditedFile, base_data: bytes | None) -> bool:
    """Return whether maintainers and the base changed the prose of a memory file differently.

    Its entries do not matter here: their edits are carried over one by one.
    """
    if not changes_prose(file):
        return False
    base_prose = prose_of(base_data)
    return base_prose != prose_of(file.old) and base_prose != prose_of(file.new)


def _is_file_in_conflict(file: EditedFile, base_data: bytes | None) -> bool:
    """Return whether maintainers and the base changed a file without entries differently.

    A file that the base lacks can be written there, but not the file with all episodes of a month:
    the base still has these in files of their own, and would have them twice.
    """
    if base_data == file.old or base_data == file.new:
        return False
    if base_data is None:
        month = find_month(file.path)
        return month is not None and file.path == month_path(month)
    return True


def _list_commits(
    workspace: Workspace, fork: str, base: str, branch: str
) -> Iterator[tuple[Commit, bool]]:
    """Yield the commits of a branch, oldest first, and whether memory-ci made them.

    A commit is memory-ci's own if a trailer names a step other than KEEP, and if memory-ci is the
    committer: a commit that somebody amended is theirs. Merges are left out.

    Args:
        workspace: the repository.
        fork: the commit at which the branch began.
        base: commits that this one contains are left out.
        branch: the branch.
    """
    from memory_ci.gitrepo import writer  # GitPython: 75 ms, only to publish

    # The identity may have been configured since the branch began.
    our_emails = {writer.MEMORY_CI.email, writer.IN_ACTIONS.email}
    for rev in {base, fork}:
        config = workspace_at(workspace.repo, rev).config.publish
        our_emails.add(writer.choose_identity(config, in_actions=False).email)

    committers = list_committers(workspace.repo, base, branch)
    arguments = (
        "--reverse",
        "--topo-order",
        "--no-merges",
        *FILE_OPTIONS,
        "--no-renames",
        "--end-of-options",
        branch,
        f"^{base}",
    )
    for commit, _ in read_log(workspace.repo, *arguments, "--"):
        if not commit.parents:
            continue
        steps = {value for _, value in find_trailers(commit.message, (STEP,))}
        is_of_run = bool(steps - {KEEP})
        yield commit, is_of_run and committers[commit.sha] in our_emails
