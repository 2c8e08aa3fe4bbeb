"""Make entries of notes that a person wrote into a memory file without front matter."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, Entry, EntryType, create_entry
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.document import (
    MemoryFile,
    Segment,
    parse_memory_file,
    render_memory_file,
    split_body,
)
from memory_ci.store.frontmatter import (
    CONVERTERS,
    Value,
    format_field,
    format_front_matter,
    list_missing_keys,
)
from memory_ci.store.headings import is_heading_2, is_underlined, mark_fenced_lines
from memory_ci.text import did_you_mean, spell_negations, strip_comments

# The empty text before a heading of level 1, at which a file is split into sections.
SECTION_START = Regex(r"^(?=# )", re.MULTILINE)
# A word by which a note is a directive: `never`.
DIRECTIVE_WORD = Regex(r"\b(?:always|never|must|do not|don't|avoid)\b", re.IGNORECASE)
HINT = (
    "`memory-ci check --fix` makes an entry of it; "
    "if it is a part of the entry above, write it with ###."
)


class AdoptedNote(msgspec.Struct, frozen=True):
    """A note that was made an entry.

    Attributes:
        path: the path of its file.
        line: its line.
        title: its title.
        fields: the required fields that were added; none if a whole front matter was.
    """

    path: str
    line: int
    title: str
    fields: tuple[str, ...]


def list_note_findings(file: MemoryFile, *, may_have_prose: bool) -> Iterator[Finding]:
    """Yield findings on headings without front matter and on unknown keys.

    Args:
        file: a memory file.
        may_have_prose: whether the file may have prose, and so headings, next to entries.
    """
    for segment in file.segments:
        for number in _find_loose_headings(segment, may_have_prose=may_have_prose):
            message = "a heading without front matter is no entry of its own"
            yield Finding(file.path, segment.line + number, "loose-heading", message, HINT)
        absent_keys = CONVERTERS.keys() - {field.key for field in segment.fields}
        for field in segment.fields:
            if field.key not in CONVERTERS:
                first_field_line = segment.line + 1  # Below the line `---`.
                line = first_field_line + field.first
                suggestion = did_you_mean(field.key, absent_keys)
                message = f"the key {field.key!r} is not known{suggestion}"
                yield Finding(file.path, line, "unknown-key", message, level="warning")


def adopt_notes(
    path: str, data: bytes, today: date, *, may_have_prose: bool, reserved_ids: Collection[str] = ()
) -> tuple[bytes, tuple[AdoptedNote, ...]]:
    """Make entries of the notes in a memory file, by adding lines; no line is changed.

    A note is the text below a heading of level 2 that has no front matter: it gets one. A front
    matter gets the required fields that it lacks, apart from those that it has under a misspelt
    key.

    Args:
        path: the path of a memory file.
        data: its content.
        today: the day of the new entries.
        may_have_prose: whether the file may have prose, and so headings, next to entries.
        reserved_ids: ids that no new entry may have.

    Returns:
        The new content, and the notes that were made entries.
    """
    file = parse_memory_file(path, data)
    used_ids: set[Value] = set(reserved_ids)
    for segment in file.segments:
        used_ids.update(field.value for field in segment.fields if field.key == "id")
    ending = "\r" if file.newline == "\r\n" else ""
    adopter = _Adopter(path, today, ending, used_ids)
    segments: list[Segment] = []
    for segment in file.segments:
        headings = _find_loose_headings(segment, may_have_prose=may_have_prose)
        segments.append(adopter.adopt_segment(segment, headings))
    adopter.adopted.sort(key=lambda adopted: adopted.line)
    content = render_memory_file(replace(file, segments=tuple(segments)))
    return content, tuple(adopter.adopted)


class _Adopter:
    """Makes entries of the notes in a file, and collects them in `adopted`."""

    def __init__(self, path: str, today: date, ending: str, used_ids: set[Value]) -> None:
        self.adopted: list[AdoptedNote] = []
        self._path = path
        self._today = today
        self._ending = ending
        self._used_ids = used_ids

    def adopt_segment(self, segment: Segment, headings: Sequence[int]) -> Segment:
        """Return a segment with front matter added.

        Args:
            segment: a segment.
            headings: the lines of its headings that have no front matter, 0-based.
        """
        lines = segment.raw.split("\n")
        missing_keys = _list_keys_to_add(segment)
        closing = len(segment.head) + 1  # The line `---` after the front matter.
        completed_entry: Entry | None = None
        if missing_keys:
            text_end = headings[0] if headings else None
            completed_entry = self._draft_entry(lines[closing + 1 : text_end])
        new_entries: list[tuple[int, Entry]] = []  # With the line of the heading.
        for number, end in pairwise([*headings, len(lines)]):
            new_entries.append((number, self._draft_entry(lines[number:end])))

        # From the end, so that the numbers of the lines above stay right.
        for number, entry in reversed(new_entries):
            needs_gap = number > 0 and lines[number - 1].strip() != ""
            gap = [""] if needs_gap else []
            self._insert_lines(lines, number, [*gap, "---", *format_front_matter(entry), "---"])
            self.adopted.append(AdoptedNote(self._path, segment.line + number, entry.title, ()))
        if completed_entry is not None:
            field_lines: list[str] = []
            for key in missing_keys:
                field_lines += format_field(key, getattr(completed_entry, key))
            self._insert_lines(lines, closing, field_lines)
            note = AdoptedNote(self._path, segment.line, completed_entry.title, missing_keys)
            self.adopted.append(note)
        return replace(segment, raw="\n".join(lines))

    def _insert_lines(self, lines: list[str], number: int, new_lines: Sequence[str]) -> None:
        """Insert lines before the line `number`, with the line ending of the file."""
        lines[number:number] = [line + self._ending for line in new_lines]

    def _draft_entry(self, lines: Sequence[str]) -> Entry:
        """Return an entry with the title and the text of a note.

        Its type and its id are made from its words: two clones that adopt the note give it the same
        id. If the id is used already, it gets another.
        """
        title, body = split_body([line.removesuffix("\r") for line in lines])
        entry_id = derive_id(self._path, title or "", body)
        while entry_id in self._used_ids:
            entry_id = derive_id(entry_id)
        self._used_ids.add(entry_id)
        is_rule = DIRECTIVE_WORD.search(spell_negations(title or body))
        entry_type: EntryType = "directive" if is_rule else "procedural"
        return create_entry(
            entry_id,
            title or "",
            body,
            self._today,
            type_=entry_type,
            domain="task",
            importance=NEW_IMPORTANCE,
        )


def demote_headings(body: str) -> str:
    r"""Return a body with headings of level 2, which begin entries, changed to level 3.

    >>> demote_headings("Why:\n## Details"), demote_headings("Details\n-------\nMore.")
    ('Why:\n### Details', '### Details\nMore.')
    """
    lines = body.split("\n")
    unfenced = _blank_fenced(lines)
    for number in reversed(range(len(lines))):
        if is_heading_2(unfenced[number]):
            lines[number] = lines[number].replace("##", "###", 1)
        elif is_underlined(unfenced, number):
            lines[number : number + 2] = [f"### {lines[number].strip()}"]
    return "\n".join(lines)


def _find_loose_headings(segment: Segment, *, may_have_prose: bool) -> list[int]:
    """Return the lines, 0-based in the segment, of headings of level 2 without front matter.

    The first line of an entry's text is its title, and does not count. Where prose is allowed, and
    in text that cannot be read, only headings inside of an entry count.
    """
    is_entry = bool(segment.fields)
    may_have_headings = may_have_prose or segment.is_broken
    if may_have_headings and not is_entry:
        return []
    lines = segment.raw.replace("\r\n", "\n").split("\n")
    fenced = mark_fenced_lines(lines)
    text_start = 0
    if is_entry:
        text_start = len(segment.head) + 2  # Below the two lines `---`.
    # The lines of code and comments are blank in it; so are those above the text.
    plain_lines = [""] * text_start + _blank_comments(_blank_fenced(lines)[text_start:])

    first = text_start
    if is_entry:  # Its title is the first line that is neither blank nor a comment.
        while first < len(lines) and not fenced[first] and not plain_lines[first].strip():
            first += 1
        first += 1
    headings: list[int] = []
    for number in range(first, len(lines)):
        if is_heading_2(plain_lines[number]) or is_underlined(plain_lines, number):
            headings.append(number)
    return headings


def _blank_fenced(lines: Sequence[str]) -> list[str]:
    """Return lines with "" in place of those in code blocks."""
    fenced = mark_fenced_lines(lines)
    return ["" if is_fenced else line for line, is_fenced in zip(lines, fenced, strict=True)]


def _blank_comments(lines: Sequence[str]) -> list[str]:
    """Return as many lines without the text of HTML comments.

    A comment that is not closed ends before the next heading of level 1, because that heading ends
    an entry for the parser, which knows no comments.
    """
    text = "\n".join(lines)
    if "<!--" not in text:
        return list(lines)
    sections = SECTION_START.split(text)
    without_comments = "".join(strip_comments(section, keeps_lines=True) for section in sections)
    return without_comments.split("\n")


def _list_keys_to_add(segment: Segment) -> tuple[str, ...]:
    """Return the required keys that are added to a front matter: those that it lacks.

    A key that it has under a misspelt name is not added: a person corrects the name.
    """
    if not segment.fields:
        return ()
    keys = {field.key for field in segment.fields}
    unknown_keys = keys - CONVERTERS.keys()
    missing_keys: list[str] = []
    for key in list_missing_keys(segment.fields):
        is_misspelt = any(did_you_mean(unknown, [key]) for unknown in unknown_keys)
        if key not in keys and not is_misspelt:
            missing_keys.append(key)
    return tuple(missing_keys)


def derive_id(source: str, *texts: str) -> str:
    """Return a UUID that is the hash of a source and the words of texts.

    White space and case do not count: to import a text again gives the same id. The UUID has the
    layout of version 4 (RFC 9562 section 5.4).
    """
    import hashlib  # Not at the top: the import takes 4 ms, and no check needs it.

    normalized_texts = [" ".join(text.lower().split()) for text in texts]
    seed = "\0".join((source, *normalized_texts))
    first_bytes = hashlib.sha256(seed.encode()).digest()[:16]
    return str(uuid.UUID(bytes=first_bytes, version=4))
