"""Export of memory as a block of lines in AGENTS.md, for agents without memory-ci.

The block is derived: the same memory gives the same bytes on any day. It is not evidence, because
it says nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.disarm import neutralise
from memory_ci.gitrepo.blobs import read_files
from memory_ci.memory.screening import screen_file
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    list_memory_files,
    list_view,
    load_files,
    readable_path,
    work_tree,
)
from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.files import write_file
from memory_ci.store.layout import is_fragment
from memory_ci.store.steps import Fence, insert_block, read_text, remove_block
from memory_ci.text import plural, shorten, strip_comments

FENCE = Fence(
    "<!-- memory-ci export: begin "
    "(derived from memory: edit that, then `memory-ci export --to agents-md`) -->",
    "<!-- memory-ci export: end -->",
)
MAX_CHARS = 4_000  # Characters of the block that `export` writes.
MAX_ENTRIES = 12  # Entries of that block.
WIDTH = 300
"""Length of one line in characters; the title comes first."""

MOMENTS = {
    "before:commit": "Before you commit: ",
    "before:push": "Before you push: ",
    "before:pull-request": "Before you open a pull request: ",
    "before:edit": "Before you edit `{}`: ",
    "before:command": "Before you run `{}`: ",
    "after:failure": "When `{}` fails: ",
}
"""How a line begins by the moment of its entry: an agent without hooks is not told it in time."""

STALE_HINT = "Run `memory-ci export --to agents-md`, and commit the file."


class Exported(msgspec.Struct, frozen=True):
    """The result of an export.

    Attributes:
        path: the file.
        result: whether it was written, or had the block already.
        lines: the lines of the block; none if memory is empty.
    """

    path: str
    result: Literal["written", "kept"]
    lines: tuple[str, ...]


def export_block(workspace: Workspace, path: Path | None, *, dry_run: bool = False) -> Exported:
    """Update the block of memory in a file, and say whether that changed it.

    Args:
        workspace: the repository.
        path: the file; None for the configured one.
        dry_run: write nothing.

    Raises:
        RepositoryError: bare-repository, not-a-file, write-failed.
    """
    root = work_tree(workspace)
    target = path or root / workspace.config.export.path
    lines = build_lines(load_files(workspace, list_memory_files(workspace, None)))
    before = read_text(target)
    after = put_block(before, lines)
    if after == before:
        return Exported(str(target), "kept", lines)
    if not dry_run:
        write_file(target, after.encode("utf-8", "surrogateescape"), None if path else root)
    return Exported(str(target), "written", lines)


def put_block(text: str, lines: tuple[str, ...]) -> str:
    """Return a text with these lines as its block; without lines it has no block."""
    return insert_block(text, FENCE, lines) if lines else remove_block(text, FENCE)


def drop_block(text: str) -> str:
    """Return a text without the block, which people did not write."""
    return remove_block(text, FENCE)


def find_stale(
    workspace: Workspace, view: str | None, files: Iterable[LoadedFile]
) -> Iterator[Finding]:
    """Yield a finding if the exported block of memory differs from memory itself.

    Args:
        workspace: the repository.
        view: the commit with the exported file; None for the work tree.
        files: the memory files of that view.
    """
    path = workspace.config.export.path
    root = workspace.repo.root
    if root is None or not (root / path).is_file() or not FENCE.find(read_text(root / path)):
        return  # commits wait for this check, and most repositories have no block

    for content in read_files(workspace.repo, list_view(workspace, view, [path]), MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "surrogateescape")
        match = FENCE.find(text)
        if match is None or put_block(text, build_lines(files)) == text:
            continue
        block_start = match.start()
        if match.group().startswith("\n"):
            block_start += 1  # the match has the line break before the block
        line = text.count("\n", 0, block_start) + 1
        message = "the exported block is not what memory says now"
        yield Finding(
            readable_path(content.file), line, "export-stale", message, STALE_HINT, "warning"
        )


def build_lines(files: Iterable[LoadedFile]) -> tuple[str, ...]:
    """Return the lines of the block: the norms first, then the most used entries.

    Norms are the rules of institutional memory, which hold for every task. Left out are notes that
    no run has read yet (`is_fragment`), and entries and prose that must not be served to agents.
    The lines depend neither on the day nor on the order of files.

    Args:
        files: all memory files.
    """
    lines: list[str] = []
    active_entries: list[Entry] = []
    for file in sorted(files, key=lambda file: file.path):
        if is_fragment(file.path):
            continue
        screened_file = screen_file(file)
        if file.scope.name == "institutional":
            lines += _list_norms(screened_file)
        elif file.scope.name == "project":
            for located in screened_file.entries:
                if located.entry.status == "active":
                    active_entries.append(located.entry)
    active_entries.sort(key=lambda entry: (-entry.reinforcement_count, -entry.importance, entry.id))
    lines += [_format_entry(entry) for entry in active_entries[:MAX_ENTRIES]]

    fitting_lines = _take_fitting_lines(lines)
    if not fitting_lines:
        return ()
    omitted_entries = max(len(active_entries) - MAX_ENTRIES, 0)
    omitted_lines = len(lines) - len(fitting_lines)
    omitted_count = omitted_entries + omitted_lines
    if omitted_count:
        fitting_lines.append(f"- {plural(omitted_count, 'more entry')}: `memory-ci list`.")
    return ("## What this project has learned", "", *fitting_lines)


def _take_fitting_lines(lines: Iterable[str]) -> list[str]:
    """Return the first lines that together have at most MAX_CHARS characters."""
    fitting_lines = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MAX_CHARS:
            break
        fitting_lines.append(line)
    return fitting_lines


def _list_norms(file: LoadedFile) -> list[str]:
    """Return the norms (institutional memory) of a file as list items, in the order of the file.

    Each entry and each line of prose is an item; headings are left out.
    """
    numbered_items = []
    for located_entry in file.entries:
        if located_entry.entry.status != "retired":
            numbered_items.append((located_entry.line, _format_entry(located_entry.entry)))
    for number, text in file.prose:
        for line in strip_comments(text).splitlines():
            plain_line = line.strip(" \t-*")
            if plain_line and not line.startswith("#"):
                numbered_items.append((number, f"- {_neutralise_line(plain_line)}"))
    numbered_items.sort(key=lambda item: item[0])  # by line alone, so that prose keeps its order
    return [item for _, item in numbered_items]


def _format_entry(entry: Entry) -> str:
    """Return an entry as a list item in one line: title, first paragraph and short id.

    An entry that applies at a moment of the work, such as `when: before:edit src/api.py`, begins
    with that moment: the first word chooses a text of MOMENTS, the rest is put into it.
    """
    first_paragraph = entry.body.strip().partition("\n\n")[0]
    text = f"{entry.title}. {first_paragraph}"
    if entry.adoption == "rejected":
        text = f"Tried and rejected: {text}"
    if entry.instead:
        text += f" Done instead: {entry.instead}"
    moment, _, subject = (entry.when or "").partition(" ")
    if moment in MOMENTS:
        text = MOMENTS[moment].format(subject) + text
    return f"- {_neutralise_line(text)} [{entry.id[:8]}]"


def _neutralise_line(text: str) -> str:
    """Return one line without delimiters of comments, so that it cannot end the block."""
    text = neutralise(" ".join(text.split()))
    return shorten(text.replace("<!--", "(").replace("-->", ")"), WIDTH)
