"""Edits of single entries in memory files; all other bytes are kept. Pure: texts in, texts out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file, render_memory_file
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
            title of two lines, half a character, or a body with a heading of level 1 or a block
            between two `---`, outside a code fence, that looks like another entry.
    """
    text = _write_entry(entry)
    if _reads_as(text, entry):
        return text
    part, hint = _find_unreadable(entry)
    message = (
        f"the entry {entry.title!r} would not read back as it is written, because of its {part}"
    )
    raise UsageError(message, slug="entry-not-writable", hint=hint)


def _find_unreadable(entry: Entry) -> tuple[str, str]:
    """Return the part of an entry that would not read back, and a hint."""
    field = find_unwritable(entry)
    if field is not None:
        hint = "Give it a value that `memory-ci help formats` allows, in characters that UTF-8 has."
        return f"field {field!r}", hint
    bare = replace(entry, body="")
    if not _reads_as(_write_entry(bare), bare):
        return "title", "Write the title as one line of text, without blanks around it."
    if SURROGATE.search(entry.body):
        return "body", "Write it in characters that UTF-8 has."
    hint = (
        "Use headings from ### on in it, and put anything between two --- lines into a code fence."
    )
    return "body", hint


def _write_entry(entry: Entry) -> str:
    lines = ["---", *format_front_matter(entry), "---", format_title(entry.title)]
    if entry.body:
        lines += ["", entry.body]
    return "\n".join(lines) + "\n"


def _reads_as(text: str, entry: Entry) -> bool:
    if entry.title == "" or SURROGATE.search(text):
        return False
    return _is_text_of(text, entry)


def _is_text_of(text: str, entry: Entry) -> bool:
    """Return whether a text parses to this entry alone."""
    return parse_memory_file("", text.encode()).entries == (entry,)


def entry_text(file: MemoryFile) -> str | None:
    """Return the text of the only entry of a file, without its `scope` and Windows line endings.

    It ends in one newline. None if the file has anything but one entry.
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
    """Return a file with some entries edited.

    An update rewrites the front matter line by line, and the body only if it differs. Where several
    entries have one id, an update or removal is of the one with its title and body, a removal of
    several such ones the last. But where the id is removed as well, copies become one: then the
    first is updated.

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
    expected = sorted(segment.entry.id for segment in segments if segment.entry is not None)
    data = render_memory_file(replace(file, segments=tuple(segments)))
    edited = parse_memory_file(file.path, data)
    if sorted(entry.id for entry in edited.entries) != expected:
        message = f"{file.path} cannot be rewritten without tearing an entry"
        raise UnreadableMemoryError(message, slug="unsafe-rewrite", hint=UNSAFE_HINT)
    return edited


def _edit_segments(
    file: MemoryFile, updated: Iterable[Entry], removed: Sequence[Entry]
) -> list[Segment]:
    """Return the segments of a file with entries updated and removed."""
    entries: dict[int, Entry] = {}
    places: dict[str, list[int]] = defaultdict(list)
    for place, segment in enumerate(file.segments):
        if segment.entry is not None:
            entries[place] = segment.entry
            places[segment.entry.id].append(place)

    removed_ids = {entry.id for entry in removed}
    for entry in updated:
        twins = _find_places(file.path, entry.id, places)
        index = 0
        if entry.id not in removed_ids:
            index = choose_twin([entries[place] for place in twins], entry)
        entries[twins[index]] = entry
    for entry in removed:
        twins = _find_places(file.path, entry.id, places)
        last_first = [entries[place] for place in reversed(twins)]
        index = choose_twin(last_first, entry)
        del entries[twins.pop(-1 - index)]

    segments: list[Segment] = []
    for place, segment in enumerate(file.segments):
        if segment.entry is None:
            segments.append(segment)
        elif place in entries:
            segments.append(_update_segment(segment, entries[place]))
    return segments


