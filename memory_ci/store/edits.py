"""Add, change, move and remove single entries in the text of memory files; all else is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.records.entry import Entry
from memory_ci.store.document import (
    MemoryFile,
    Segment,
    find_text_line,
    parse_memory_file,
    render_memory_file,
)
from memory_ci.store.frontmatter import (
    CONVERTERS,
    DATES,
    SURROGATE,
    edit_front_matter,
    find_unwritable,
    format_field,
    format_front_matter,
)
from memory_ci.store.headings import format_title, parse_title
from memory_ci.store.yamltext import Field, quote_scalar

if TYPE_CHECKING:
    from memory_ci.records.plan import Change

UNSAFE_HINT = (
    "Run `memory-ci check` and mend what it names; an unclosed code fence is the usual cause."
)


def format_entry(entry: Entry) -> str:
    """Return the canonical text of an entry, ending in one newline.

    parse_memory_file is its inverse.

    Raises:
        UsageError: the text would not read back as the entry (entry-not-writable). It may have a
            title of two lines, half of a UTF-16 pair, or a body with a heading of level 1 or a
            block between two `---`, outside a code fence, that looks like another entry.
    """
    text = _write_entry(entry)
    if _reads_as(text, entry):
        return text
    unreadable_part, hint = _find_unreadable(entry)
    message = (
        f"the entry {entry.title!r} would not read back as it is written, "
        f"because of its {unreadable_part}"
    )
    raise UsageError(message, slug="entry-not-writable", hint=hint)


def _find_unreadable(entry: Entry) -> tuple[str, str]:
    """Return the part of an entry that would not parse to the same text, and a hint."""
    field = find_unwritable(entry)
    if field is not None:
        hint = "Give it a value that `memory-ci help formats` allows, in characters that UTF-8 has."
        return f"field {field!r}", hint
    without_body = replace(entry, body="")
    if not _reads_as(_write_entry(without_body), without_body):
        return "title", "Write the title as one line of text, without blanks around it."
    if SURROGATE.search(entry.body):
        return "body", "Write it in characters that UTF-8 has."
    hint = (
        "Use headings from ### on in it, and put anything between two --- lines into a code fence."
    )
    return "body", hint


def _write_entry(entry: Entry) -> str:
    """Format an entry, without a check that it would read back."""
    lines = ["---", *format_front_matter(entry), "---", format_title(entry.title)]
    if entry.body:
        lines += ["", entry.body]
    return "\n".join(lines) + "\n"


def _reads_as(text: str, entry: Entry) -> bool:
    """Return whether a text can be written as UTF-8, and parses to this entry alone."""
    if entry.title == "" or SURROGATE.search(text):
        return False
    return _is_text_of(text, entry)


def _is_text_of(text: str, entry: Entry) -> bool:
    """Return whether a text parses to this entry alone."""
    return parse_memory_file("", text.encode()).entries == (entry,)


def entry_text(file: MemoryFile) -> str | None:
    """Return the text of the only entry of a file; None if the file has anything but one entry.

    Its field `scope` is left out, Windows line endings are replaced, and it ends in one newline.
    """
    segments = [segment for segment in file.segments if segment.raw.strip()]
    if len(segments) != 1 or segments[0].entry is None:
        return None
    unscoped = _update_segment(segments[0], replace(segments[0].entry, scope=None))
    return unscoped.raw.replace("\r\n", "\n").rstrip() + "\n"


def edit_file(
    file: MemoryFile,
    *,
    added: Iterable[Entry] = (),
    moved: Iterable[tuple[Entry, str]] = (),
    updated: Iterable[Entry] = (),
    removed: Sequence[Entry] = (),
) -> MemoryFile:
    """Return a file with entries added, moved in, updated and removed.

    An update rewrites the front matter line by line, and the body only if it differs. A file may
    have several entries with one id. Then an update or a removal applies to the entry with the same
    title and body; if several have those, an update applies to the first and a removal to the last.
    If an id is both updated and removed, its copies are merged to one: the first is updated.

    Args:
        file: the file.
        added: new entries, put at their place in (created_at, id) order.
        moved: new entries with the text that they have.
        updated: entries in their new state.
        removed: entries to delete.

    Raises:
        UnreadableMemoryError: an entry to update or remove is not there (entry-missing), or the
            result would not read back as every old entry plus the new ones (unsafe-rewrite).
    """
    segments = _edit_segments(file, updated, removed)
    for entry in added:
        insert_entry(segments, entry, format_entry(entry), file.newline)
    for entry, text in moved:
        insert_entry(segments, entry, text, file.newline)

    # The result is parsed again, as a proof that no entry was lost or torn.
    expected_ids = sorted(segment.entry.id for segment in segments if segment.entry is not None)
    data = render_memory_file(replace(file, segments=tuple(segments)))
    edited = parse_memory_file(file.path, data)
    if sorted(entry.id for entry in edited.entries) != expected_ids:
        message = f"{file.path} cannot be rewritten without changing other entries"
        raise UnreadableMemoryError(message, slug="unsafe-rewrite", hint=UNSAFE_HINT)
    return edited


def _edit_segments(
    file: MemoryFile, updated: Iterable[Entry], removed: Sequence[Entry]
) -> list[Segment]:
    """Return the segments of a file with entries updated and removed.

    Several entries of a file may have one id; `edit_file` says which of them is meant.

    Args:
        file: the file.
        updated: entries in their new state.
        removed: entries to delete.

    Raises:
        UnreadableMemoryError: an entry is not there (entry-missing).
    """
    new_states: dict[int, Entry] = {}  # By index of the segment; removed entries are deleted.
    indices_by_id: dict[str, list[int]] = defaultdict(list)
    for index, segment in enumerate(file.segments):
        if segment.entry is not None:
            new_states[index] = segment.entry
            indices_by_id[segment.entry.id].append(index)

    removed_ids = {entry.id for entry in removed}
    for entry in updated:
        indices = _find_indices(file.path, entry.id, indices_by_id)
        is_merged = entry.id in removed_ids
        position = 0
        if not is_merged:
            position = find_old_state([new_states[index] for index in indices], entry)
        new_states[indices[position]] = entry
    for entry in removed:
        indices = _find_indices(file.path, entry.id, indices_by_id)
        # Of several with the same title and body the last is removed.
        last_first = indices[::-1]
        position = find_old_state([new_states[index] for index in last_first], entry)
        removed_index = last_first[position]
        indices.remove(removed_index)
        del new_states[removed_index]

    segments: list[Segment] = []
    for index, segment in enumerate(file.segments):
        if segment.entry is None:
            segments.append(segment)
        elif index in new_states:
            segments.append(_update_segment(segment, new_states[index]))
    return segments


def find_old_state(candidates: Sequence[Entry], entry: Entry) -> int:
    """Return the index of the entry that an update or a removal means, among some with its id.

    It is the first with the same title, body and unknown keys. If none has them, it is the first.

    Args:
        candidates: the entries of a file with the id.
        entry: the entry in its new state.
    """
    for index, old in enumerate(candidates):
        if (old.title, old.body, old.extra) == (entry.title, entry.body, entry.extra):
            return index
    return 0


def insert_entry(segments: list[Segment], entry: Entry, text: str, newline: str) -> None:
    """Insert an entry at its place in (created_at, id) order.

    Args:
        segments: the segments of a file, changed in place.
        entry: the entry.
        text: its text, which ends in one newline.
        newline: the line ending of the file.
    """
    index = _find_insertion(segments, entry)
    # A blank line separates the entry from the text above it, and from the text below it.
    text_above = "".join(segment.raw for segment in segments[max(0, index - 2) : index])
    gap_above = ""
    if text_above and not text_above.endswith(("\n\n", "\n\r\n")):
        gap_above = "\n" if text_above.endswith("\n") else "\n\n"
    text_below = segments[index].raw if index < len(segments) else "\n"
    gap_below = "" if text_below.startswith(("\n", "\r\n")) else "\n"
    raw = (gap_above + text + gap_below).replace("\n", newline)
    segments.insert(index, Segment(raw, entry=entry))


def _find_insertion(segments: Sequence[Segment], entry: Entry) -> int:
    """Return the index at which an entry belongs among segments, in (created_at, id) order.

    It is after the last entry that sorts before it; or else at the first entry, or at the end.
    """
    first_entry_index: int | None = None
    insertion: int | None = None
    for index, segment in enumerate(segments):
        if segment.entry is None:
            continue
        if first_entry_index is None:
            first_entry_index = index
        if _sort_key(segment.entry) <= _sort_key(entry):
            insertion = index + 1
    if insertion is not None:
        return insertion
    return len(segments) if first_entry_index is None else first_entry_index


def _update_segment(segment: Segment, entry: Entry) -> Segment:
    """Return the segment of an entry in its new state; lines that need not change are kept.

    A segment has a line `---`, its front matter, another line `---`, the title and the body. If the
    title or the body differs, both are written again, and the blank lines below them are kept.
    """
    old_entry = segment.entry
    if old_entry is None or old_entry == entry:
        return segment
    opening_line, *lines = segment.raw.split("\n")
    front_matter_size = len(segment.head)
    old_front_matter = lines[:front_matter_size]
    new_front_matter = edit_front_matter(old_front_matter, segment.fields, old_entry, entry)
    closing_line, *text_lines = lines[front_matter_size:]
    if (entry.title, entry.body) != (old_entry.title, old_entry.body):
        canonical_front_matter = ["---", *format_front_matter(entry), "---"]
        canonical_lines = format_entry(entry).removesuffix("\n").split("\n")
        new_text = "\n".join(canonical_lines[len(canonical_front_matter) :])
        if opening_line.endswith("\r"):
            new_text = new_text.replace("\n", "\r\n")
        line_ends_below = segment.raw[len(segment.raw.rstrip("\r\n")) :]
        text_lines = (new_text + line_ends_below).split("\n")
    raw = "\n".join([opening_line, *new_front_matter, closing_line, *text_lines])
    return Segment(raw, entry=entry)


def _sort_key(entry: Entry) -> tuple[date, str]:
    return entry.created_at or date.min, entry.id


def _find_indices(path: str, entry_id: str, indices_by_id: Mapping[str, list[int]]) -> list[int]:
    """Return the indices of the segments of the entries with an id.

    Raises:
        UnreadableMemoryError: no entry has it (entry-missing).
    """
    indices = indices_by_id.get(entry_id)
    if indices:
        return indices
    message = f"{path} has no readable entry {entry_id}"
    raise UnreadableMemoryError(message, slug="entry-missing", hint="Run `memory-ci check`.")


def apply_changes(files: Mapping[str, bytes], changes: Sequence[Change]) -> dict[str, bytes | None]:
    """Apply the changes of a plan to the content of memory files.

    Args:
        files: the content of the touched files by path; an absent file is new.
        changes: the entries to add, update, move and remove, each with the path of its file.

    Returns:
        The new content of each touched file; None for a deleted file. A file is deleted if its only
        entry moved to another file, or if a promotion removed its last entry.

    Raises:
        UnreadableMemoryError: a file cannot be edited without losing something.
    """
    changes_by_path: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        changes_by_path[change.path].append(change)

    contents: dict[str, bytes | None] = {}
    for path, file_changes in changes_by_path.items():
        added = _list_entries(file_changes, "add")
        updated = _list_entries(file_changes, "update")
        removed = _list_entries(file_changes, "remove")
        moved: list[tuple[Entry, str]] = []
        for change in file_changes:
            if change.kind == "move":
                moved.append((change.entry, _find_moved_text(change, files)))
        if not (added or moved or updated or removed):
            continue
        file = parse_memory_file(path, files.get(path, b""))
        _require_utf8(file)
        edited = edit_file(file, added=added, moved=moved, updated=updated, removed=removed)
        data = render_memory_file(edited)
        is_promotion = file_changes[0].step == "promote"
        is_emptied = bool(removed) and is_promotion and not data.strip()
        contents[path] = None if is_emptied else data

    for change in changes:
        if change.moved_from is not None:
            contents[change.moved_from] = None  # The old file of an entry that moved.
    return contents


def _list_entries(changes: Sequence[Change], kind: str) -> list[Entry]:
    return [change.entry for change in changes if change.kind == kind]


def _require_utf8(file: MemoryFile) -> None:
    """Raise UnreadableMemoryError if a file is not UTF-8: it cannot be edited."""
    for finding in file.findings:
        if finding.code == "not-utf8":
            message = f"{file.path}:{finding.line}: {finding.message}"
            raise UnreadableMemoryError(message, slug="not-utf8", hint=finding.hint)


def _find_moved_text(change: Change, files: Mapping[str, bytes]) -> str:
    """Return the text of an entry that moves to another file.

    It is the text in its old file, with comments and spacing, if that still is the entry; else the
    canonical text.
    """
    source = parse_memory_file("", files.get(change.moved_from or "", b""))
    text = entry_text(source)
    if text is not None and _is_text_of(text, change.entry):
        return text
    return format_entry(change.entry)


# -- The canonical form of a memory file: one way to write its entries, with every word kept.


def canonical_file(path: str, data: bytes) -> bytes:
    """Return a memory file with each readable entry in canonical form, between blank lines.

    Prose, text that cannot be read, the byte order mark and line endings are kept.

    Raises:
        UnreadableMemoryError: the result would not read back as the same entries
            (unsafe-rewrite).
    """
    file = parse_memory_file(path, data)
    if not file.entries:
        return data
    segments: list[Segment] = []
    next_segments = (*file.segments[1:], None)
    for segment, next_segment in zip(file.segments, next_segments, strict=True):
        raw = segment.raw
        canonical_text = _format_canonically(segment)
        if canonical_text is not None:
            gap = "\n" if next_segment else ""
            raw = (canonical_text + gap).replace("\n", file.newline)
        elif _needs_gap(segment, next_segment):
            raw += file.newline
        segments.append(Segment(raw))
    result = render_memory_file(replace(file, segments=tuple(segments)))
    if _content(parse_memory_file(path, result)) != _content(file):
        raise UnreadableMemoryError(
            f"{path} cannot be formatted safely", slug="unsafe-rewrite", hint=UNSAFE_HINT
        )
    return result


def _needs_gap(segment: Segment, next_segment: Segment | None) -> bool:
    """Return whether a segment is prose, and an entry follows without a blank line between them."""
    if next_segment is None or next_segment.entry is None or segment.is_broken:
        return False
    return segment.raw.strip() != "" and not segment.raw.endswith(("\n\n", "\n\r\n"))


def _content(file: MemoryFile) -> tuple[tuple[Entry, ...], list[str]]:
    return file.entries, sorted(finding.code for finding in file.findings)


def _format_canonically(segment: Segment) -> str | None:
    """Return the canonical text of an entry: front matter, title line, blank line, body.

    An entry without a title line is not given one: that is for a person to word.

    Returns:
        The text; None for prose and for an entry that would not read back unchanged.
    """
    entry = segment.entry
    if entry is None:
        return None
    head_size = len(segment.head) + 2  # With the two lines `---`.
    text_lines = segment.raw.replace("\r\n", "\n").split("\n")[head_size:]
    title_line = find_text_line(text_lines)
    lines = entry.body.split("\n") if entry.body else []
    if title_line is not None and parse_title(text_lines[title_line]) is not None:
        title = text_lines[title_line].lstrip(" ").lstrip("#").strip(" \t")
        lines = [f"## {title}", "", *lines] if lines else [f"## {title}"]
    head = _canonical_head(segment.head, segment.fields, entry)
    text = "\n".join(["---", *head, "---", *lines]) + "\n"
    return text if _is_text_of(text, entry) else None


class _FieldBlock(msgspec.Struct, frozen=True):
    """The canonical lines of a field with the lines of comments above it."""

    key: str
    lines: list[str]


def _canonical_head(head: Sequence[str], fields: Sequence[Field], entry: Entry) -> list[str]:
    """Return a front matter with known keys in canonical order, then the unknown ones in theirs.

    A comment at the start of a line belongs to the key below it, an indented one to the value that
    it is in. Blank lines between keys are dropped.

    Args:
        head: the lines of the front matter.
        fields: the fields in them.
        entry: the entry of this front matter.
    """
    blocks: list[_FieldBlock] = []
    lines_above = head[: fields[0].first]  # Comments and blank lines above the next field.
    next_firsts = [*(field.first for field in fields[1:]), len(head)]
    for field, next_first in zip(fields, next_firsts, strict=True):
        field_end = _find_field_end(head, next_first)
        lines = [line for line in lines_above if line.strip()]
        lines += _canonical_field(field, head[field.first : field_end], entry)
        blocks.append(_FieldBlock(field.key, lines))
        lines_above = head[field_end:next_first]

    positions = {key: position for position, key in enumerate(CONVERTERS)}
    blocks.sort(key=lambda block: positions.get(block.key, len(positions)))
    canonical_lines: list[str] = []
    for block in blocks:
        canonical_lines += block.lines
    comments_at_end = [line for line in lines_above if line.strip()]
    return canonical_lines + comments_at_end


def _find_field_end(head: Sequence[str], next_first: int) -> int:
    """Return the line after a field, without the blank lines and comments below it.

    Args:
        head: the lines of a front matter.
        next_first: the first line of the next field, or the end of the front matter.
    """
    end = next_first
    while not head[end - 1].strip() or head[end - 1].startswith("#"):
        end -= 1
    return end


def _canonical_field(field: Field, old_lines: Sequence[str], entry: Entry) -> Sequence[str]:
    """Return the canonical lines of a field.

    The old lines stay if the key is unknown, the value has line feeds, or a comment would be lost.
    """
    key = field.key
    value = field.value
    texts = (value,) if isinstance(value, str) else value or ()
    has_line_feed = any("\n" in text for text in texts)
    if key not in CONVERTERS or has_line_feed:
        return old_lines
    if key in DATES and isinstance(value, str) and value.strip():
        new_lines = [f"{key}: {quote_scalar(value.strip())}"]  # With its time, if it has one.
    else:
        new_lines = format_field(key, getattr(entry, key))

    # If the old lines have more signs `#` than the new ones, one of them begins a comment. They
    # cannot be counted in a value that may write `#` as an escape, such as "\x23".
    old_text = "\n".join(old_lines)
    new_text = "\n".join(new_lines)
    has_comment = old_text.count("#") > new_text.count("#")
    may_have_escape = "#" in old_text and "\\" in old_text
    return old_lines if has_comment or may_have_escape else new_lines
