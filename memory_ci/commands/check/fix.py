"""`memory-ci check --fix`: rewrites of memory files, which hold entries (notes for coding agents).

Text written by hand becomes entries, new entries move to the inbox, and files are written in
canonical form. All texts are computed before the first file is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.check.resolve import find_default_branch
from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import read_files
from memory_ci.gitrepo.repo import find_commit, find_merge_base, head_branch, resolve_commit
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.named_code import cite_files
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    list_memory_files,
    load_memory,
    read_memory_files,
    select_files,
    work_tree,
)
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import Entry, ScopeOf
from memory_ci.records.names import HEADS
from memory_ci.records.report import Finding
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file, render_memory_file
from memory_ci.store.edits import canonical_file, edit_file
from memory_ci.store.files import write_file
from memory_ci.store.layout import (
    classify_scope,
    fragment_path,
    is_fragment,
    may_have_prose,
    scope_path,
)
from memory_ci.store.manual_notes import AdoptedNote, adopt_notes

REMOTE_BRANCHES = "refs/remotes/origin/"


class FormatReport(msgspec.Struct, frozen=True):
    """The result of `check --fix`.

    Attributes:
        files: the number of files.
        changed: the paths of files that are not canonical.
        findings: the lines that cannot be read.
    """

    files: int
    changed: tuple[str, ...]
    findings: tuple[Finding, ...]


class MovedEntry(msgspec.Struct, frozen=True):
    """An entry that was moved from the file `source` to the inbox file `path`."""

    entry_id: str
    title: str
    source: str
    path: str


class _MoveFromFile(NamedTuple):
    """The new entries of a file that move to the inbox.

    Attributes:
        path: the file.
        inbox_texts: for each moved entry the text of its new file in the inbox.
        remaining_text: the text of the file without the entries, None to remove the file.
    """

    path: str
    inbox_texts: dict[MovedEntry, bytes]
    remaining_text: bytes | None


def format_memory(
    workspace: Workspace, paths: Sequence[Path] = (), *, dry_run: bool = False
) -> FormatReport:
    """Write memory files of the work tree in canonical form.

    Entries that name no code get cites: the places of code that their text speaks of. A dry run
    does not look for them, so it does not report a file that would only get cites.

    Args:
        workspace: the repository and its configuration.
        paths: the files, none for all.
        dry_run: write nothing.

    Raises:
        UsageError: not-a-memory-file.
        UnreadableMemoryError: unsafe-rewrite.
        RepositoryError: bare-repository, write-failed.
    """
    root = work_tree(workspace)
    files = select_files(workspace, paths)
    old_texts: dict[str, bytes] = {}
    new_texts: dict[str, bytes] = {}
    findings: list[Finding] = []
    for file, content in zip(files, read_memory_files(workspace, files), strict=True):
        loaded = content.loaded
        findings += [finding for finding in loaded.findings if finding.level == "error"]
        canonical_text = canonical_file(loaded.path, content.data)
        old_texts[file.path] = content.data
        if canonical_text != content.data:
            new_texts[file.path] = canonical_text

    if not dry_run:
        new_texts |= cite_files(workspace, old_texts | new_texts)
        for path, text in new_texts.items():
            write_file(root / path, text, root)
    return FormatReport(len(files), tuple(new_texts), tuple(findings))


def adopt_by_hand(
    workspace: Workspace, today: date, *, dry_run: bool = False
) -> tuple[AdoptedNote, ...]:
    """Make entries of headings that were written by hand, and complete the fields of entries.

    Args:
        workspace: the repository and its configuration.
        today: the date of new entries.
        dry_run: write nothing.

    Raises:
        RepositoryError: bare-repository, write-failed.
    """
    root = work_tree(workspace)
    patterns = workspace.config.scopes
    all_adopted: list[AdoptedNote] = []
    used_ids: frozenset[str] = frozenset()
    for content in read_files(workspace.repo, select_files(workspace, ()), MAX_FILE_BYTES):
        path = content.file.path
        data = content.data or b""
        is_prose = may_have_prose(path, patterns)
        text, adopted = adopt_notes(path, data, today, may_have_prose=is_prose)
        if not adopted:
            continue

        # A new entry must not get the id of a removed one. History is slow to read, so that is
        # done only if there is something to adopt.
        used_ids = used_ids or _list_used_ids(workspace)
        text, adopted = adopt_notes(
            path, data, today, may_have_prose=is_prose, reserved_ids=used_ids
        )
        all_adopted += adopted
        if adopted and not dry_run:
            cited_texts = cite_files(workspace, {path: text})
            write_file(root / path, cited_texts.get(path, text), root)
    return tuple(all_adopted)


def _list_used_ids(workspace: Workspace) -> frozenset[str]:
    """Return the ids of all entries in the history and the work tree."""
    past_ids: frozenset[str] = frozenset()
    if find_commit(workspace.repo, "HEAD"):
        past_ids = list_past_ids(workspace, "HEAD")
    return past_ids | {located.entry.id for located in load_memory(workspace, None).located}


def move_to_inbox(
    workspace: Workspace, base: str | None = None, *, dry_run: bool = False
) -> tuple[MovedEntry, ...]:
    """Move entries that a branch added to scope files into the inbox.

    On the default branch nothing moves, unless `base` is named: there, entries belong into their
    files.

    Args:
        workspace: the repository and its configuration.
        base: the revision where the branch started, None for the default branch.
        dry_run: write nothing.

    Raises:
        RepositoryError: bare-repository, unknown-revision, write-failed.
        UsageError: no-base.
        UnreadableMemoryError: unsafe-rewrite.
    """
    root = work_tree(workspace)
    moved_entries: list[MovedEntry] = []
    for move in _plan_moves_to_inbox(workspace, base):
        moved_entries += move.inbox_texts
        if dry_run:
            continue
        for moved_entry, text in move.inbox_texts.items():
            write_file(root / moved_entry.path, text, root)
        if move.remaining_text is not None:
            write_file(root / move.path, move.remaining_text, root)
        else:
            (root / move.path).unlink()
    return tuple(moved_entries)


def _plan_moves_to_inbox(workspace: Workspace, base: str | None) -> Iterator[_MoveFromFile]:
    """Yield for each file with new entries the move of these entries into the inbox.

    New are the entries that the work tree has, and the commit where its branch started has not.
    Entries on the default branch do not move: there they belong into their files.

    Args:
        workspace: the repository and its configuration.
        base: the revision where the branch started, None for the default branch.
    """
    repo = workspace.repo
    base_ref = base or find_default_branch(repo)
    local_base_ref = base_ref.replace(REMOTE_BRANCHES, HEADS)
    is_on_default_branch = head_branch(repo) in (base_ref, local_base_ref)
    if base is None and is_on_default_branch:
        return
    start = find_merge_base(repo, resolve_commit(repo, "HEAD"), resolve_commit(repo, base_ref))
    if start is None:
        message = f"HEAD and {base_ref} have no commit in common"
        hint = (
            "Name the branch that this one started from with --base; "
            "a shallow clone may not hold the commit."
        )
        raise UsageError(message, slug="no-base", hint=hint)

    base_snapshot = workspace.at(start)
    new_ids = _list_unique_ids(workspace) - base_snapshot.entries_by_id.keys()
    files = list_memory_files(workspace, None)
    base_texts = base_snapshot.read(file.path for file in files)
    for content in read_files(repo, files, MAX_FILE_BYTES):
        path = content.file.path
        scope = _find_scope_of_main_file(path, workspace.config.scopes)
        if content.data is None or scope is None:
            continue
        move = _plan_move_from_file(path, content.data, scope.target, new_ids, base_texts.get(path))
        if move is not None:
            yield move


def _list_unique_ids(workspace: Workspace) -> set[str]:
    """Return the ids that exactly one entry of the work tree has."""
    counts = Counter(located.entry.id for located in load_memory(workspace, None).located)
    return {entry_id for entry_id, count in counts.items() if count == 1}


def _find_scope_of_main_file(path: str, patterns: ScopePatterns) -> ScopeOf | None:
    """Return the scope (where entries apply: a project, a team) whose main file a path is.

    New entries are written to the main file of their scope, such as MEMORY.md.

    Returns:
        The scope; None for a file of the inbox, and for other files of a scope.
    """
    scope = classify_scope(path, patterns)
    if scope is None or is_fragment(path) or scope_path(scope, patterns) != path:
        return None
    return scope


def _plan_move_from_file(
    path: str, data: bytes, target: str, new_ids: Set[str], base_text: bytes | None
) -> _MoveFromFile | None:
    """Plan the move of the new entries of a file into files of the inbox, one for each.

    The file becomes what it was at the start of the branch, byte for byte, if it then has nothing
    new. It is removed if it did not exist then and nothing remains.

    Args:
        path: the file.
        data: its text.
        target: the scope that the moved entries get as a field.
        new_ids: the ids of new entries.
        base_text: its text at the commit where the branch started, None for no file.

    Returns:
        The move, None if the file has no new entry.
    """
    file = parse_memory_file(path, data)
    inbox_texts: dict[MovedEntry, bytes] = {}
    new_entries: list[Entry] = []
    for segment in file.segments:
        entry = segment.entry
        if entry is None or entry.id not in new_ids:
            continue
        new_entries.append(entry)
        moved_entry = MovedEntry(entry.id, entry.title, path, fragment_path(entry.id))
        scoped_entry = replace(entry, scope=target)
        inbox_texts[moved_entry] = _render_inbox_file(path, segment, scoped_entry)
    if not new_entries:
        return None

    remaining_file = edit_file(file, removed=new_entries)
    if base_text is not None:
        base_file = parse_memory_file(path, base_text)
        has_nothing_new = _strip_segments(remaining_file) == _strip_segments(base_file)
        if has_nothing_new:  # Blank lines may differ.
            return _MoveFromFile(path, inbox_texts, base_text)

    remaining_text = render_memory_file(remaining_file)
    if file.segments[-1].entry is new_entries[-1]:
        # The end of the file was removed, and blank lines before it would be left.
        remaining_text = remaining_text.rstrip()
        if remaining_text:
            remaining_text += file.newline.encode()
    if base_text is None and not remaining_text:
        return _MoveFromFile(path, inbox_texts, None)
    return _MoveFromFile(path, inbox_texts, remaining_text)


def _render_inbox_file(path: str, segment: Segment, entry: Entry) -> bytes:
    """Return the text of an inbox file with one entry.

    The text is that of the entry in the file from which it moves, except for fields that changed.

    Args:
        path: the file from which the entry moves.
        segment: the text of the entry in this file.
        entry: the entry with its new fields, such as the scope, which was that of the file.
    """
    edited = edit_file(MemoryFile(path, (segment,), ()), updated=[entry])
    text = edited.segments[0].raw.replace("\r\n", "\n").rstrip() + "\n"
    return text.encode()


def _strip_segments(file: MemoryFile) -> list[str]:
    """Return the texts of the entries and other parts of a file, without blank lines at ends."""
    return [segment.raw.rstrip() for segment in file.segments]