def choose_twin(twins: Sequence[Entry], entry: Entry) -> int:
    """Return the index of the entry whose new state is `entry`, of several with one id.

    It is the first with the same title, body and unknown keys, else the first.
    """
    for index, twin in enumerate(twins):
        if (twin.title, twin.body, twin.extra) == (entry.title, entry.body, entry.extra):
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
    place = _find_insertion(segments, entry)
    before = "".join(segment.raw for segment in segments[max(0, place - 2) : place])
    gap = ""
    if before and not before.endswith(("\n\n", "\n\r\n")):
        gap = "\n" if before.endswith("\n") else "\n\n"
    after = segments[place].raw if place < len(segments) else "\n"
    tail = "" if after.startswith(("\n", "\r\n")) else "\n"
    raw = (gap + text + tail).replace("\n", newline)
    segments.insert(place, Segment(raw, 0, entry))


def _find_insertion(segments: Sequence[Segment], entry: Entry) -> int:
    """Return the index after the last entry that sorts before `entry`.

    If none does it is that of the first entry, else the end.
    """
    keys = [
        (place, _sort_key(segment.entry))
        for place, segment in enumerate(segments)
        if segment.entry is not None
    ]
    for place, key in reversed(keys):
        if key <= _sort_key(entry):
            return place + 1
    return keys[0][0] if keys else len(segments)


def _update_segment(segment: Segment, entry: Entry) -> Segment:
    """Return a segment with the lines that differ rewritten; other lines keep their endings."""
    before = segment.entry
    if before is None or before == entry:
        return segment
    opening, *lines = segment.raw.split("\n")
    size = len(segment.head)
    head = edit_front_matter(lines[:size], segment.fields, before, entry)
    closing = lines[size]
    body = lines[size + 1 :]
    if (entry.title, entry.body) != (before.title, before.body):
        new_lines = format_entry(entry).removesuffix("\n").split("\n")
        text = "\n".join(new_lines[len(format_front_matter(entry)) + 2 :])
        ending = "\r\n" if opening.endswith("\r") else "\n"
        tail = segment.raw[len(segment.raw.rstrip("\r\n")) :]
        body = (text.replace("\n", ending) + tail).split("\n")
    return Segment("\n".join([opening, *head, closing, *body]), 0, entry)


def _sort_key(entry: Entry) -> tuple[date, str]:
    return entry.created_at or date.min, entry.id


def _find_places(path: str, entry_id: str, places: Mapping[str, list[int]]) -> list[int]:
    """Return the places of the entries with an id.

    Raises:
        UnreadableMemoryError: no entry has it (entry-missing).
    """
    if places.get(entry_id):
        return places[entry_id]
    message = f"{path} has no readable entry {entry_id}"
    raise UnreadableMemoryError(message, slug="entry-missing", hint="Run `memory-ci check`.")


