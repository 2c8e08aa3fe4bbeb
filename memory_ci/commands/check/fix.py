"""Fix: what was written by hand becomes entries, and those that a branch appended move to the inbox.

And fmt: memory files of the work tree in their canonical form. All are computed before the first is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.commands.check.resolve import find_base
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
    read_memory,
    select_files,
    work_tree,
)
from memory_ci.records.names import HEADS
from memory_ci.records.report import Finding
from memory_ci.store.document import MemoryFile, parse_memory_file, render_memory_file
from memory_ci.store.edits import canonical_file, edit_file
from memory_ci.store.files import write_file
from memory_ci.store.layout import (
    classify_scope,
    fragment_path,
    is_fragment,
    scope_path,
    serves_prose,
)
from memory_ci.store.manual_notes import Adopted, adopt

ORIGIN = "refs/remotes/origin/"


class FmtReport(msgspec.Struct, frozen=True):
    """How many files were looked at, which are not canonical, and what in the files could not be read."""

    files: int
    changed: tuple[str, ...]
    findings: tuple[Finding, ...]


class Moved(msgspec.Struct, frozen=True):
    """An entry that was in the file `source` and is in the inbox file `path` now."""

    entry_id: str
    title: str
    source: str
    path: str


def format_memory(
    workspace: Workspace, paths: Sequence[Path] = (), *, dry_run: bool = False
) -> FmtReport:
    """Write the memory files of the work tree, or those of `paths`, in canonical form; with `dry_run` only say which.

    What is written is cited, too; an entry without cites is in canonical form all the same.

    Raises UsageError (not-a-memory-file), UnreadableMemoryError (unsafe-rewrite), RepositoryError (bare-repository,
    write-failed).
    """
    root = work_tree(workspace)
    files = select_files(workspace, paths)
    read: dict[str, bytes] = {}
    texts: dict[str, bytes] = {}
    findings: list[Finding] = []
    for file, (data, _, loaded) in zip(files, read_memory(workspace, files), strict=True):
        findings += (finding for finding in loaded.findings if finding.level == "error")
        formatted = canonical_file(loaded.path, data)
        read[file.path] = data
        if formatted != data:
            texts[file.path] = formatted
    if not dry_run:
        texts |= cite_files(workspace, read | texts)
        for path, text in texts.items():
            write_file(root / path, text, root)
    return FmtReport(len(files), tuple(texts), tuple(findings))


def adopt_by_hand(
    workspace: Workspace, today: date, *, dry_run: bool = False
) -> tuple[Adopted, ...]:
    """Give each heading of the work tree's memory files that is no entry a front matter, and each entry its fields.
    Raises RepositoryError (bare-repository, write-failed)."""
    root = work_tree(workspace)
    patterns = workspace.config.scopes
    adopted: list[Adopted] = []
    past: frozenset[str] = frozenset()
    for content in read_files(workspace.repo, select_files(workspace, ()), MAX_FILE_BYTES):
        path, data = content.file.path, content.data or b""
        is_prose = serves_prose(path, patterns)
        text, done = adopt(path, data, today, serves_prose=is_prose)
        if done:  # seldom, and only then history is asked: a removed entry does not come back under its id
            if not past:
                past = (
                    list_past_ids(workspace, "HEAD")
                    if find_commit(workspace.repo, "HEAD")
                    else frozenset()
                )
                past |= {place.entry.id for place in load_memory(workspace, None).located}
            text, done = adopt(path, data, today, serves_prose=is_prose, past=past)
        adopted += done
        if done and not dry_run:
            write_file(root / path, cite_files(workspace, {path: text}).get(path, text), root)
    return tuple(adopted)


def move_to_inbox(
    workspace: Workspace, base: str | None = None, *, dry_run: bool = False
) -> tuple[Moved, ...]:
    """Move what the work tree's scope files have and the commit where the branch started has not.

    On the default branch itself nothing moves, unless `base` is named: there, entries belong into their files.
    Raises RepositoryError: bare-repository, unknown-revision, write-failed; UsageError (no-base);
    UnreadableMemoryError (unsafe-rewrite).
    """
    root = work_tree(workspace)
    moved: list[Moved] = []
    for fragments, path, rest in _plan(workspace, base):
        moved += fragments
        for fragment, text in fragments.items() if not dry_run else ():
            write_file(root / fragment.path, text, root)
        if rest is not None and not dry_run:
            write_file(root / path, rest, root)
        elif not dry_run:
            (root / path).unlink()
    return tuple(moved)


def _plan(
    workspace: Workspace, base: str | None
) -> Iterator[tuple[dict[Moved, bytes], str, bytes | None]]:
    """For each file with entries to move: their fragments, its path, and what is left of it (None: nothing)."""
    repo, branch, ref = (
        workspace.repo,
        head_branch(workspace.repo),
        base or find_base(workspace.repo),
    )
    if base is None and branch in (ref, ref.replace(ORIGIN, HEADS)):
        return  # the default branch itself
    start = find_merge_base(repo, resolve_commit(repo, "HEAD"), resolve_commit(repo, ref))
    if start is None:
        hint = "Name the branch that this one started from with --base; a shallow clone may not hold the commit."
        raise UsageError(f"HEAD and {ref} have no commit in common", slug="no-base", hint=hint)
    patterns, fork = workspace.config.scopes, workspace.at(start)
    now = Counter(place.entry.id for place in load_memory(workspace, None).located)
    new = {entry_id for entry_id, count in now.items() if count == 1} - fork.places.keys()
    files = list_memory_files(workspace, None)
    before = fork.read(file.path for file in files)
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = content.file.path
        scope = classify_scope(path, patterns)
        if (
            content.data is None
            or is_fragment(path)
            or scope is None
            or scope_path(scope, patterns) != path
        ):
            continue
        file = parse_memory_file(path, content.data)
        moved = [(s, s.entry) for s in file.segments if s.entry is not None and s.entry.id in new]
        if not moved:
            continue
        fragments = {}
        for segment, entry in moved:
            scoped = replace(entry, scope=scope.target)
            text = edit_file(MemoryFile(path, (segment,), ()), updated=[scoped]).segments[0].raw
            told = Moved(entry.id, entry.title, path, fragment_path(entry.id))
            fragments[told] = (text.replace("\r\n", "\n").rstrip() + "\n").encode()
        rest = edit_file(file, removed=[entry for _, entry in moved])
        data = render_memory_file(rest)
        if file.segments[-1] is moved[-1][0]:
            data = data.rstrip() + file.newline.encode() if data.strip() else b""
        if (
            old := before.get(path)
        ) is not None:  # byte for byte what it was before, if only blank lines differ
            known = parse_memory_file(path, old).segments
            same = [s.raw.rstrip() for s in rest.segments] == [s.raw.rstrip() for s in known]
            yield fragments, path, old if same else data
        else:
            yield fragments, path, data or None
