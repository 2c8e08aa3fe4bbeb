"""Finding entries by id: `list`, `show` and `log`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby

import msgspec

from memory_ci.errors import UsageError
from memory_ci.findings import render_finding
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.history import FileVersion, list_added_lines, list_mentioning, list_versions
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.prominence import prominence
from memory_ci.lifecycle.relations import find_ids
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace, load_memory
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.records.report import Finding
from memory_ci.store.document import load_file
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import memory_pathspecs


class EntryVersion(msgspec.Struct, frozen=True):
    """What one commit did to an entry: the files that hold it afterwards, and the fields that differ."""

    commit: Commit
    paths: tuple[str, ...]
    what: str


def find_entry(
    located: Sequence[Located], prefix: str, findings: Iterable[Finding] = ()
) -> Located:
    """The entry whose id starts with `prefix`, or which replaced one that does; of several places the first by path.
    `findings` say what of memory could not be read: the entry may stand there. Raises UsageError: unknown-entry, or
    ambiguous-entry when several entries fit."""
    found = find_ids((place.entry for place in located), prefix)
    if not found or not prefix:
        unread = "".join(
            f"\nWarning: {render_finding(finding, with_level=False)}" for finding in findings
        )
        hint = f"`memory-ci list` shows the ids; `--at REV` looks into an earlier state.{unread}"
        raise UsageError(
            f"no entry has an id that starts with {prefix!r}", slug="unknown-entry", hint=hint
        )
    if len(found) > 1:
        hint = "Write more of the id: " + ", ".join(sorted(found)[:5])
        raise UsageError(
            f"{len(found)} entries have an id that starts with {prefix!r}",
            slug="ambiguous-entry",
            hint=hint,
        )
    places = (place for place in located if place.entry.id in found)
    return min(places, key=lambda place: (place.path, place.line))


class ShownEntry(msgspec.Struct, frozen=True):
    """An entry, where it stands, its text in canonical form, and its prominence today."""

    located: Located
    text: str
    prominence: float


def show_entry(workspace: Workspace, prefix: str, view: str | None, today: date) -> ShownEntry:
    """The entry as the work tree has it, or as it was at a revision."""
    memory = load_memory(workspace, view)
    place = find_entry(memory.located, prefix, memory.findings)
    return ShownEntry(
        place,
        format_entry(place.entry),
        prominence(place.entry, today, workspace.config.prominence.decay),
    )


def list_ranked(
    workspace: Workspace, view: str | None, today: date, waiting: Sequence[Located] = ()
) -> tuple[list[tuple[float, Located]], tuple[Finding, ...]]:
    """The entries, of memory and of notes that wait for a commit, with their prominence, highest first, and what could
    not be read."""
    memory = load_memory(workspace, view)
    ranked = [
        (prominence(place.entry, today, workspace.config.prominence.decay), place)
        for place in (*memory.located, *waiting)
    ]
    return sorted(ranked, key=lambda pair: (-pair[0], pair[1].path, pair[1].line)), memory.findings


def list_entry_versions(workspace: Workspace, prefix: str) -> tuple[EntryVersion, ...]:
    """The history of one entry on the way to HEAD, newest first; it may be gone from the tree by now. Raises UsageError
    (unknown-entry) when no commit ever held it."""
    head = resolve_commit(workspace.repo, "HEAD")
    versions = tuple(list_versions(workspace.repo, head, memory_pathspecs(workspace.config.scopes)))
    found = tuple(_replay(reversed(versions), _read_versions(workspace, versions, prefix.lower())))
    if not found:
        hint = "`memory-ci list` shows the ids of what is kept now."
        raise UsageError(
            f"no commit has an entry with an id that starts with {prefix!r}",
            slug="unknown-entry",
            hint=hint,
        )
    return tuple(reversed(found))


def list_past_ids(workspace: Workspace, rev: str) -> frozenset[str]:
    """The ids of all entries that ever stood in memory: what a person took out does not come back."""
    lines = list_added_lines(workspace.repo, rev, memory_pathspecs(workspace.config.scopes), "id: ")
    return frozenset(line.removeprefix("id: ").strip("'\" ").lower() for line in lines)


def list_retired_ids(workspace: Workspace, rev: str, ids: Collection[str]) -> frozenset[str]:
    """Return those of `ids` whose entry is retired at a revision, or was when it was taken out of memory before."""
    found = {
        id_: place.entry.status for id_, place in workspace.at(rev).places.items() if id_ in ids
    }
    unknown = set(ids) - found.keys()
    specs = memory_pathspecs(workspace.config.scopes)
    commits = list_mentioning(workspace.repo, rev, sorted(unknown), specs) if unknown else []
    for commit in commits:
        before = workspace.at(f"{commit}^").places
        found |= {id_: before[id_].entry.status for id_ in unknown & before.keys()}
        unknown -= found.keys()
        if not unknown:
            break
    return frozenset(id_ for id_, status in found.items() if status == "retired")


def _read_versions(
    workspace: Workspace, versions: Sequence[FileVersion], prefix: str
) -> dict[tuple[str, str], Entry]:
    """The entry in each file version that holds it; only texts that name the id are parsed."""
    files = {(v.path, v.oid): TreeFile(v.path, v.oid) for v in versions if v.oid is not None}
    entries: dict[tuple[str, str], Entry] = {}
    for content in read_files(workspace.repo, files.values(), MAX_FILE_BYTES):
        if content.data is None or prefix.encode() not in content.data.lower():
            continue
        for place in load_file(content.file.path, content.data, workspace.config.scopes).entries:
            if place.entry.id.startswith(prefix):
                entries[content.file.path, content.file.oid] = place.entry
    return entries


def _replay(
    versions: Iterable[FileVersion], entries: Mapping[tuple[str, str], Entry]
) -> Iterator[EntryVersion]:
    """What each commit changed in the entry: `versions` are of files, oldest first."""
    places: dict[str, Entry] = {}
    for commit, group in groupby(versions, lambda version: version.commit):
        before = dict(places)
        for version in group:
            entry = entries.get((version.path, version.oid or ""))
            if entry is None:
                places.pop(version.path, None)
            else:
                places[version.path] = entry
        if places != before:
            yield EntryVersion(commit, tuple(sorted(places)), _describe(before, places))


def _describe(before: dict[str, Entry], after: dict[str, Entry]) -> str:
    if not before:
        return "added"
    if not after:
        return "removed"
    old, new = next(iter(before.values())), next(iter(after.values()))
    moved = [f"moved from {', '.join(sorted(before))}"] if before.keys() != after.keys() else []
    fields = [
        name
        for name in Entry.__struct_fields__
        if getattr(old, name) != getattr(new, name) and name != "scope"
    ]
    return ", ".join([*moved, *(f"{name} changed" for name in fields)]) or "rewritten"
