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
    INDEX_FILE,
    LegacyFile,
    LegacyLearning,
    build_not_understood,
    list_mentioned_files,
    read_auto_memory,
    read_dated_sections,
)
from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.fold import plan_fold
from memory_ci.memory.forgotten import find_forgotten, read_tombstones_here
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

FILE_PATTERNS: Mapping[Source, tuple[str, ...]] = {
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


class HandledLearning(msgspec.Struct, frozen=True):
    """A learning of a file that was imported, or that memory had already.

    Attributes:
        path: the file that holds it.
        line: its line there.
        id: the id of its entry.
        title: the title of its entry.
        entry_path: the file that the entry is in, "" for none; `target` in JSON.
    """

    path: str
    line: int
    id: str
    title: str
    entry_path: str = msgspec.field(name="target")


class ImportReport(msgspec.Struct, frozen=True):
    """The result of an import.

    Attributes:
        imported: the learnings that became new entries.
        known: those that memory has or had.
        refused: findings on those that must not be in memory.
        not_understood: findings on text of no known format.
    """

    imported: tuple[HandledLearning, ...]
    known: tuple[HandledLearning, ...]
    refused: tuple[Finding, ...]
    not_understood: tuple[Finding, ...]


class _ImportItem(msgspec.Struct, frozen=True):
    """A learning to import.

    Attributes:
        file: the file that it was read from.
        learning: the learning.
        located: its entry as it would be written, with the file and line that it was read from.
        target_path: the path to write the entry to.
    """

    file: Path
    learning: LegacyLearning
    located: Located
    target_path: str


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

    items: list[_ImportItem] = []
    refused_findings: list[Finding] = []
    not_understood: list[Finding] = []
    for file in progress.count("Reading files", files):
        legacy_file = read_source(file, options.source, today)
        for learning in legacy_file.learnings:
            items.append(_prepare_item(workspace, options, file, learning))
        for finding in legacy_file.findings:
            if finding.code == "not-understood":
                not_understood.append(finding)
            else:
                refused_findings.append(finding)

    allowed_items, objections = _split_by_objection(items, read_tombstones_here(workspace))
    new_items, known_learnings = _split_by_novelty(workspace, root, allowed_items)
    if not options.dry_run:
        _write_items(workspace, root, new_items, in_place=options.replace)
    return ImportReport(
        imported=tuple(_make_handled(item, item.target_path) for item in new_items),
        known=tuple(known_learnings),
        refused=(*objections, *refused_findings),
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
        is_named_so = any(file.match(pattern) for pattern in FILE_PATTERNS[source])
        if is_named_so and not file.is_symlink():
            yield file


def read_source(file: Path, source: Source, today: date) -> LegacyFile:
    """Return the learnings of a file, and findings on the rest of its text.

    It never raises: an unreadable file is a finding. A file of Claude Code's memory may need its
    index, MEMORY.md in the same directory: only files that it names may be plain Markdown.

    Args:
        file: the file.
        source: the kind of memory.
        today: the day of learnings without a date.
    """
    path = mask_secrets(str(file))
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return _report_unreadable_file(path, f"is over the limit of {MAX_FILE_BYTES} bytes")
        data = file.read_bytes()
    except OSError as error:
        return _report_unreadable_file(path, f"cannot be read: {error.strerror}")
    if source != "claude-code":
        return read_dated_sections(path, data, source)
    named_files: frozenset[str] = frozenset()
    with suppress(OSError):
        index_text = (file.parent / INDEX_FILE).read_text("utf-8", "replace")
        named_files = list_mentioned_files(index_text)
    is_named = file.name in {INDEX_FILE, *named_files}
    return read_auto_memory(path, data, today, is_named=is_named)


def _report_unreadable_file(path: str, message: str) -> LegacyFile:
    return LegacyFile(findings=(build_not_understood(path, 1, message),))


def _prepare_item(
    workspace: Workspace, options: ImportOptions, file: Path, learning: LegacyLearning
) -> _ImportItem:
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
    located = Located(entry, mask_secrets(str(file)), learning.line, scope)
    target_path = path if options.replace else fragment_path(entry.id)
    return _ImportItem(file, learning, located, target_path)


def _split_by_objection(
    items: Sequence[_ImportItem], forgotten: Tombstones
) -> tuple[list[_ImportItem], list[Finding]]:
    """Return the learnings that may be written, and a finding on each of the others.

    Args:
        items: the learnings.
        forgotten: hashes of texts that `memory-ci forget` removed, and that must not come back.
    """
    allowed: list[_ImportItem] = []
    objections: list[Finding] = []
    for item in progress.count("Checking learnings", items):
        objection = next(_find_objections(item, forgotten), None)
        if objection is None:
            allowed.append(item)
        else:
            objections.append(objection)
    return allowed, objections


def _find_objections(item: _ImportItem, forgotten: Tombstones) -> Iterator[Finding]:
    """Yield the reasons why a learning must not be written, the worst first.

    It is too long, unsafe (a credential, a prompt injection) or forgotten before, or its text as an
    entry would be read differently. The messages do not repeat its text.
    """
    located = item.located
    yield from check_length(located)
    yield from find_unsafe_entry(located)
    yield from find_forgotten(forgotten, located)
    try:
        text = format_entry(located.entry)
    except UsageError as error:
        message = "would not read back as it is written"
        yield Finding(located.path, located.line, "entry-not-writable", message, error.hint)
        return
    # The whole text, because it also has fields that `find_unsafe` does not know.
    for finding in find_credentials("", text.encode()):
        yield replace(finding, path=located.path, line=located.line)


def _split_by_novelty(
    workspace: Workspace, root: Path, items: Sequence[_ImportItem]
) -> tuple[list[_ImportItem], list[HandledLearning]]:
    """Return the learnings that are new, and those that memory knows.

    A learning is known if memory has or had an entry with its id, or if another entry or an earlier
    learning says the same. To find the latter, the learnings are treated as if they were files in
    the inbox: the fold of the inbox plans for each whether its entry moves into the memory files
    (it is new) or is dropped (another one says the same).

    Args:
        workspace: the repository and its configuration.
        root: the top of its work tree.
        items: the learnings.
    """
    all_located = load_memory(workspace, None).located
    past_ids = _list_past_ids(workspace, root, all_located)
    known_learnings: list[HandledLearning] = []
    item_by_inbox_path: dict[str, _ImportItem] = {}
    for number, item in enumerate(items):
        if item.located.entry.id in past_ids:
            known_learnings.append(_make_handled(item, ""))
        else:
            made_up_path = str(number)
            item_by_inbox_path[made_up_path] = item

    inbox_entries = []
    target_by_inbox_path: dict[str, str] = {}
    for inbox_path, item in item_by_inbox_path.items():
        inbox_entries.append(Located(item.located.entry, inbox_path, 0, item.located.scope))
        target_by_inbox_path[inbox_path] = item.target_path
    changes, _ = plan_fold(inbox_entries, all_located, target_by_inbox_path)
    change_by_inbox_path = {change.moved_from: change for change in changes}
    path_by_id = {located.entry.id: located.path for located in all_located}
    path_by_id |= {change.entry.id: change.path for change in changes}

    new_items: list[_ImportItem] = []
    for inbox_path, item in item_by_inbox_path.items():
        change = change_by_inbox_path.get(inbox_path)
        if change is None:  # an entry with other words has its id
            known_learnings.append(_make_handled(item, path_by_id[item.located.entry.id]))
        elif change.kind == "drop":  # an entry says the same
            known_learnings.append(_make_handled(item, change.path, change.entry.id))
        elif change.kind == "move":
            new_items.append(item)
    return new_items, known_learnings


def _list_past_ids(workspace: Workspace, root: Path, located: Iterable[Located]) -> frozenset[str]:
    """Return the ids of entries that were removed, superseded, or that cannot be read.

    Args:
        workspace: the repository.
        root: the top of its work tree.
        located: the entries of the work tree.
    """
    present_ids: set[str] = set()
    superseded_ids: set[str] = set()
    for located_entry in located:
        present_ids.add(located_entry.entry.id)
        superseded_ids.update(located_entry.entry.supersedes)
    # The name of an inbox file is the id of its entry; those that can be read are present.
    inbox_ids = {file.stem for file in (root / INBOX).glob("*.md")}
    committed_ids: frozenset[str] = frozenset()
    if find_commit(workspace.repo, "HEAD"):
        committed_ids = list_past_ids(workspace, "HEAD")
    return (committed_ids | superseded_ids | inbox_ids) - present_ids


def _make_handled(
    item: _ImportItem, entry_path: str, entry_id: str | None = None
) -> HandledLearning:
    """Return a learning as the report lists it.

    Args:
        item: the learning.
        entry_path: the file that its entry is in, "" for none.
        entry_id: the id of another entry that says the same; None for the learning's own entry.
    """
    located = item.located
    return HandledLearning(
        path=located.path,
        line=located.line,
        id=entry_id or located.entry.id,
        title=located.entry.title,
        entry_path=entry_path,
    )


def _write_items(
    workspace: Workspace, root: Path, items: Sequence[_ImportItem], *, in_place: bool
) -> None:
    """Write new entries, with cites of the code that their texts name.

    Args:
        workspace: the repository.
        root: the top of its work tree.
        items: the entries.
        in_place: replace the sections that they were read from. Otherwise each entry becomes a new
            file of the inbox, and the files that were read stay as they are.
    """
    cited_entries = cite_named(workspace, [item.located.entry for item in items], "HEAD")
    cited_items: list[_ImportItem] = []
    for item, cited_entry in zip(items, cited_entries, strict=True):
        cited_items.append(replace(item, located=replace(item.located, entry=cited_entry)))
    for path, text in _render_files(cited_items, in_place=in_place).items():
        write_file(root / path, text, root)


def _render_files(items: Sequence[_ImportItem], *, in_place: bool) -> dict[str, bytes]:
    """Return the texts of the files to write, by path.

    These are an inbox file for each entry, or the files that were read, with entries in them.

    Raises:
        UnreadableMemoryError: unsafe-rewrite.
    """
    if not in_place:
        return {item.target_path: format_entry(item.located.entry).encode() for item in items}
    items_by_path: dict[str, list[_ImportItem]] = {}
    for item in items:
        items_by_path.setdefault(item.target_path, []).append(item)
    return {path: _replace_sections(path, group) for path, group in items_by_path.items()}


def _replace_sections(path: str, items: Sequence[_ImportItem]) -> bytes:
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
    new_entries = [item.located.entry for item in items]
    edited = edit_file(remainder, added=new_entries)
    expected_entries = [*old_file.entries, *new_entries]
    by_id = attrgetter("id")
    if sorted(edited.entries, key=by_id) != sorted(expected_entries, key=by_id):
        message = f"{path} would not read back with its entries"
        hint = "Import to the inbox instead: leave --replace out."
        raise UnreadableMemoryError(message, slug="unsafe-rewrite", hint=hint)
    return render_memory_file(edited)
