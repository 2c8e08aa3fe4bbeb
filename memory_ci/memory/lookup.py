"""Lookup of memory entries by the start of their id, and of their history in git."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from operator import attrgetter

import msgspec

from memory_ci.errors import UsageError
from memory_ci.findings import render_finding
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.history import (
    FileVersion,
    list_added_lines,
    list_commits_mentioning,
    list_versions,
)
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.prominence import prominence
from memory_ci.lifecycle.relations import find_ids
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace, load_memory
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.records.report import Finding
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import memory_pathspecs
from memory_ci.store.memory_files import load_file


class EntryVersion(msgspec.Struct, frozen=True):
    """The change that one commit made to an entry.

    Attributes:
        commit: the commit.
        paths: the files that have the entry afterwards.
        what: the change in words, such as the fields that differ.
    """

    commit: Commit
    paths: tuple[str, ...]
    what: str


class ShownEntry(msgspec.Struct, frozen=True):
    """An entry with its place, its canonical text, and its prominence today."""

    located: Located
    text: str
    prominence: float


def find_entry(
    located: Sequence[Located], prefix: str, findings: Iterable[Finding] = ()
) -> Located:
    """Return the entry whose id, or the id of an entry that it replaced, starts with a prefix.

    Of several places of the entry it is the first by path.

    Args:
        located: the entries to search.
        prefix: the first characters of an id.
        findings: findings on unreadable memory, for the error: the entry may be there.

    Raises:
        UsageError: unknown-entry; ambiguous-entry, if several entries match.
    """
    ids = find_ids((located_entry.entry for located_entry in located), prefix)
    if not ids or not prefix:
        hint = "`memory-ci list` shows the ids; `--at REV` looks into an earlier state."
        for finding in findings:
            hint += f"\nWarning: {render_finding(finding, with_level=False)}"
        raise UsageError(
            f"no entry has an id that starts with {prefix!r}", slug="unknown-entry", hint=hint
        )
    if len(ids) > 1:
        raise UsageError(
            f"{len(ids)} entries have an id that starts with {prefix!r}",
            slug="ambiguous-entry",
            hint="Write more of the id: " + ", ".join(sorted(ids)[:5]),
        )
    located_entries = [located_entry for located_entry in located if located_entry.entry.id in ids]
    return min(located_entries, key=lambda located_entry: (located_entry.path, located_entry.line))


def show_entry(workspace: Workspace, prefix: str, view: str | None, today: date) -> ShownEntry:
    """Return an entry with its canonical text and its prominence.

    Args:
        workspace: the repository.
        prefix: the first characters of its id.
        view: the revision that has the entry; None for the work tree.
        today: the day of the prominence.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    memory = load_memory(workspace, view)
    located_entry = find_entry(memory.located, prefix, memory.findings)
    return ShownEntry(
        located_entry, format_entry(located_entry.entry), prominence(located_entry.entry, today)
    )


def list_entry_versions(workspace: Workspace, prefix: str) -> tuple[EntryVersion, ...]:
    """Return the changes that commits up to HEAD made to an entry, newest first.

    The entry may be gone from the tree.

    Args:
        workspace: the repository.
        prefix: the first characters of its id.

    Raises:
        UsageError: unknown-entry, if no commit ever had it.
    """
    head = resolve_commit(workspace.repo, "HEAD")
    pathspecs = memory_pathspecs(workspace.config.scopes)
    file_versions = list(list_versions(workspace.repo, head, pathspecs))
    entries = _read_versions(workspace, file_versions, prefix.lower())
    versions = list(_list_entry_versions(reversed(file_versions), entries))
    if not versions:
        raise UsageError(
            f"no commit has an entry with an id that starts with {prefix!r}",
            slug="unknown-entry",
            hint="`memory-ci list` shows the ids of what is kept now.",
        )
    return tuple(reversed(versions))


