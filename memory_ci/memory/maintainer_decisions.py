"""Decisions of maintainers on proposed entries: removed ones stay removed, edits are preserved.

Entries that maintainers remove from the memory pull request are listed in `.memory/rejected.txt`,
which memory-ci writes in that same pull request. A line is the hash of the entry's content and its
title, or the path of an episode. The file is under version control: to allow an entry after all,
take its line out. `commands.publish.carry_over` applies the decisions to a rebuilt branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from memory_ci.extraction.entries import compute_content_key
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
        latest: the entry after the last edit, with its path and line.
        original: the entry before the first edit.
        fields: the edits of its fields, by the name of the field.
        moved_from: the file that had the entry before, if that is another.
    """

    latest: Located
    original: Entry
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
        by_people: the commits that people made.
        carried_over: all commits whose edits a rebuilt branch keeps: those by people, and those of
            memory-ci on a range that a person asked for.
    """

    by_people: list[Commit]
    carried_over: list[Commit]


class EditedFile(NamedTuple):
    """A file that maintainers changed: its content before and after, or None without a file."""

    path: str
    old_content: bytes | None
    new_content: bytes | None


class MaintainerDecisions(NamedTuple):
    """The decisions of maintainers on a memory branch.

    Attributes:
        rejected_lines: the lines that REJECTED_FILE gets.
        removed_entries: the entries that they removed.
        edits: the entries that they edited or added.
        edited_files: the files that they changed.
        withdrawn_lines: the lines of REJECTED_FILE that they took back, so that the entries may be
            proposed again.
        obstacle: why the decisions cannot be carried over, so that the branch must not be rebuilt;
            "" if they can.
    """

    rejected_lines: tuple[str, ...] = ()
    removed_entries: tuple[Entry, ...] = ()
    edits: tuple[Edit, ...] = ()
    edited_files: tuple[EditedFile, ...] = ()
    withdrawn_lines: frozenset[str] = frozenset()
    obstacle: str = ""


class Boxes(NamedTuple):
    """The boxes that people ticked or unticked in a pull request.

    Attributes:
        accepted_keys: keys of candidates that they accept.
        unticked_ids: ids of entries that they do not want.
        withdrawn_keys: keys of candidates that they rejected before and now want.
    """

    accepted_keys: frozenset[str] = frozenset()
    unticked_ids: frozenset[str] = frozenset()
    withdrawn_keys: frozenset[str] = frozenset()


def list_rejected_keys(snapshot: Snapshot) -> frozenset[str]:
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
    keep_asked_ranges: bool = True,
) -> MaintainerDecisions:
    """Read the decisions of maintainers from the commits of a branch that are not in `base`.

    The decisions are the edits in commits that memory-ci did not make, and the boxes of the pull
    request. An entry whose box is unticked counts as removed. A rejected entry whose box is ticked
    counts as removed from REJECTED_FILE, so that it may be proposed again.

    Args:
        workspace: the repository.
        base: the commit that the branch will be rebuilt on.
        branch: the memory branch.
        boxes: the boxes of its pull request.
        keep_asked_ranges: whether to carry over some commits of memory-ci, too: those that record
            a range which a person asked for. A run that begins at the cursor does not read that
            range, so a rebuilt branch would lose its entries.
    """
    boxes = boxes or Boxes()
    fork = find_merge_base(workspace.repo, base, branch) or base
    commits = _select_commits(workspace, fork, base, branch, keep_asked_ranges=keep_asked_ranges)
    tip = workspace.at(branch)
    old_rejected_lines = read_rejected(tip)
    if not commits.carried_over and not boxes.unticked_ids and not boxes.withdrawn_keys:
        return MaintainerDecisions(rejected_lines=tuple(dict.fromkeys(old_rejected_lines)))

    withdrawn_lines = _list_withdrawn_lines(
        workspace, commits.by_people, old_rejected_lines, boxes.withdrawn_keys
    )
    entries = _decide_on_entries(tip, fork, commits, boxes.unticked_ids, withdrawn_lines)
    edited_files = _drop_withdrawn_deletions(
        _read_edited_files(workspace, commits.carried_over), withdrawn_lines
    )
    obstacle = ""
    if commits.by_people:
        obstacle = _find_obstacle(tip, base, commits.by_people, edited_files)

    rejected_lines = [line for line in old_rejected_lines if line not in withdrawn_lines]
    rejected_lines += _list_deleted_episodes(edited_files)
    rejected_lines += [format_rejected_line(entry) for entry in entries.removed]
    return MaintainerDecisions(
        rejected_lines=tuple(dict.fromkeys(rejected_lines)),
        removed_entries=tuple(entries.removed),
        edits=tuple(entries.edits),
        edited_files=tuple(edited_files),
        withdrawn_lines=frozenset(withdrawn_lines),
        obstacle=obstacle,
    )


def _select_commits(
    workspace: Workspace, fork: str, base: str, branch: str, *, keep_asked_ranges: bool
) -> BranchCommits:
    """Return the commits of a memory branch by people, and those that are carried over.

    The trailer RANGE marks a commit of memory-ci that records a range which a person asked for.

    Args:
        workspace: the repository.
        fork: the commit at which the branch began.
        base: the commit that the branch will be rebuilt on.
        branch: the branch.
        keep_asked_ranges: whether to carry over the commits with the trailer RANGE.
    """
    commits = BranchCommits([], [])
    for commit, is_by_memory_ci in _list_commits(workspace, fork, base, branch):
        if not is_by_memory_ci:
            commits.by_people.append(commit)
            commits.carried_over.append(commit)
        elif keep_asked_ranges and find_trailers(commit.message, (RANGE,)):
            commits.carried_over.append(commit)
    return commits


def _list_withdrawn_lines(
    workspace: Workspace,
    commits: Sequence[Commit],
    present_lines: Sequence[str],
    withdrawn_keys: Collection[str],
) -> set[str]:
    """Return the lines of REJECTED_FILE that people took back: they may be proposed again.

    People tick a box in the pull request, or remove the line from the file. A removed line that
    is in the file again was added back later, so it counts as rejected.

    Args:
        workspace: the repository.
        commits: the commits of people.
        present_lines: the lines of the file now.
        withdrawn_keys: the keys of the entries whose boxes are ticked; a line begins with a key.
    """
    withdrawn_lines = {line for line in present_lines if line.split()[0] in withdrawn_keys}
    rejected_lines = set(present_lines) - withdrawn_lines
    for commit in commits:
        if any(file.path == REJECTED_FILE for file in commit.files):
            lines_before = read_rejected(workspace.at(commit.parents[0]))
            lines_after = read_rejected(workspace.at(commit.sha))
            removed_lines = set(lines_before) - set(lines_after)
            withdrawn_lines |= removed_lines - rejected_lines
    return withdrawn_lines


class EntryDecisions(NamedTuple):
    """The decisions on entries: those that people removed, and the edits of the others."""

    removed: list[Entry]
    edits: list[Edit]


def _decide_on_entries(
    tip: Snapshot,
    fork: str,
    commits: BranchCommits,
    unticked_ids: Collection[str],
    withdrawn_lines: Collection[str],
) -> EntryDecisions:
    """Return which entries of a memory branch people removed, and how the others were edited.

    Edits of all commits that are carried over count, but only people reject an entry by removing
    it: memory-ci also removes entries, for example when it merges two.

    Args:
        tip: the tip of the branch.
        fork: the commit at which the branch began.
        commits: the commits of people, and those whose edits are carried over.
        unticked_ids: the ids of entries whose boxes are unticked, which counts as a removal.
        withdrawn_lines: the lines of REJECTED_FILE that people took back; entries with such a line
            do not count as removed.
    """
    edits_by_people = _read_edits(tip.workspace, fork, commits.by_people)
    edits = edits_by_people.edits
    if len(commits.carried_over) > len(commits.by_people):
        edits = _read_edits(tip.workspace, fork, commits.carried_over).edits

    removed_versions = edits_by_people.removed | _list_unticked(tip, unticked_ids, edits)
    remaining_ids = tip.entries_by_id.keys() - unticked_ids
    removed_entries = _list_removed_entries(removed_versions, remaining_ids, withdrawn_lines)
    remaining_edits = [edit for entry_id, edit in edits.items() if entry_id in remaining_ids]
    return EntryDecisions(removed_entries, remaining_edits)


def _list_unticked(
    tip: Snapshot, unticked_ids: Collection[str], edits: Mapping[str, Edit]
) -> dict[str, tuple[Entry, ...]]:
    """Return the first and the last version of entries whose boxes are unticked, by entry id.

    An entry that nobody edited has one version.
    """
    versions_by_id = {}
    for entry_id, located in tip.entries_by_id.items():
        if entry_id in unticked_ids:
            last_version = located.entry
            versions_by_id[entry_id] = _list_versions(edits.get(entry_id), last_version)
    return versions_by_id


def _list_versions(edit: Edit | None, last_version: Entry) -> tuple[Entry, ...]:
    """Return an entry before its first edit and in its last version, once if they are the same."""
    if edit is None or edit.original == last_version:
        return (last_version,)
    return edit.original, last_version


def _list_removed_entries(
    removed_versions: Mapping[str, tuple[Entry, ...]],
    remaining_ids: Collection[str],
    withdrawn_lines: Collection[str],
) -> list[Entry]:
    """Return the versions of removed entries that are to be rejected.

    An entry that is on the branch again is left out.

    Args:
        removed_versions: the first and the last version of each removed entry, by its id.
        remaining_ids: the ids of the entries on the branch.
        withdrawn_lines: the lines of REJECTED_FILE that people took back; versions with such a
            line are left out.
    """
    removed_entries = []
    for entry_id, versions in removed_versions.items():
        if entry_id in remaining_ids:
            continue
        for entry in versions:
            if format_rejected_line(entry) not in withdrawn_lines:
                removed_entries.append(entry)
    return removed_entries


def _drop_withdrawn_deletions(
    files: Iterable[EditedFile], withdrawn_lines: Collection[str]
) -> list[EditedFile]:
    """Leave out deleted files whose deletion a person took back: their paths are withdrawn."""
    return [
        file for file in files if file.new_content is not None or file.path not in withdrawn_lines
    ]


def _list_deleted_episodes(files: Iterable[EditedFile]) -> list[str]:
    """Return the paths of deleted episode files, as lines of REJECTED_FILE.

    A file that holds several episodes counts as a file for each of them, because the next run may
    combine them with others. A path with a character that cannot be printed, such as a line break,
    would not be one line, so it is left out.
    """
    paths: list[str] = []
    for file in files:
        is_deleted = file.new_content is None
        if not is_deleted or not is_episode_path(file.path) or not file.path.isprintable():
            continue
        directory = file.path.rpartition("/")[0]
        episode_ids = list_ids(file.path, file.old_content or b"")
        paths.append(file.path)
        paths += [f"{directory}/{episode_id}.md" for episode_id in episode_ids]
    return list(dict.fromkeys(paths))


def format_rejected_line(entry: Entry) -> str:
    """Return the line of REJECTED_FILE for an entry."""
    return f"{compute_content_key(entry.title, entry.body)} {shorten(entry.title, TITLE_WIDTH)}"


def list_prose_words(data: bytes | None) -> list[str]:
    """Return the words of a memory file outside of its entries."""
    words = []
    for segment in parse_memory_file("", data or b"").segments:
        if segment.entry is None:
            words += segment.raw.split()
    return words


def has_edited_prose(file: EditedFile) -> bool:
    """Return whether maintainers changed words of a memory file outside of its entries."""
    return list_prose_words(file.old_content) != list_prose_words(file.new_content)


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
            last_version = old_entries[entry_id].entry
            removed[entry_id] = _list_versions(edits.get(entry_id), last_version)
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

    Each edited field keeps two old values: before its first edit, and in the commit at which the
    branch began. The edit is applied to a base that has either of them.

    Args:
        edit: the edit by earlier commits, if any.
        before: the entry before the commit; None if the commit added it.
        after: the entry after the commit.
        at_fork: the entry in the commit at which the branch began, if it existed there.
    """
    previous = before
    if previous is None and edit is not None:
        previous = edit.latest  # removed by an earlier commit, and now added again
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
        original = previous.entry
        original_path = previous.path
    else:
        original = edit.original
        original_path = edit.moved_from or edit.latest.path
    moved_from = original_path if original_path != after.path else ""
    return Edit(after, original, fields, moved_from)