def apply_changes(files: Mapping[str, bytes], changes: Sequence[Change]) -> dict[str, bytes | None]:
    """Apply the changes of a plan to files.

    Args:
        files: the content of the touched files; an absent file is new.
        changes: the changes.

    Returns:
        The new content of each touched file; None for a deleted file, whose entry moved or which
        promotion left empty.

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
        moved = [
            (change.entry, _find_moved_text(change, files))
            for change in file_changes
            if change.kind == "move"
        ]
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
            contents[change.moved_from] = None
    return contents


def _list_entries(changes: Sequence[Change], kind: str) -> list[Entry]:
    return [change.entry for change in changes if change.kind == kind]


def _require_utf8(file: MemoryFile) -> None:
    for finding in file.findings:
        if finding.code == "not-utf8":
            message = f"{file.path}:{finding.line}: {finding.message}"
            raise UnreadableMemoryError(message, slug="not-utf8", hint=finding.hint)


def _find_moved_text(change: Change, files: Mapping[str, bytes]) -> str:
    """Return the text of an entry that moves: its own if that is still the entry, else canonical.

    Its own text has its comments and its spacing.
    """
    source = parse_memory_file("", files.get(change.moved_from or "", b""))
    text = entry_text(source)
    if text is not None and _is_text_of(text, change.entry):
        return text
    return format_entry(change.entry)


# -- The canonical form of a memory file: one way to write its entries, with every word kept.


def canonical_file(path: str, data: bytes) -> bytes:
    """Return a file with each readable entry in canonical form, and one blank line around it.

    Prose, text that cannot be read, the byte order mark and line endings are kept.

    Raises:
        UnreadableMemoryError: the result would not read back as the same entries
            (unsafe-rewrite).
    """
    file = parse_memory_file(path, data)
    if not file.entries:
        return data
    segments: list[Segment] = []
    for segment, follower in zip(file.segments, (*file.segments[1:], None), strict=True):
        raw = segment.raw
        text = _format_canonically(segment)
        if text is not None:
            gap = "\n" if follower else ""
            raw = (text + gap).replace("\n", file.newline)
        elif _needs_gap(segment, follower):
            raw += file.newline
        segments.append(Segment(raw, 0))
    result = render_memory_file(replace(file, segments=tuple(segments)))
    if _content(parse_memory_file(path, result)) != _content(file):
        raise UnreadableMemoryError(
            f"{path} cannot be formatted safely", slug="unsafe-rewrite", hint=UNSAFE_HINT
        )
    return result


def _needs_gap(segment: Segment, follower: Segment | None) -> bool:
    """Return whether prose is followed by an entry without a blank line between them."""
    if follower is None or follower.entry is None or segment.is_broken:
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
    old_lines = segment.raw.replace("\r\n", "\n").split("\n")[len(segment.head) + 2 :]
    first_line = next((line for line in old_lines if line.strip()), "")
    body = entry.body.split("\n") if entry.body else []
    if parse_title(first_line) is not None:
        title = "## " + first_line.lstrip(" ").lstrip("#").strip(" \t")
        body = [title, "", *body] if body else [title]
    head = _canonical_head(segment.head, segment.fields, entry)
    text = "\n".join(["---", *head, "---", *body]) + "\n"
    return text if _is_text_of(text, entry) else None


def _canonical_head(head: Sequence[str], fields: Sequence[Field], entry: Entry) -> list[str]:
    """Return a front matter with known keys in canonical order, then the unknown ones in theirs.

    A comment at the start of a line belongs to the key below it, an indented one to the value that
    it is in. Blank lines between keys are dropped.
    """
    order = {key: position for position, key in enumerate(CONVERTERS)}
    blocks: list[tuple[int, list[str]]] = []
    comments = head[: fields[0].first]
    ends = [*(field.first for field in fields[1:]), len(head)]
    for field, end in zip(fields, ends, strict=True):
        last = end
        while not head[last - 1].strip() or head[last - 1].startswith("#"):
            last -= 1
        block = [line for line in comments if line.strip()]
        block += _canonical_field(field, head[field.first : last], entry)
        blocks.append((order.get(field.key, len(order)), block))
        comments = head[last:end]
    blocks.sort(key=lambda pair: pair[0])

    lines: list[str] = []
    for _, block in blocks:
        lines += block
    return lines + [line for line in comments if line.strip()]


def _canonical_field(field: Field, old_lines: Sequence[str], entry: Entry) -> Sequence[str]:
    """Return the canonical lines of a field.

    The old lines are returned if the field is unknown or of several lines, or if it would lose a
    comment.
    """
    key, value = field.key, field.value
    texts = (value,) if isinstance(value, str) else value or ()
    if key not in CONVERTERS or any("\n" in text for text in texts):
        return old_lines
    if key in DATES and isinstance(value, str) and value.strip():
        new_lines = [f"{key}: {quote_scalar(value.strip())}"]  # With its time, if it has one.
    else:
        new_lines = format_field(key, getattr(entry, key))
    # A `#` that is not of the value is a comment; with a backslash, which may escape one, any is.
    before = "\n".join(old_lines)
    after = "\n".join(new_lines)
    has_comment = before.count("#") > after.count("#") or ("#" in before and "\\" in before)
    return old_lines if has_comment else new_lines
