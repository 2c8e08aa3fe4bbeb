"""By hand: what a person wrote into a memory file without the form of an entry, named, and given that form."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, Entry, EntryType, new_entry
from memory_ci.records.report import Finding
from memory_ci.store.document import (
    MemoryFile,
    Segment,
    parse_memory_file,
    render_memory_file,
    split_body,
)
from memory_ci.store.frontmatter import (
    CONVERTERS,
    REQUIRED,
    Value,
    format_field,
    format_front_matter,
)
from memory_ci.store.headings import fenced_lines, is_heading_2, is_underlined
from memory_ci.text import did_you_mean, strip_comments

SECTION = re.compile(r"^(?=# )", re.MULTILINE)
RULE = re.compile(r"\b(?:always|never|must|do not|don't|avoid)\b", re.IGNORECASE)
HINT = "`memory-ci check --fix` makes an entry of it; if it is a part of the entry above, write it with ###."


class Adopted(msgspec.Struct, frozen=True):
    """What a place in a file was given: the fields of a whole front matter, or those that it lacked."""

    path: str
    line: int
    title: str
    fields: tuple[str, ...]


def find_remarks(file: MemoryFile, *, serves_prose: bool) -> Iterator[Finding]:
    """Headings that are no entry of their own, and keys that nobody knows. Where prose is served, it may have both."""
    for segment in file.segments:
        for at in _loose_headings(segment, serves_prose=serves_prose):
            message = "a heading without front matter is no entry of its own"
            yield Finding(file.path, segment.line + at, "loose-heading", message, HINT)
        absent = CONVERTERS.keys() - {field.key for field in segment.fields}
        for field in segment.fields:
            if field.key not in CONVERTERS:
                message = f"the key {field.key!r} is not known{did_you_mean(field.key, absent)}"
                yield Finding(
                    file.path,
                    segment.line + 1 + field.first,
                    "unknown-key",
                    message,
                    level="warning",
                )


def adopt(
    path: str, data: bytes, today: date, *, serves_prose: bool, past: Collection[str] = ()
) -> tuple[bytes, tuple[Adopted, ...]]:
    """The file with a front matter over each loose heading, and what is required in each that lacks some of it. Lines
    are added, and none is changed. What stands there under a misspelt key is not added. No new id is in `past`."""
    file = parse_memory_file(path, data)
    taken = set(past) | {
        field.value for segment in file.segments for field in segment.fields if field.key == "id"
    }
    ending = "\r" if file.newline == "\r\n" else ""
    segments: list[Segment] = []
    adopted: list[Adopted] = []
    for segment in file.segments:
        lines = segment.raw.split("\n")
        headings = _loose_headings(segment, serves_prose=serves_prose)
        missing, size = _missing(segment), len(segment.head) + 1
        whole = (
            _draft(path, lines[size + 1 : headings[0] if headings else None], today, taken)
            if missing
            else None
        )
        drafts = [
            _draft(path, lines[at:end], today, taken)
            for at, end in pairwise([*headings, len(lines)])
        ]
        for at, entry in reversed(list(zip(headings, drafts, strict=True))):
            gap = [""] if at and lines[at - 1].strip() else []
            new = [*gap, "---", *format_front_matter(entry), "---"]
            lines[at:at] = [line + ending for line in new]
            adopted.append(Adopted(path, segment.line + at, entry.title, ()))
        if whole is not None:
            new = [line for key in missing for line in format_field(key, getattr(whole, key))]
            lines[size:size] = [line + ending for line in new]
            adopted.append(Adopted(path, segment.line, whole.title, missing))
        segments.append(replace(segment, raw="\n".join(lines)))
    adopted.sort(key=lambda one: one.line)
    return render_memory_file(replace(file, segments=tuple(segments))), tuple(adopted)


def demote_headings(body: str) -> str:
    """A body whose level-2 headings, with which entries begin, are of level 3.

    >>> demote_headings("Why:\\n## Details"), demote_headings("Details\\n-------\\nMore.")
    ('Why:\\n### Details', '### Details\\nMore.')
    """
    lines = body.split("\n")
    plain = [
        "" if is_fenced else line
        for line, is_fenced in zip(lines, fenced_lines(lines), strict=True)
    ]
    for at in reversed(range(len(lines))):
        if is_heading_2(plain[at]):
            lines[at] = lines[at].replace("##", "###", 1)
        elif is_underlined(plain, at):
            lines[at : at + 2] = [f"### {lines[at].strip()}"]
    return "\n".join(lines)


def _loose_headings(segment: Segment, *, serves_prose: bool) -> list[int]:
    """The lines, 0-based in the segment, of level-2 headings; the first line of an entry's text is its title."""
    is_entry = bool(segment.fields)
    if (segment.is_broken or serves_prose) and not is_entry:
        return []
    lines = segment.raw.replace("\r\n", "\n").split("\n")
    fenced = fenced_lines(lines)
    start = len(segment.head) + 2 if is_entry else 0
    # The parser knows no comments: they open no fence, and none goes on behind a level-1 heading, which ends an entry.
    sections = SECTION.split(
        "\n".join("" if fenced[at] else lines[at] for at in range(start, len(lines)))
    )
    plain = "".join(strip_comments(section, keeps_lines=True) for section in sections).split("\n")
    said = [at for at, line in enumerate(plain, start) if line.strip() or fenced[at]]
    return [
        at
        for at in said[is_entry:]
        if is_heading_2(plain[at - start]) or is_underlined(plain, at - start)
    ]


def _missing(segment: Segment) -> tuple[str, ...]:
    """What is required and stands in a front matter under no name that could be meant for it."""
    keys = {field.key for field in segment.fields}
    absent = [key for key in REQUIRED if key not in keys] if keys else []
    return tuple(
        key
        for key in absent
        if not any(did_you_mean(other, [key]) for other in keys - CONVERTERS.keys())
    )


def _draft(path: str, lines: Sequence[str], today: date, taken: set[Value]) -> Entry:
    """An entry of what a person wrote: its words decide the type, and the id, so that two clones give it the same. The
    id is none of those that are taken, and is taken then."""
    title, body = split_body([line.removesuffix("\r") for line in lines])
    entry_id = imported_id(path, title or "", body)
    while entry_id in taken:
        entry_id = imported_id(entry_id)
    taken.add(entry_id)
    type_: EntryType = "directive" if RULE.search(title or body) else "procedural"
    return new_entry(entry_id, title or "", body, (type_, "task", NEW_IMPORTANCE), today)


def imported_id(source: str, *texts: str) -> str:
    """A UUID (version 4 layout, RFC 9562 section 5.4) made of where a text comes from and its words. White space and
    case do not count, nor does the file: importing a text again gives the same id."""
    seed = "\0".join((source, *(" ".join(text.lower().split()) for text in texts)))
    return str(uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4))
