"""Importing: what another memory holds becomes entries with an id once and for all. Nothing is taken on a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from operator import attrgetter
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from memory_ci.commands.import_.legacy import (
    INDEX,
    LegacyFile,
    LegacyLearning,
    find_memories,
    find_sections,
    mentioned_files,
    not_understood,
)
from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.fold import plan_fold
from memory_ci.memory.forgotten import find_forgotten, tombstones_here
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_credentials, find_unsafe
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    load_memory,
    repository_path,
    select_files,
    work_tree,
)
from memory_ci.records.entry import PROJECT, Located
from memory_ci.records.report import Finding
from memory_ci.secrets import mask_secrets
from memory_ci.store.document import find_long, parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file, format_entry
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, classify_scope, fragment_path, parse_target
from memory_ci.store.manual_notes import demote_headings

Source = Literal["teaparty", "claude-code", "legacy"]

# Which files of a directory are looked at; a file that is named itself always is.
NAMES: Mapping[Source, tuple[str, ...]] = {
    "teaparty": ("MEMORY.md", "institutional.md", "proxy.md", "tasks/*.md", "proxy-tasks/*.md"),
    "claude-code": ("*.md",),
    "legacy": ("MEMORY.md", "institutional.md"),
}


class ImportOptions(msgspec.Struct, frozen=True):
    """`scope` is a target as in Entry.scope; None: that of the memory file read, else the project's."""

    source: Source
    scope: str | None = None
    replace: bool = False
    dry_run: bool = False


class Taken(msgspec.Struct, frozen=True):
    """A learning that was understood: where it stands, and its entry. `target` is the file the entry is in."""

    path: str
    line: int
    id: str
    title: str
    target: str


class ImportReport(msgspec.Struct, frozen=True):
    """What became of everything that was read."""

    imported: tuple[Taken, ...]
    known: tuple[Taken, ...]
    refused: tuple[Finding, ...]
    not_understood: tuple[Finding, ...]


class _Item(msgspec.Struct, frozen=True):
    """A learning on its way: the file it was read from, and its entry as it would be written to `target`."""

    file: Path
    learning: LegacyLearning
    place: Located
    target: str


def import_memory(
    workspace: Workspace, paths: Sequence[Path], options: ImportOptions, today: date
) -> ImportReport:
    """Read files and directories, and write what is new to the inbox; with `replace`, into the files themselves.

    Raises UsageError (bad-scope; with `replace` not-a-memory-file), UnreadableMemoryError (unsafe-rewrite),
    RepositoryError (bare-repository, write-failed).
    """
    root = work_tree(workspace)
    files = list_sources(paths, options.source)
    if options.replace:
        select_files(workspace, files)
    read = [(file, read_source(file, options.source, today)) for file in files]
    items = [
        _prepare(workspace, options, file, learning)
        for file, found in read
        for learning in found.learnings
    ]
    forgotten = tombstones_here(workspace)
    judged = [(item, next(_objections(item, forgotten), None)) for item in items]
    new, known = _sort(workspace, root, [item for item, objection in judged if objection is None])
    if not options.dry_run:
        cited = cite_named(workspace, [item.place.entry for item in new], "HEAD")
        places = [replace(item.place, entry=entry) for item, entry in zip(new, cited, strict=True)]
        written = [replace(item, place=place) for item, place in zip(new, places, strict=True)]
        for path, text in _render(written, options.replace).items():
            write_file(root / path, text, root)
    left = [finding for _, found in read for finding in found.findings]
    return ImportReport(
        imported=tuple(map(_taken, new)),
        known=known,
        refused=(
            *(objection for _, objection in judged if objection),
            *(finding for finding in left if finding.code != "not-understood"),
        ),
        not_understood=tuple(finding for finding in left if finding.code == "not-understood"),
    )


