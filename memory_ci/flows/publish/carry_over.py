"""Carrying over: what maintainers decided on the memory branch, made true on a newer base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.flows.forgotten import REJECTED_FILE
from memory_ci.flows.lookup import list_past_ids
from memory_ci.flows.record.maintainer_decisions import (
    Edit,
    MaintainerDecisions,
    changes_prose,
    line_of,
    list_rejected,
    prose_of,
)
from memory_ci.flows.workspace import Workspace, holds_entries
from memory_ci.gitrepo.history import find_addition
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import apply_changes, edit_file
from memory_ci.store.layout import is_fragment

HEADING = "# Learnings and episodes that a maintainer took out of the memory pull request: not proposed again.\n"
COUNTERS = frozenset({"reinforcement_count", "last_reinforced"})
"""What a run counts on: no word of maintainers is lost where these differ."""


class Carried(NamedTuple):
    """The files that make the verdicts true (None: it goes away); the entries and the paths of what people wrote."""

    files: Mapping[str, bytes | None] = {}
    entries: tuple[Entry, ...] = ()
    paths: tuple[str, ...] = ()


def carry_over(workspace: Workspace, base: str, verdicts: MaintainerDecisions) -> Carried:
    """What of the verdicts is not so on `base` yet; what is decided there otherwise is left as it is."""
    changes = tuple(_list_changes(workspace, base, verdicts))
    paths = {change.path for change in changes} | {file.path for file in verdicts.touched}
    snapshot = workspace.at(base)
    content = snapshot.read({*paths, REJECTED_FILE})
    files = apply_changes(content, changes)
    current = content | {path: data or b"" for path, data in files.items()}
    touched = dict(_list_files(workspace, base, current, verdicts))
    files |= touched
    before, known = content.get(REJECTED_FILE, b""), list_rejected(snapshot)
    lines = before.splitlines(keepends=True) or ([HEADING.encode()] if verdicts.rejected else [])
    old = [line for line in lines if line.decode("utf-8", "replace").rstrip("\r\n") not in verdicts.released]
    new = [f"{line}\n".encode() for line in verdicts.rejected if line.split()[0] not in known]
    if (after := b"".join((*old, *new))) != before:
        files[REJECTED_FILE] = after
    written = {change.entry.id: change.entry for change in changes if change.kind in ("add", "update")}
    kept = (path for path, data in touched.items() if data is not None or holds_entries(workspace, path))
    return Carried(files, tuple(written.values()), tuple(kept))


def list_lost(workspace: Workspace, tip: str, verdicts: MaintainerDecisions) -> tuple[str, ...]:
    """The titles of edits by maintainers that are not at `tip` as they wrote them."""
    there = workspace.at(tip).places if verdicts.edits else {}

    def stands(edit: Edit, place: Located | None) -> bool:
        fields = ((name, now) for name, (_, now) in edit.fields.items() if name not in COUNTERS)
        return place is not None and all(getattr(place.entry, name) == now for name, now in fields)

    return tuple(edit.place.entry.title for edit in verdicts.edits if not stands(edit, there.get(edit.place.entry.id)))


def _list_changes(workspace: Workspace, base: str, verdicts: MaintainerDecisions) -> Iterator[Change]:
    """What maintainers wrote, put in; what they took out of what the base has, taken out there as well."""
    kept = workspace.at(base).places
    past = list_past_ids(workspace, base) if verdicts.edits else frozenset()
    for edit in verdicts.edits:
        known = kept.get(edit.place.entry.id)
        if known is not None:
            yield from _rewrite(edit, known)
        elif edit.place.entry.id not in past:
            entry = replace(edit.first, **{name: now for name, (_, now) in edit.fields.items()})
            yield Change(step="consolidate", kind="add", path=edit.place.path, entry=entry, why="")
    for entry in verdicts.taken_out:
        known = kept.get(entry.id)
        if known is not None and line_of(known.entry) == line_of(entry):
            yield _removal(known)


def _rewrite(edit: Edit, known: Located) -> Iterator[Change]:
    """An entry of the base as maintainers edited it: those fields alone, and none that the base changed otherwise."""
    fields = edit.fields.items()
    values = {name: now for name, (before, now) in fields if getattr(known.entry, name) in before}
    entry = replace(known.entry, **values)
    if edit.moved_from == known.path:
        yield _removal(known)
        yield Change(step="consolidate", kind="add", path=edit.place.path, entry=entry, why="")
    elif entry != known.entry:
        yield Change(step="consolidate", kind="update", path=known.path, entry=entry, why="")


def _removal(known: Located) -> Change:
    """An entry of the base taken out; a note of the inbox goes with its file."""
    path = known.path
    if is_fragment(path):
        return Change(step="consolidate", kind="drop", path=path, entry=known.entry, why="", moved_from=path)
    return Change(step="consolidate", kind="remove", path=path, entry=known.entry, why="")


def _list_files(
    workspace: Workspace, base: str, content: Mapping[str, bytes], verdicts: MaintainerDecisions
) -> Iterator[tuple[str, bytes | None]]:
    """(path, content) of what maintainers changed beside entries: episode files, and prose around the entries of
    `content`."""
    for file in verdicts.touched:
        known = content.get(file.path)
        if holds_entries(workspace, file.path):
            if changes_prose(file) and prose_of(known) != prose_of(file.new):
                theirs = parse_memory_file(file.path, file.new or b"")
                there = {entry.id: entry for entry in theirs.entries}
                wanted = {entry.id: entry for entry in parse_memory_file(file.path, known or b"").entries}
                edited = edit_file(
                    theirs,
                    added=[entry for key, entry in wanted.items() if key not in there],
                    updated=[entry for key, entry in wanted.items() if key in there and there[key] != entry],
                    removed=[entry for key, entry in there.items() if key not in wanted],
                )
                yield file.path, render_memory_file(edited)
        elif known != file.new and (known is not None or find_addition(workspace.repo, base, file.path) is None):
            yield file.path, file.new
