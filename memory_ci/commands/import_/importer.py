"""`memory-ci import`: makes entries of learnings that another tool keeps in files for agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from operator import attrgetter
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.import_.legacy import (
    INDEX,
    LegacyFile,
    LegacyLearning,
    build_not_understood,
    find_memories,
    find_sections,
    list_mentioned_files,
)
from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.fold import plan_fold
from memory_ci.memory.forgotten import find_forgotten, tombstones_here
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_credentials, find_unsafe_entry
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
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file, format_entry
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, classify_scope, fragment_path, parse_target
from memory_ci.store.manual_notes import demote_headings
from memory_ci.store.memory_files import check_length

Source = Literal["teaparty", "claude-code", "legacy"]

NAMES: Mapping[Source, tuple[str, ...]] = {
    "teaparty": ("MEMORY.md", "institutional.md", "proxy.md", "tasks/*.md", "proxy-tasks/*.md"),
    "claude-code": ("*.md",),
    "legacy": ("MEMORY.md", "institutional.md"),
}
"""The files of a directory that are read. A file that the user names is always read."""


class ImportOptions(msgspec.Struct, frozen=True):
    """The options of an import.

    Attributes:
        source: the kind of memory.
        scope: the target scope, as in Entry.scope; None for that of the file, else the project.
        replace: put the entries into the files themselves.
        dry_run: write nothing.
    """

    source: Source
    scope: str | None = None
    replace: bool = False
    dry_run: bool = False


class Taken(msgspec.Struct, frozen=True):
    """A learning that was imported, or that memory had.

    Attributes:
        path: the file that holds it.
        line: its line there.
        id: the id of its entry.
        title: the title of its entry.
        target: the file that the entry is in, "" for none.
    """

    path: str
    line: int
    id: str
    title: str
    target: str


class ImportReport(msgspec.Struct, frozen=True):
    """The result of an import.

    Attributes:
        imported: the learnings that became new entries.
        known: those that memory has or had.
        refused: findings on those that must not be in memory.
        not_understood: findings on text of no known format.
    """

    imported: tuple[Taken, ...]
    known: tuple[Taken, ...]
    refused: tuple[Finding, ...]
    not_understood: tuple[Finding, ...]


class _Item(msgspec.Struct, frozen=True):
    """A learning to import.

    Attributes:
        file: the file that it was read from.
        learning: the learning.
        place: its entry as it would be written.
        target: the path to write to.
    """

    file: Path
    learning: LegacyLearning
    place: Located
    target: str


def import_memory(
    workspace: Workspace, paths: Sequence[Path], options: ImportOptions, today: date
) -> ImportReport:
    """Read the learnings of files and directories, and write those that are new as entries.

    Args:
        workspace: the repository and its configuration.
        paths: the files and directories.
        options: how to import.
        today: the day of learnings without a date.

    Raises:
        UsageError: bad-scope; if files are replaced, not-a-memory-file.
        UnreadableMemoryError: unsafe-rewrite.
        RepositoryError: bare-repository, write-failed.
    """
    root = work_tree(workspace)
    files = list_sources(paths, options.source)
    if options.replace:
        select_files(workspace, files)

    items: list[_Item] = []
    refused: list[Finding] = []
    not_understood: list[Finding] = []
    for file in progress.count("Reading files", files):
        legacy_file = read_source(file, options.source, today)
        for learning in legacy_file.learnings:
            items.append(_prepare(workspace, options, file, learning))
        for finding in legacy_file.findings:
            if finding.code == "not-understood":
                not_understood.append(finding)
            else:
                refused.append(finding)

    allowed, objections = _split_allowed(items, tombstones_here(workspace))
    new, known = _split_new(workspace, root, allowed)
    if not options.dry_run:
        _write(workspace, root, new, options.replace)
    return ImportReport(
        imported=tuple(_to_taken(item, item.target) for item in new),
        known=tuple(known),
        refused=(*objections, *refused),
        not_understood=tuple(not_understood),
    )


def list_sources(paths: Iterable[Path], source: Source) -> tuple[Path, ...]:
    """Return the files that an import reads, each once.

    Args:
        paths: files and directories. A file is always read; in a directory, only the files that a
            memory of this kind has are read. Symbolic links in a directory are left out.
        source: the kind of memory.
    """
    sources: list[Path] = []
    for path in paths:
        if path.is_dir():
            sources += _list_memory_files(path, source)
        else:
            sources.append(path)
    return tuple(dict.fromkeys(file for file in sources if ".git" not in file.parts))


def _list_memory_files(directory: Path, source: Source) -> Iterator[Path]:
    """Yield the files of a directory that a memory of a kind has, sorted by path."""
    for file in sorted(directory.rglob("*.md")):
        is_named_so = any(file.match(pattern) for pattern in NAMES[source])
        if is_named_so and not file.is_symlink():
            yield file


def read_source(file: Path, source: Source, today: date) -> LegacyFile:
    """Return the learnings of a file, and findings on the rest of its text.

    It never raises: an unreadable file is a finding.

    Args:
        file: the file.
        source: the kind of memory.
        today: the day of learnings without a date.
    """
    path = mask_secrets(str(file))
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return _unreadable(path, f"is over the limit of {MAX_FILE_BYTES} bytes")
        data = file.read_bytes()
    except OSError as error:
        return _unreadable(path, f"cannot be read: {error.strerror}")
    if source != "claude-code":
        return find_sections(path, data, source)
    listed: frozenset[str] = frozenset()
    with suppress(OSError):
        listed = list_mentioned_files((file.parent / INDEX).read_text("utf-8", "replace"))
    return find_memories(path, data, today, is_listed=file.name in {INDEX, *listed})


def _unreadable(path: str, message: str) -> LegacyFile:
    return LegacyFile(findings=(build_not_understood(path, 1, message),))


def _prepare(
    workspace: Workspace, options: ImportOptions, file: Path, learning: LegacyLearning
) -> _Item:
    """Choose the scope and the file of a learning's entry.

    Args:
        workspace: the repository and its configuration.
        options: the options of the import.
        file: the file that the learning was read from.
        learning: the learning.

    Raises:
        UsageError: bad-scope.
    """
    path = repository_path(workspace, file)
    file_scope = classify_scope(path, workspace.config.scopes)
    if options.scope:
        scope = parse_target(options.scope)
    else:
        scope = file_scope or PROJECT
    if options.replace and scope != file_scope:
        message = f"{path} is not of the scope {options.scope!r}"
        hint = "Leave --scope out: what is replaced in a file has the scope of that file."
        raise UsageError(message, slug="bad-scope", hint=hint)
    entry = replace(
        learning.entry,
        body=demote_headings(learning.entry.body),
        scope=None if options.replace else scope.target,
    )
    place = Located(entry, mask_secrets(str(file)), learning.line, scope)
    target = path if options.replace else fragment_path(entry.id)
    return _Item(file, learning, place, target)


def _split_allowed(
    items: Sequence[_Item], forgotten: Tombstones
) -> tuple[list[_Item], list[Finding]]:
    """Return the learnings that may be written, and a finding on each of the others.

    Args:
        items: the learnings.
        forgotten: hashes of texts that somebody had memory-ci forget.
    """
    allowed: list[_Item] = []
    objections: list[Finding] = []
    for item in progress.count("Checking learnings", items):
        objection = next(_find_objections(item, forgotten), None)
        if objection is None:
            allowed.append(item)
        else:
            objections.append(objection)
    return allowed, objections


def _find_objections(item: _Item, forgotten: Tombstones) -> Iterator[Finding]:
    """Yield the reasons why a learning must not be written, the worst first.

    The messages do not repeat its text.
    """
    place = item.place
    yield from check_length(place)
    yield from find_unsafe_entry(place)
    yield from find_forgotten(forgotten, place)
    try:
        text = format_entry(place.entry)
    except UsageError as error:
        message = "would not read back as it is written"
        yield Finding(place.path, place.line, "entry-not-writable", message, error.hint)
        return
    for finding in find_credentials("", text.encode()):  # searches keys that are not ours, too
        yield replace(finding, path=place.path, line=place.line)


def _split_new(
    workspace: Workspace, root: Path, items: Sequence[_Item]
) -> tuple[list[_Item], list[Taken]]:
    """Return the learnings that are new, and those that are known.

    A learning is known if memory has or had its entry, or if an earlier one says the same.

    Args:
        workspace: the repository and its configuration.
        root: the top of its work tree.
        items: the learnings.
    """
    located = load_memory(workspace, None).located
    past_ids = _list_past_ids(workspace, root, located)
    known: list[Taken] = []
    candidates: dict[str, _Item] = {}
    for number, item in enumerate(items):
        if item.place.entry.id in past_ids:
            known.append(_to_taken(item, ""))
        else:
            candidates[str(number)] = item

    # A fold of the inbox compares new entries with all others. The numbers serve as paths.
    fragments = []
    targets: dict[str, str] = {}
    for key, item in candidates.items():
        fragments.append(Located(item.place.entry, key, 0, item.place.scope))
        targets[key] = item.target
    changes, _ = plan_fold(fragments, located, targets)
    change_by_key = {change.moved_from: change for change in changes}
    path_by_id = {place.entry.id: place.path for place in located}
    path_by_id |= {change.entry.id: change.path for change in changes}

    new: list[_Item] = []
    for key, item in candidates.items():
        change = change_by_key.get(key)
        if change is None:  # an entry with other words has its id
            known.append(_to_taken(item, path_by_id[item.place.entry.id]))
        elif change.kind == "drop":  # an entry says the same
            known.append(_to_taken(item, change.path, change.entry.id))
        elif change.kind == "move":
            new.append(item)
    return new, known


def _list_past_ids(workspace: Workspace, root: Path, located: Iterable[Located]) -> frozenset[str]:
    """Return the ids of entries that were removed, superseded, or that cannot be read.

    Args:
        workspace: the repository.
        root: the top of its work tree.
        located: the entries of the work tree.
    """
    present_ids: set[str] = set()
    superseded_ids: set[str] = set()
    for place in located:
        present_ids.add(place.entry.id)
        superseded_ids.update(place.entry.supersedes)
    # The name of an inbox file is the id of its entry; those that can be read are present.
    inbox_ids = {file.stem for file in (root / INBOX).glob("*.md")}
    committed_ids: frozenset[str] = frozenset()
    if find_commit(workspace.repo, "HEAD"):
        committed_ids = list_past_ids(workspace, "HEAD")
    return (committed_ids | superseded_ids | inbox_ids) - present_ids


def _to_taken(item: _Item, target: str, entry_id: str | None = None) -> Taken:
    """Return an item for the report; `entry_id` is that of an entry that says the same."""
    place = item.place
    return Taken(
        path=place.path,
        line=place.line,
        id=entry_id or place.entry.id,
        title=place.entry.title,
        target=target,
    )


def _write(workspace: Workspace, root: Path, items: Sequence[_Item], is_replacing: bool) -> None:
    """Write new entries with cites of the code that they name."""
    cited_entries = cite_named(workspace, [item.place.entry for item in items], "HEAD")
    cited_items: list[_Item] = []
    for item, entry in zip(items, cited_entries, strict=True):
        cited_items.append(replace(item, place=replace(item.place, entry=entry)))
    for path, text in _render(cited_items, is_replacing).items():
        write_file(root / path, text, root)


def _render(items: Sequence[_Item], is_replacing: bool) -> dict[str, bytes]:
    """Return the texts of the files to write, by path.

    These are an inbox file for each entry, or the files that were read, with entries in them.

    Raises:
        UnreadableMemoryError: unsafe-rewrite.
    """
    if not is_replacing:
        return {item.target: format_entry(item.place.entry).encode() for item in items}
    items_by_path: dict[str, list[_Item]] = {}
    for item in items:
        items_by_path.setdefault(item.target, []).append(item)
    return {path: _replace_sections(path, group) for path, group in items_by_path.items()}


def _replace_sections(path: str, items: Sequence[_Item]) -> bytes:
    """Return the text of a file in which sections are replaced by their entries.

    Args:
        path: the file.
        items: the learnings of the sections; all were read from the file.

    Raises:
        UnreadableMemoryError: unsafe-rewrite.
    """
    data = items[0].file.read_bytes()
    replaced_lines: set[int] = set()
    for item in items:
        replaced_lines.update(range(item.learning.line, item.learning.last + 1))
    other_lines = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if number not in replaced_lines:
            other_lines.append(line)

    old_file = parse_memory_file(path, data)
    remainder = parse_memory_file(path, b"\n".join(other_lines))
    new_entries = [item.place.entry for item in items]
    edited = edit_file(remainder, added=new_entries)
    expected_entries = [*old_file.entries, *new_entries]
    by_id = attrgetter("id")
    if sorted(edited.entries, key=by_id) != sorted(expected_entries, key=by_id):
        message = f"{path} would not read back with its entries"
        hint = "Import to the inbox instead: leave --replace out."
        raise UnreadableMemoryError(message, slug="unsafe-rewrite", hint=hint)
    return render_memory_file(edited)
