"""Changes performed on the text of memory files. Pure: the caller reads, and writes what comes back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from memory_ci.errors import UnreadableMemoryError
from memory_ci.records.plan import Change
from memory_ci.store.document import MemoryFile, parse_memory_file, render_memory_file
from memory_ci.store.edit import edit_file, entry_text, format_entry


def apply_changes(files: Mapping[str, bytes], changes: Sequence[Change]) -> dict[str, bytes | None]:
    """The new content of every file the changes touch; None for a file that goes away, as one that promotion empties.

    `files` holds the present content of the touched files; one that is absent from it is new. Raises
    UnreadableMemoryError if a file cannot be edited without losing something.
    """
    by_path: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_path[change.path].append(change)
    written: dict[str, bytes | None] = {}
    for path, group in by_path.items():
        added = [change.entry for change in group if change.kind == "add"]
        moved = [(change.entry, _text(change, files)) for change in group if change.kind == "move"]
        updated = [change.entry for change in group if change.kind == "update"]
        removed = [change.entry for change in group if change.kind == "remove"]
        if added or moved or updated or removed:
            edited = edit_file(_parse(path, files), added=added, moved=moved, updated=updated, removed=removed)
            text = render_memory_file(edited)
            is_left_empty = removed and group[0].step == "promote" and not text.strip()
            written[path] = None if is_left_empty else text
    return written | {change.moved_from: None for change in changes if change.moved_from is not None}


def _text(change: Change, files: Mapping[str, bytes]) -> str:
    """The text an entry moves with: its own, with its comments and its spacing, if that says what the change says."""
    source = parse_memory_file("", files.get(change.moved_from or "", b""))
    text = entry_text(source)
    says_the_same = text is not None and parse_memory_file("", text.encode()).entries == (change.entry,)
    return text if text is not None and says_the_same else format_entry(change.entry)


def _parse(path: str, files: Mapping[str, bytes]) -> MemoryFile:
    file = parse_memory_file(path, files.get(path, b""))
    for finding in file.findings:
        if finding.code == "not-utf8":
            raise UnreadableMemoryError(f"{path}:{finding.line}: {finding.message}", slug="not-utf8", hint=finding.hint)
    return file
