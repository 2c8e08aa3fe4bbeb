"""Edits of a memory file, one entry at a time; whatever is not part of the edit keeps its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import msgspec

from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file, render_memory_file
from memory_ci.store.frontmatter import edit_front_matter, format_front_matter


def format_entry(entry: Entry) -> str:
    """The canonical text of an entry, ending in one newline. Its inverse is parse_memory_file.

    Raises UsageError (entry-not-writable) for a title or body that would not read back as written: a
    level-1 heading, or a `---` block that looks like another entry, outside a code fence.
    """
    body = f"\n\n{entry.body}" if entry.body else ""
    text = "\n".join(["---", *format_front_matter(entry), "---", f"## {entry.title}"]) + body + "\n"
    if not entry.title or parse_memory_file("", text.encode()).entries != (entry,):
        raise UsageError(
            f"the entry {entry.title!r} would not read back as it is written",
            slug="entry-not-writable",
            hint="Use headings from ### on in the body, and put anything between two --- lines into a code fence.",
        )
    return text


def edit_file(
    file: MemoryFile, *, added: Iterable[Entry] = (), updated: Iterable[Entry] = (), removed: Iterable[str] = ()
) -> MemoryFile:
    """The file with entries updated in place, ids taken out, others put at their place in (created_at, id) order.

    Where one id stands several times, the first is updated and the last is taken out.

    An update rewrites the front matter line by line, and the body only if it differs. Raises
    UnreadableMemoryError: entry-missing for an update or removal of what is not there, unsafe-rewrite if the
    result would not read back as every old entry plus the new ones.
    """
    segments = list(file.segments)
    for entry in updated:
        place = _find(file.path, segments, entry.id)
        segments[place] = _updated(segments[place], entry, file.newline)
    for entry_id in removed:
        del segments[_find(file.path, segments, entry_id, last=True)]
    for entry in added:
        insert_entry(segments, entry, format_entry(entry), file.newline)
    return _read_back(file, segments)


def insert_entry(segments: list[Segment], entry: Entry, text: str, newline: str) -> None:
    """Put an entry, of which `text` is written with one newline at its end, at its place in (created_at, id) order."""
    place = _place_of(segments, entry)
    before = "".join(segment.raw for segment in segments[max(0, place - 2) : place])
    gap = "" if not before or _ends_blank(before) else "\n" if before.endswith("\n") else "\n\n"
    follows = segments[place].raw if place < len(segments) else "\n"
    tail = "" if follows.startswith(("\n", "\r\n")) else "\n"
    raw = (gap + text + tail).replace("\n", newline)
    segments.insert(place, Segment(raw, 0, entry))


def _updated(segment: Segment, entry: Entry, newline: str) -> Segment:
    before = segment.entry
    assert before is not None  # noqa: S101 - _find only returns entries
    raw = segment.raw.replace("\r\n", "\n")
    opening, *lines = raw.split("\n")
    closing, *rest = lines[len(segment.head) :]
    head = edit_front_matter(segment.head, segment.fields, before, entry)
    if (entry.title, entry.body) != (before.title, before.body):
        body = format_entry(entry).removesuffix("\n").split("\n")[len(format_front_matter(entry)) + 2 :]
        rest = [*body, *raw[len(raw.rstrip("\n")) :].split("\n")[1:]]
    return Segment("\n".join([opening, *head, closing, *rest]).replace("\n", newline), 0, entry)


def _place_of(segments: Sequence[Segment], entry: Entry) -> int:
    """After the last entry that sorts before `entry`; before the first entry if none does; else at the end."""
    places = [(place, _key(s.entry)) for place, s in enumerate(segments) if s.entry is not None]
    earlier = [place for place, key in places if key <= _key(entry)]
    if earlier:
        return earlier[-1] + 1
    return places[0][0] if places else len(segments)


def _key(entry: Entry) -> tuple[date, str]:
    return entry.created_at or date.min, entry.id


def _find(path: str, segments: Sequence[Segment], entry_id: str, *, last: bool = False) -> int:
    places = [place for place, s in enumerate(segments) if s.entry is not None and s.entry.id == entry_id]
    if places:
        return places[-1 if last else 0]
    message = f"{path} has no readable entry {entry_id}"
    raise UnreadableMemoryError(message, slug="entry-missing", hint="Run `memory-ci check`.")


def _read_back(file: MemoryFile, segments: Sequence[Segment]) -> MemoryFile:
    """The edited file, read again from its own bytes: proof that no entry was lost or torn by the edit."""
    expected = sorted(segment.entry.id for segment in segments if segment.entry is not None)
    text = msgspec.structs.replace(file, segments=tuple(segments))
    edited = parse_memory_file(file.path, render_memory_file(text))
    if sorted(entry.id for entry in edited.entries) != expected:
        raise UnreadableMemoryError(
            f"{file.path} cannot be rewritten without tearing an entry",
            slug="unsafe-rewrite",
            hint="Run `memory-ci check` and mend what it names; an unclosed code fence is the usual cause.",
        )
    return edited


def _ends_blank(text: str) -> bool:
    return text.endswith(("\n\n", "\n\r\n"))
