"""Decisions of maintainers on proposals: removed entries stay removed, and edits are preserved.

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


class Edit(NamedTuple):
    """An edit of one entry by maintainers.

    Attributes:
        place: the entry after the last edit, and its place.
        first: the entry before the first edit.
        fields: for each changed field the values from which it may change, and its new value.
        moved_from: the file that had the entry before, if that is another.
    """

    place: Located
    first: Entry
    fields: Mapping[str, tuple[tuple[object, ...], object]]
    moved_from: str = ""


class Touched(NamedTuple):
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
    touched: tuple[Touched, ...] = ()
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
    request: an entry whose box is unticked counts as removed, and a ticked line as removed from
    REJECTED_FILE.

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
    theirs: list[Commit] = []
    preserved: list[Commit] = []
    for commit, is_ours in _list_commits(workspace, fork, base, branch):
        if not is_ours:
            theirs.append(commit)
            preserved.append(commit)
        elif with_ours or (with_ranges and find_trailers(commit.message, (RANGE,))):
            preserved.append(commit)

    tip = workspace.at(branch)
    lines = read_rejected(tip)
    if not preserved and not boxes.unticked and not boxes.taken_back:
        return MaintainerDecisions(rejected=tuple(dict.fromkeys(lines)))

    # lines of REJECTED_FILE that a person took back: their entries may be proposed again
    released = {line for line in lines if line.split()[0] in boxes.taken_back}
    lines = [line for line in lines if line not in released]
    released |= _list_released(workspace, theirs, lines)

    removed, edits = _read_edits(workspace, theirs, workspace.at(fork).entries_by_id)
    if len(preserved) > len(theirs):
        _, edits = _read_edits(workspace, preserved, workspace.at(fork).entries_by_id)
    remaining_ids = tip.entries_by_id.keys() - boxes.unticked
    removed |= _list_unticked(tip, boxes.unticked, edits)
    taken_out = _list_taken_out(removed, remaining_ids, released)

    changed_files = _read_touched(workspace, theirs if with_ours else preserved)
    touched = _drop_released(changed_files, released)
    lines += _list_deleted_episodes(touched)
    return MaintainerDecisions(
        rejected=tuple(dict.fromkeys([*lines, *map(line_of, taken_out)])),
        released=frozenset(released),
        taken_out=tuple(taken_out),
        edits=tuple(edit for entry_id, edit in edits.items() if entry_id in remaining_ids),
        touched=tuple(touched),
        obstacle=_find_obstacle(tip, base, theirs, touched) if theirs else "",
    )


def _list_released(
    workspace: Workspace, commits: Sequence[Commit], lines: Sequence[str]
) -> set[str]:
    """Return the lines that commits removed from REJECTED_FILE and that are not back in it."""
    released: set[str] = set()
    for commit in commits:
        if any(file.path == REJECTED_FILE for file in commit.files):
            before = read_rejected(workspace.at(commit.parents[0]))
            after = read_rejected(workspace.at(commit.sha))
            released |= set(before).difference(after, lines)
    return released


def _list_unticked(
    tip: Snapshot, unticked_ids: Collection[str], edits: Mapping[str, Edit]
) -> dict[str, tuple[Entry, ...]]:
    """Return the first and last version of the entries whose boxes are unticked, by id."""
    unticked = {}
    for entry_id, located in tip.entries_by_id.items():
        if entry_id in unticked_ids:
            first = edits[entry_id].first if entry_id in edits else located.entry
            unticked[entry_id] = tuple(dict.fromkeys((first, located.entry)))
    return unticked


def _list_taken_out(
    removed: Mapping[str, tuple[Entry, ...]],
    remaining_ids: Collection[str],
    released: Collection[str],
) -> list[Entry]:
    """Return the removed versions of entries whose ids are gone, without released ones."""
    taken_out = []
    for entry_id, versions in removed.items():
        if entry_id not in remaining_ids:
            taken_out += [entry for entry in versions if line_of(entry) not in released]
    return taken_out


def _drop_released(files: Iterable[Touched], released: Collection[str]) -> list[Touched]:
    """Leave out deleted files whose deletion a person took back."""
    return [file for file in files if file.new is not None or file.path not in released]


def _list_deleted_episodes(files: Iterable[Touched]) -> list[str]:
    """Return the paths of deleted files of episodes that fit on a line of REJECTED_FILE.

    Of a file with the amendments of a run, each is named as if it had a file of its own: the next
    run may put them together with others.
    """
    paths: list[str] = []
    for file in files:
        is_deleted = file.new is None
        if not is_deleted or not is_episode_path(file.path) or not file.path.isprintable():
            continue
        directory = file.path.rpartition("/")[0]
        paths.append(file.path)
        paths += [f"{directory}/{id_}.md" for id_ in list_ids(file.path, file.old or b"")]
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


def changes_prose(file: Touched) -> bool:
    """Return whether maintainers changed words of a memory file outside of its entries."""
    return prose_of(file.old) != prose_of(file.new)


def _read_edits(
    workspace: Workspace, commits: Sequence[Commit], fork: Mapping[str, Located]
) -> tuple[dict[str, tuple[Entry, ...]], dict[str, Edit]]:
    """Read the edits of entries in commits.

    Args:
        workspace: the repository.
        commits: the commits, oldest first.
        fork: the entries where the branch began.

    Returns:
        The first and last version of removed entries, and the edited or added ones, by id.
    """
    removed: dict[str, tuple[Entry, ...]] = {}
    edits: dict[str, Edit] = {}
    for commit in commits:
        old = workspace.at(commit.parents[0]).entries_by_id
        new = workspace.at(commit.sha).entries_by_id
        for entry_id in old.keys() - new.keys():
            last = old[entry_id].entry
            first = edits[entry_id].first if entry_id in edits else last
            removed[entry_id] = tuple(dict.fromkeys((first, last)))
        for entry_id, after in new.items():
            before = old.get(entry_id)
            if before is None or (before.entry, before.path) != (after.entry, after.path):
                edit = edits.get(entry_id)
                edits[entry_id] = _extend_edit(edit, before, after, fork.get(entry_id))
    return removed, edits


def _extend_edit(
    edit: Edit | None, before: Located | None, after: Located, at_fork: Located | None
) -> Edit:
    """Extend an edit by one more commit.

    A field may change from its value before the first edit, or where the branch began.
    """
    previous = before
    if previous is None and edit is not None:
        previous = edit.place
    if previous is None:
        return Edit(after, after.entry, {})

    fields = dict(edit.fields) if edit else {}
    for name in after.entry.__struct_fields__:
        old_value = getattr(previous.entry, name)
        new_value = getattr(after.entry, name)
        if old_value == new_value:
            continue
        if name in fields:
            allowed_values = fields[name][0]
        elif at_fork:
            allowed_values = (old_value, getattr(at_fork.entry, name))
        else:
            allowed_values = (old_value,)
        fields[name] = (allowed_values, new_value)

    origin = previous.path
    if edit:
        origin = edit.moved_from or edit.place.path
    moved_from = "" if origin == after.path else origin
    return Edit(after, edit.first if edit else previous.entry, fields, moved_from)


def _read_touched(workspace: Workspace, commits: Sequence[Commit]) -> list[Touched]:
    """Return the memory files that commits changed, except REJECTED_FILE, which is read by line."""
    is_memory = build_memory_test(workspace)
    first: dict[str, bytes | None] = {}
    last: dict[str, bytes | None] = {}
    for commit in commits:
        paths = [file.path for file in commit.files if is_memory(file.path)]
        paths = [path for path in paths if path != REJECTED_FILE]
        old = workspace.at(commit.parents[0]).read(paths)
        new = workspace.at(commit.sha).read(paths)
        for path in paths:
            first.setdefault(path, old.get(path))
            last[path] = new.get(path)
    return [Touched(path, first[path], new) for path, new in last.items() if new != first[path]]


def _find_obstacle(
    tip: Snapshot, base: str, commits: Sequence[Commit], touched: Sequence[Touched]
) -> str:
    """Return why the work of others on the branch cannot be carried over, or ""."""
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


def _is_prose_in_conflict(file: Touched, base_data: bytes | None) -> bool:
    """Return whether maintainers and the base changed the prose of a memory file differently.

    Its entries do not matter here: their edits are carried over one by one.
    """
    if not changes_prose(file):
        return False
    base_prose = prose_of(base_data)
    return base_prose != prose_of(file.old) and base_prose != prose_of(file.new)


def _is_file_in_conflict(file: Touched, base_data: bytes | None) -> bool:
    """Return whether maintainers and the base changed a file without entries differently.

    A file that the base lacks can be written there. The file of a folded month cannot: the base has
    its episodes in files of their own, and would have them twice.
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
    """Yield commits of the branch, oldest first, and whether memory-ci made them.

    A commit is its own if a trailer names a step other than KEEP, and if its committer is
    memory-ci: a commit that somebody amended is theirs. Merges are left out.
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
