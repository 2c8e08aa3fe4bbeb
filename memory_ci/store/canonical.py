"""The canonical form of a memory file: one way to write what it says, and every word of it kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UnreadableMemoryError
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file, render_memory_file
from memory_ci.store.frontmatter import CONVERTERS, format_field
from memory_ci.store.headings import parse_title
from memory_ci.store.yamltext import Field, quote_scalar

DATES = ("last_reinforced", "created_at", "occurred_at", "valid_until", "promoted_at")


class _Block(msgspec.Struct, frozen=True):
    """A key of a front matter: the comments above it, and its own lines as they stand."""

    field: Field
    comments: tuple[str, ...]
    lines: tuple[str, ...]


def canonical_file(path: str, data: bytes) -> bytes:
    """The file with each readable entry in canonical form, and one blank line between it and its neighbours.

    Prose, what cannot be read, byte order mark and line endings stay. Raises UnreadableMemoryError (unsafe-rewrite)
    if the result would not read back as the same entries.
    """
    file = parse_memory_file(path, data)
    if not file.entries:
        return data
    segments = tuple(Segment(raw, 0) for raw in _layout(file))
    result = render_memory_file(replace(file, segments=segments))
    if _content(parse_memory_file(path, result)) != _content(file):
        hint = "Run `memory-ci check` and mend what it names; an unclosed code fence is the usual cause."
        raise UnreadableMemoryError(f"{path} cannot be formatted safely", slug="unsafe-rewrite", hint=hint)
    return result


def _content(file: MemoryFile) -> tuple[tuple[Entry, ...], list[str]]:
    return file.entries, sorted(finding.code for finding in file.findings)


def _layout(file: MemoryFile) -> Iterator[str]:
    """The raw text of each segment, in the line endings of the file."""
    for segment, follower in zip(file.segments, (*file.segments[1:], None), strict=True):
        text = _canonical_text(segment)
        if text is not None:
            yield (text + ("\n" if follower else "")).replace("\n", file.newline)
        elif follower is not None and follower.entry is not None and not segment.is_broken and _ends_tight(segment.raw):
            yield segment.raw + file.newline
        else:
            yield segment.raw


def _ends_tight(raw: str) -> bool:
    return bool(raw.strip()) and not raw.endswith(("\n\n", "\n\r\n"))


def _canonical_text(segment: Segment) -> str | None:
    """The canonical text of an entry; None for what is no entry, and for one that would read back otherwise."""
    if segment.entry is None:
        return None
    rest = segment.raw.replace("\r\n", "\n").split("\n")[len(segment.head) + 2 :]
    head = _canonical_head(segment.head, segment.fields, segment.entry)
    text = "\n".join(["---", *head, "---", *_canonical_body(rest, segment.entry)]) + "\n"
    return text if parse_memory_file("", text.encode()).entries == (segment.entry,) else None


def _canonical_body(lines: Sequence[str], entry: Entry) -> list[str]:
    """The title line, a blank line, the body. What has no title line is not given one: that is for a person to word."""
    start = next((number for number, line in enumerate(lines) if line.strip()), None)
    if start is None or parse_title(lines[start]) is None:
        return entry.body.split("\n") if entry.body else []
    title = "## " + lines[start].lstrip(" ").lstrip("#").strip(" \t")
    return [title, "", *entry.body.split("\n")] if entry.body else [title]


def _canonical_head(head: Sequence[str], fields: Sequence[Field], entry: Entry) -> list[str]:
    """Known keys in canonical order, then the unknown ones in theirs; each with the comments above it."""
    blocks, trailing = _blocks(head, fields)
    order = {key: place for place, key in enumerate(CONVERTERS)}
    ordered = sorted(blocks, key=lambda block: order.get(block.field.key, len(order)))
    lines = [line for block in ordered for line in (*block.comments, *_canonical_field(block, entry))]
    return [*lines, *trailing]


def _blocks(head: Sequence[str], fields: Sequence[Field]) -> tuple[list[_Block], tuple[str, ...]]:
    """The front matter cut at its keys, and the comments behind the last. Blank lines between keys are dropped.

    A comment at the start of a line belongs to the key below it; an indented one, to the value that it stands in.
    """
    blocks: list[_Block] = []
    comments = _comments(head[: fields[0].first])
    ends = [field.first for field in fields[1:]] + [len(head)]
    for field, end in zip(fields, ends, strict=True):
        last = end
        while not head[last - 1].strip() or head[last - 1].startswith("#"):
            last -= 1
        blocks.append(_Block(field, comments, tuple(head[field.first : last])))
        comments = _comments(head[last:end])
    return blocks, comments


def _comments(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if line.strip())


def _canonical_field(block: _Block, entry: Entry) -> Sequence[str]:
    """The canonical lines of a field; its own where it is unknown, of several lines, or would lose a comment."""
    key, value = block.field.key, block.field.value
    if key not in CONVERTERS or any("\n" in text for text in ((value,) if isinstance(value, str) else value or ())):
        return block.lines
    if key in DATES and isinstance(value, str) and value.strip():
        lines = [f"{key}: {quote_scalar(value.strip())}"]  # with its time, if it has one
    else:
        lines = format_field(key, getattr(entry, key))
    return block.lines if _has_comment(block.lines, lines) else lines


def _has_comment(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the old lines hold a `#` that is not of the value; where an escape may be one, better yes than no."""
    before, after = "\n".join(old), "\n".join(new)
    return before.count("#") > after.count("#") or ("#" in before and "\\" in before)