def list_past_ids(workspace: Workspace, rev: str, since: date | None = None) -> frozenset[str]:
    """Return the ids of all entries that were ever in memory.

    They are needed because an entry that a person removed must not be added again.

    Args:
        workspace: the repository.
        rev: the revision whose history is read.
        since: only ids that were written since this day are needed; None for all.
    """
    pathspecs = memory_pathspecs(workspace.config.scopes)
    lines = list_added_lines(workspace.repo, rev, pathspecs, "id: ", since)
    return frozenset(line.removeprefix("id: ").strip("'\" ").lower() for line in lines)


def list_retired_ids(workspace: Workspace, rev: str, ids: Collection[str]) -> frozenset[str]:
    """Return those of `ids` whose entry is retired at a revision, or was when it was removed."""
    status_by_id = {}
    for entry_id, located_entry in workspace.at(rev).entries_by_id.items():
        if entry_id in ids:
            status_by_id[entry_id] = located_entry.entry.status

    missing_ids = set(ids) - status_by_id.keys()
    if missing_ids:
        pathspecs = memory_pathspecs(workspace.config.scopes)
        for commit in list_commits_mentioning(workspace.repo, rev, sorted(missing_ids), pathspecs):
            before = workspace.at(f"{commit}^").entries_by_id
            for entry_id in missing_ids & before.keys():
                status_by_id[entry_id] = before[entry_id].entry.status
            missing_ids -= status_by_id.keys()
            if not missing_ids:
                break
    return frozenset(entry_id for entry_id, status in status_by_id.items() if status == "retired")


FileKey = tuple[str, str]  # The path and the object id of one version of a file.


def _read_versions(
    workspace: Workspace, versions: Sequence[FileVersion], prefix: str
) -> dict[FileKey, Entry]:
    """Return what an entry is in each version of a memory file that has it.

    Only texts with the id are parsed.

    Args:
        workspace: the repository.
        versions: the versions of all memory files.
        prefix: the first characters of the id of the entry.

    Returns:
        The entry by path and object id of the file.
    """
    files = {}
    for version in versions:
        if version.oid is not None:
            files[version.path, version.oid] = TreeFile(version.path, version.oid)

    entries: dict[FileKey, Entry] = {}
    for content in read_files(workspace.repo, files.values(), MAX_FILE_BYTES):
        if content.data is None or prefix.encode() not in content.data.lower():
            continue
        for located_entry in load_file(
            content.file.path, content.data, workspace.config.scopes
        ).entries:
            if located_entry.entry.id.startswith(prefix):
                entries[content.file.path, content.file.oid] = located_entry.entry
    return entries


def _list_entry_versions(
    versions: Iterable[FileVersion], entry_by_version: Mapping[FileKey, Entry]
) -> Iterator[EntryVersion]:
    """Yield the change that each commit made to one entry, oldest first.

    Args:
        versions: the versions of all memory files, oldest first.
        entry_by_version: the entry in each of these versions that has it, by path and object id of
            the file.
    """
    entry_by_path: dict[str, Entry] = {}  # the files with the entry, after the commits so far
    for commit, commit_versions in groupby(versions, attrgetter("commit")):
        old_entry_by_path = dict(entry_by_path)
        for version in commit_versions:
            entry = entry_by_version.get((version.path, version.oid or ""))
            if entry is None:
                entry_by_path.pop(version.path, None)
            else:
                entry_by_path[version.path] = entry
        if entry_by_path != old_entry_by_path:
            paths = tuple(sorted(entry_by_path))
            change = _describe_change(old_entry_by_path, entry_by_path)
            yield EntryVersion(commit, paths, change)


def _describe_change(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> str:
    """Describe the change of an entry by a commit: `added`, or `title changed, body changed`.

    Args:
        before: the entry by the path of each file that had it.
        after: the entry by the path of each file that has it afterwards.
    """
    if not before:
        return "added"
    if not after:
        return "removed"

    changes = []
    if before.keys() != after.keys():
        changes.append(f"moved from {', '.join(sorted(before))}")
    old_entry = next(iter(before.values()))
    new_entry = next(iter(after.values()))
    for field in Entry.__struct_fields__:
        if field != "scope" and getattr(old_entry, field) != getattr(new_entry, field):
            changes.append(f"{field} changed")
    return ", ".join(changes) or "rewritten"
