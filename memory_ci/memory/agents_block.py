"""Export: norms and the most used entries as a block in AGENTS.md, for agents that have nothing installed.

The block is derived: the same memory gives the same bytes on any day. It is never evidence, for it says nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.disarm import neutralise
from memory_ci.gitrepo.blobs import read_files
from memory_ci.memory.screening import screen
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
from memory_ci.store.steps import Fence, read_text, with_block, without_block
from memory_ci.text import plural, shorten, strip_comments

FENCE = Fence(
    "<!-- memory-ci export: begin (derived from memory: edit that, then `memory-ci export --to agents-md`) -->",
    "<!-- memory-ci export: end -->",
)
MAX_CHARS = 4_000
MAX_ENTRIES = 12
WIDTH = 300  # Characters of one line, of which the title comes first.
STALE_HINT = "Run `memory-ci export --to agents-md`, and commit the file."


class Exported(msgspec.Struct, frozen=True):
    """The file, what became of it, and the lines of the block, none where memory is empty."""

    path: str
    result: Literal["written", "kept"]
    lines: tuple[str, ...]


def export(workspace: Workspace, path: Path | None, *, dry_run: bool = False) -> Exported:
    """Bring the block up to date in a file, by default the configured one. Raises RepositoryError: bare-repository,
    not-a-file, write-failed."""
    root = work_tree(workspace)
    place = path or root / workspace.config.export.path
    lines = build_lines(load_files(workspace, list_memory_files(workspace, None)))
    before = read_text(place)
    after = put_block(before, lines)
    if after != before and not dry_run:
        write_file(place, after.encode("utf-8", "surrogateescape"), None if path else root)
    return Exported(str(place), "kept" if after == before else "written", lines)


def put_block(text: str, lines: tuple[str, ...]) -> str:
    """A text with these lines as its block, without it where there are none."""
    return with_block(text, FENCE, lines) if lines else without_block(text, FENCE)


def drop_block(text: str) -> str:
    """A text without the block, for those who read what people wrote."""
    return without_block(text, FENCE)


def find_stale(
    workspace: Workspace, view: str | None, files: Iterable[LoadedFile]
) -> Iterator[Finding]:
    """That the block of the configured file is not what memory says now; `files` are the memory of the view."""
    path = workspace.config.export.path
    root = workspace.repo.root
    if root is None or not (root / path).is_file() or not FENCE.find(read_text(root / path)):
        return  # a commit waits for this, and most repositories have none
    for content in read_files(workspace.repo, list_view(workspace, view, [path]), MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "surrogateescape")
        found = FENCE.find(text)
        if found and put_block(text, build_lines(files)) != text:
            line = text.count("\n", 0, found.start() + found.group().startswith("\n")) + 1
            message = "what is exported here is not what memory says now"
            yield Finding(
                readable_path(content.file), line, "export-stale", message, STALE_HINT, "warning"
            )


def build_lines(files: Iterable[LoadedFile]) -> tuple[str, ...]:
    """Norms in their order, then the entries of the project that were used most; no day and no order of files tells."""
    ordered = sorted(files, key=lambda file: file.path)
    screened = [screen(file) for file in ordered if not is_fragment(file.path)]
    norms = [
        line for file in screened if file.scope.name == "institutional" for line in _norms(file)
    ]
    rest = (
        place.entry
        for file in screened
        for place in file.entries
        if file.scope.name == "project" and place.entry.status == "active"
    )
    used = sorted(rest, key=lambda entry: (-entry.reinforcement_count, -entry.importance, entry.id))
    lines = [*norms, *map(_line, used[:MAX_ENTRIES])]
    sizes = accumulate(len(line) + 1 for line in lines)
    kept = [line for line, size in zip(lines, sizes, strict=True) if size <= MAX_CHARS]
    left = len(lines) - len(kept) + max(len(used) - MAX_ENTRIES, 0)
    more = [f"- {plural(left, 'more entry')}: `memory-ci list`."] if left else []
    return ("## What this project has learned", "", *kept, *more) if kept else ()


def _norms(file: LoadedFile) -> Iterator[str]:
    """Entries and prose of one file in their order, a line each; headings alone are no norm."""
    said = [
        (place.line, _line(place.entry))
        for place in file.entries
        if place.entry.status != "retired"
    ]
    for number, text in file.prose:
        plain = (
            line.strip(" \t-*")
            for line in strip_comments(text).splitlines()
            if not line.startswith("#")
        )
        said += [(number, f"- {_safe(line)}") for line in plain if line]
    return (line for _, line in sorted(said, key=lambda one: one[0]))


def _line(entry: Entry) -> str:
    declined = "Tried and rejected: " if entry.adoption == "rejected" else ""
    instead = f" Done instead: {entry.instead}" if entry.instead else ""
    first = entry.body.strip().partition("\n\n")[0]
    return f"- {_safe(f'{declined}{entry.title}. {first}{instead}')} [{entry.id[:8]}]"


def _safe(text: str) -> str:
    """One line in which no comment opens or ends, so that it cannot end the block."""
    return shorten(
        neutralise(" ".join(text.split())).replace("<!--", "(").replace("-->", ")"), WIDTH
    )