def _read_edited_files(workspace: Workspace, commits: Sequence[Commit]) -> list[EditedFile]:
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

    edited_files = []
    for path, new_content in last_content.items():
        old_content = first_content[path]
        if new_content != old_content:
            edited_files.append(EditedFile(path, old_content, new_content))
    return edited_files


def _find_obstacle(
    tip: Snapshot, base: str, commits: Sequence[Commit], edited_files: Sequence[EditedFile]
) -> str:
    """Return why the work of people on a memory branch cannot be carried over, or "".

    That is so if they changed files that are not memory, if a file cannot be parsed, or if the
    base has changed the same file in another way. In the message, "there" is the branch.

    Args:
        tip: the tip of the branch.
        base: the commit that the branch will be rebuilt on.
        commits: the commits of people on the branch.
        edited_files: the files that were changed on the branch.
    """
    workspace = tip.workspace
    is_memory = build_memory_test(workspace)
    for commit in commits:
        if not all(is_memory(file.path) for file in commit.files):
            return "others changed more than memory there"

    errors = [finding for finding in tip.memory.findings if finding.level == "error"]
    for file in edited_files:
        if file.new_content is not None and is_episode_path(file.path):
            errors += parse_episode_file(file.path, file.new_content).findings
    if errors:
        return f"{errors[0].path}:{errors[0].line} cannot be read there: {errors[0].message}"

    base_content = workspace.at(base).read(file.path for file in edited_files)
    for file in edited_files:
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
    if not has_edited_prose(file):
        return False
    base_prose = list_prose_words(base_data)
    return base_prose != list_prose_words(file.old_content) and base_prose != list_prose_words(
        file.new_content
    )


def _is_file_in_conflict(file: EditedFile, base_data: bytes | None) -> bool:
    """Return whether maintainers and the base changed a file without entries differently.

    A file that the base lacks is written to it, and is no conflict. The exception is a file with
    all episodes of a month: the base still has each of them in a file of its own, so it would have
    them twice.
    """
    if base_data == file.old_content or base_data == file.new_content:
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
