"""Fix: what was written by hand becomes entries, and those that a branch appended move to the inbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.flows.guard.fmt import select_files
from memory_ci.flows.guard.resolve import HEADS, find_base
from memory_ci.flows.lookup import list_past_ids
from memory_ci.flows.named_code import cite_files
from memory_ci.flows.workspace import MAX_FILE_BYTES, Workspace, list_memory_files, load_memory, work_tree
from memory_ci.gitrepo.blobs import read_files
from memory_ci.gitrepo.repo import find_commit, find_merge_base, head_branch, resolve_commit
from memory_ci.records.entry import ScopeOf
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.store.files import write_file
from memory_ci.store.layout import classify_scope, fragment_path, is_fragment, scope_path, serves_prose
from memory_ci.store.manual_notes import Adopted, adopt

ORIGIN = "refs/remotes/origin/"


class Moved(msgspec.Struct, frozen=True):
    """An entry that was in the file `source` and is in the inbox file `path` now."""

    entry_id: str
    title: str
    source: str
    path: str


def adopt_by_hand(workspace: Workspace, today: date, *, dry_run: bool = False) -> tuple[Adopted, ...]:
    """Give each heading of the work tree's memory files that is no entry a front matter, and each entry its fields.

    Raises RepositoryError (bare-repository, write-failed).
    """
    root = work_tree(workspace)
    patterns = workspace.config.scopes
    adopted: list[Adopted] = []
    past: frozenset[str] = frozenset()
    for content in read_files(workspace.repo, select_files(workspace, ()), MAX_FILE_BYTES):
        path, data = content.file.path, content.data or b""
        is_prose = serves_prose(path, patterns)
        text, done = adopt(path, data, today, serves_prose=is_prose)
        if done:  # seldom, and only then history is asked: a removed entry does not come back under its id
            past = past or _list_ids(workspace)
            text, done = adopt(path, data, today, serves_prose=is_prose, past=past)
        adopted += done
        if done and not dry_run:
            write_file(root / path, cite_files(workspace, {path: text}).get(path, text), root)
    return tuple(adopted)


def _list_ids(workspace: Workspace) -> frozenset[str]:
    """The ids of entries in the work tree, and of all that HEAD's history ever had."""
    past = list_past_ids(workspace, "HEAD") if find_commit(workspace.repo, "HEAD") else frozenset()
    return past.union(place.entry.id for place in load_memory(workspace, None).located)


def move_to_inbox(workspace: Workspace, base: str | None = None, *, dry_run: bool = False) -> tuple[Moved, ...]:
    """Move what the work tree's scope files have and the commit where the branch started has not.

    On the default branch itself nothing moves, unless `base` is named: there, entries belong into their files.
    Raises RepositoryError: bare-repository, unknown-revision, write-failed; UsageError (no-base);
    UnreadableMemoryError (unsafe-rewrite).
    """
    root = work_tree(workspace)
    start = _find_start(workspace, base)
    moved: list[Moved] = []
    for fragments, path, rest in _plan(workspace, start) if start else ():
        moved += fragments
        if dry_run:
            continue
        for fragment, text in fragments.items():
            write_file(root / fragment.path, text, root)
        if rest is None:
            (root / path).unlink()
        else:
            write_file(root / path, rest, root)
    return tuple(moved)


def _find_start(workspace: Workspace, base: str | None) -> str | None:
    """The commit where the branch parted from its base; None on the default branch. Raises UsageError (no-base)."""
    repo, branch = workspace.repo, head_branch(workspace.repo)
    ref = base or find_base(repo)
    if base is None and branch in (ref, ref.replace(ORIGIN, HEADS)):
        return None
    start = find_merge_base(repo, resolve_commit(repo, "HEAD"), resolve_commit(repo, ref))
    if start is None:
        hint = "Name the branch that this one started from with --base; a shallow clone may not hold the commit."
        raise UsageError(f"HEAD and {ref} have no commit in common", slug="no-base", hint=hint)
    return start


def _plan(workspace: Workspace, start: str) -> Iterator[tuple[dict[Moved, bytes], str, bytes | None]]:
    """For each file with entries to move: their fragments, its path, and what is left of it (None: nothing)."""
    patterns = workspace.config.scopes
    fork = workspace.at(start)
    now = Counter(place.entry.id for place in load_memory(workspace, None).located)
    new = {entry_id for entry_id, count in now.items() if count == 1} - fork.places.keys()
    files = list_memory_files(workspace, None)
    before = fork.read(file.path for file in files)
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = content.file.path
        scope = classify_scope(path, patterns)
        if content.data is None or is_fragment(path) or scope is None or scope_path(scope, patterns) != path:
            continue
        file = parse_memory_file(path, content.data)
        segments = [s for s in file.segments if s.entry is not None and s.entry.id in new]
        if segments:
            yield dict(_fragments(segments, path, scope)), path, _without(file, segments, before.get(path))


def _fragments(segments: list[Segment], path: str, scope: ScopeOf) -> Iterator[tuple[Moved, bytes]]:
    for segment in segments:
        entry = segment.entry
        if entry is not None:
            scoped = replace(entry, scope=scope.target)
            text = edit_file(MemoryFile(path, (segment,), ()), updated=[scoped]).segments[0].raw
            plain = text.replace("\r\n", "\n").rstrip() + "\n"
            yield Moved(entry.id, entry.title, path, fragment_path(entry.id)), plain.encode()


def _without(file: MemoryFile, moved: list[Segment], before: bytes | None) -> bytes | None:
    """What is left of a file: byte for byte what it was before, if only blank lines differ from that."""
    rest = edit_file(file, removed=[segment.entry for segment in moved if segment.entry is not None])
    data = render_memory_file(rest)
    if file.segments[-1] in moved:
        data = data.rstrip() + file.newline.encode() if data.strip() else b""
    if before is None:
        return data or None
    old = parse_memory_file(file.path, before)
    same = [s.raw.rstrip() for s in rest.segments] == [s.raw.rstrip() for s in old.segments]
    return before if same else data