def list_sources(paths: Iterable[Path], source: Source) -> tuple[Path, ...]:
    """The files to read: those named, and of a directory those that its kind of memory consists of. No links in it."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = sorted(path.rglob("*.md")) if path.is_dir() else [path]
        for file in inside:
            is_asked = file == path or any(file.match(name) for name in NAMES[source])
            if is_asked and (file == path or not file.is_symlink()) and ".git" not in file.parts:
                found[file] = None
    return tuple(found)


def read_source(file: Path, source: Source, today: date) -> LegacyFile:
    """What one file of another memory holds. Never raises: a file that cannot be read is a finding."""
    path = mask_secrets(str(file))
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return LegacyFile(
                findings=(not_understood(path, 1, f"is over the limit of {MAX_FILE_BYTES} bytes"),)
            )
        data = file.read_bytes()
    except OSError as error:
        return LegacyFile(findings=(not_understood(path, 1, f"cannot be read: {error.strerror}"),))
    if source != "claude-code":
        return find_sections(path, data, source)
    named: frozenset[str] = frozenset()
    with suppress(OSError):
        named = mentioned_files((file.parent / INDEX).read_text("utf-8", "replace"))
    return find_memories(path, data, today, is_listed=file.name in {INDEX, *named})


def _prepare(
    workspace: Workspace, options: ImportOptions, file: Path, learning: LegacyLearning
) -> _Item:
    path = repository_path(workspace, file)
    own = classify_scope(path, workspace.config.scopes)
    scope = parse_target(options.scope) if options.scope else own or PROJECT
    if options.replace and scope != own:
        hint = "Leave --scope out: what is replaced in a file has the scope of that file."
        raise UsageError(
            f"{path} is not of the scope {options.scope!r}", slug="bad-scope", hint=hint
        )
    target = path if options.replace else fragment_path(learning.entry.id)
    body = demote_headings(learning.entry.body)
    entry = replace(learning.entry, body=body, scope=None if options.replace else scope.target)
    return _Item(
        file, learning, Located(entry, mask_secrets(str(file)), learning.line, scope), target
    )


def _objections(item: _Item, forgotten: Tombstones) -> Iterator[Finding]:
    """Why a learning must not be written, beginning with the worst. No message repeats its text."""
    place = item.place
    yield from find_long(place)
    yield from find_unsafe(place)
    yield from find_forgotten(forgotten, place)
    try:
        text = format_entry(place.entry)
    except UsageError as error:
        message = "would not read back as it is written"
        yield Finding(place.path, place.line, "entry-not-writable", message, error.hint)
        return
    for finding in find_credentials("", text.encode()):  # the keys that are not ours, too
        yield replace(finding, path=place.path, line=place.line)


def _sort(
    workspace: Workspace, root: Path, items: Sequence[_Item]
) -> tuple[list[_Item], tuple[Taken, ...]]:
    """What is new; and what memory has, had once, or is given by an earlier item of this run."""
    located = load_memory(workspace, None).located
    # Ids that were given before: merged into another entry, waiting in the inbox unread, or removed by a person.
    merged = {old for place in located for old in place.entry.supersedes}
    unread = {file.stem for file in (root / INBOX).glob("*.md")}
    removed = (
        list_past_ids(workspace, "HEAD") if find_commit(workspace.repo, "HEAD") else frozenset()
    )
    gone = (merged | unread | removed) - {place.entry.id for place in located}
    past = [item for item in items if item.place.entry.id in gone]
    waiting = {
        str(number): item for number, item in enumerate(items) if item.place.entry.id not in gone
    }
    fragments = [
        Located(item.place.entry, key, 0, item.place.scope) for key, item in waiting.items()
    ]
    changes, _ = plan_fold(fragments, located, {key: item.target for key, item in waiting.items()})
    places = {change.moved_from: change for change in changes}
    paths = {place.entry.id: place.path for place in located} | {
        one.entry.id: one.path for one in changes
    }
    known = [_taken(item, target="") for item in past]
    for key, item in waiting.items():
        if key not in places:  # an entry of other words has its id
            known.append(_taken(item, paths[item.place.entry.id]))
        elif places[key].kind == "drop":
            known.append(_taken(item, places[key].path, places[key].entry.id))
    return [
        item for key, item in waiting.items() if key in places and places[key].kind == "move"
    ], tuple(known)


def _taken(item: _Item, target: str | None = None, entry_id: str | None = None) -> Taken:
    place = item.place
    return Taken(
        path=place.path,
        line=place.line,
        id=entry_id or place.entry.id,
        title=place.entry.title,
        target=item.target if target is None else target,
    )


def _render(items: Sequence[_Item], is_replacing: bool) -> dict[str, bytes]:
    """The files to write: each entry one of the inbox; or a file without the texts that became entries, with those.
    Raises UnreadableMemoryError."""
    if not is_replacing:
        return {item.target: format_entry(item.place.entry).encode() for item in items}
    texts = {}
    for path in dict.fromkeys(item.target for item in items):
        group = [item for item in items if item.target == path]
        data = group[0].file.read_bytes()
        taken = {
            number for item in group for number in range(item.learning.line, item.learning.last + 1)
        }
        rest = [
            line for number, line in enumerate(data.split(b"\n"), start=1) if number not in taken
        ]
        before, cut = parse_memory_file(path, data), parse_memory_file(path, b"\n".join(rest))
        added = [item.place.entry for item in group]
        edited = edit_file(cut, added=added)
        by_id = attrgetter("id")
        if sorted(edited.entries, key=by_id) != sorted((*before.entries, *added), key=by_id):
            message = f"{path} would not read back with its entries"
            hint = "Import to the inbox instead: leave --replace out."
            raise UnreadableMemoryError(message, slug="unsafe-rewrite", hint=hint)
        texts[path] = render_memory_file(edited)
    return texts
