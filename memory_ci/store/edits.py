"""Edits of a memory file, one entry at a time; the rest keeps its bytes. A plan's changes, on texts (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from msgspec.structs import replace

from memory_ci.errors import UnreadableMemoryError, UsageError
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Change
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

UNSAFE_HINT = (
    "Run `memory-ci check` and mend what it names; an unclosed code fence is the usual cause."
)


def format_entry(entry: Entry) -> str:
    """The canonical text of an entry, ending in one newline. Its inverse is parse_memory_file. Raises UsageError
    (entry-not-writable) for what would not read back as written: a title of two lines, a body with a level-1 heading or
    a `---` block that looks like another entry outside a code fence, half a character anywhere."""
    text = _written(entry)
    if _reads_as(text, entry):
        return text
    part, hint = (
        "body",
        "Use headings from ### on in it, and put anything between two --- lines into a code fence.",
    )
    bare = replace(entry, body="")
    if (field := find_unwritable(entry)) is not None:
        hint = "Give it a value that `memory-ci help formats` allows, in characters that UTF-8 has."
        part = f"field {field!r}"
    elif not _reads_as(_written(bare), bare):
        part, hint = "title", "Write the title as one line of text, without blanks around it."
    elif SURROGATE.search(entry.body):
        hint = "Write it in characters that UTF-8 has."
    message = (
        f"the entry {entry.title!r} would not read back as it is written, because of its {part}"
    )
    raise UsageError(message, slug="entry-not-writable", hint=hint)


def _written(entry: Entry) -> str:
    body = f"\n\n{entry.body}" if entry.body else ""
    return (
        "\n".join(["---", *format_front_matter(entry), "---", format_title(entry.title)])
        + body
        + "\n"
    )


def _reads_as(text: str, entry: Entry) -> bool:
    return (
        entry.title != ""
        and not SURROGATE.search(text)
        and parse_memory_file("", text.encode()).entries == (entry,)
    )


def entry_text(file: MemoryFile) -> str | None:
    """The text of the only entry of `file` as it stands, but for its `scope` and Windows line endings. None if the file
    holds anything else than one entry. What comes back ends in one newline."""
    said = [segment for segment in file.segments if segment.raw.strip()]
    if len(said) != 1 or said[0].entry is None:
        return None
    plain = _updated(said[0], replace(said[0].entry, scope=None))
    return plain.raw.replace("\r\n", "\n").rstrip() + "\n"


def edit_file(
    file: MemoryFile,
    *,
    added: Iterable[Entry] = (),
    moved: Iterable[tuple[Entry, str]] = (),
    updated: Iterable[Entry] = (),
    removed: Sequence[Entry] = (),
) -> MemoryFile:
    """The file with entries updated in place, some taken out, others put at their place in (created_at, id) order.
    `moved` are entries that are put in with the text that they have. Where one id stands several times, an update is of
    the one with its title and body, and so is a removal, of several such ones the last; but where the id is taken out
    as well, copies become one: then the first is updated.
    An update rewrites the front matter line by line, and the body only if it differs. Raises UnreadableMemoryError:
    entry-missing for an update or removal of what is not there, unsafe-rewrite if the result would not read back as
    every old entry plus the new ones."""
    segments = _changed(file, updated, removed)
    for entry, text in [*((entry, format_entry(entry)) for entry in added), *moved]:
        insert_entry(segments, entry, text, file.newline)
    # Read again from its own bytes: proof that no entry was lost or torn by the edit.
    expected = sorted(segment.entry.id for segment in segments if segment.entry is not None)
    edited = parse_memory_file(
        file.path, render_memory_file(replace(file, segments=tuple(segments)))
    )
    if sorted(entry.id for entry in edited.entries) != expected:
        message = f"{file.path} cannot be rewritten without tearing an entry"
        raise UnreadableMemoryError(message, slug="unsafe-rewrite", hint=UNSAFE_HINT)
    return edited


def _changed(file: MemoryFile, updated: Iterable[Entry], removed: Sequence[Entry]) -> list[Segment]:
    """The segments that stay, those of updated entries with their new text."""
    entries = {
        place: segment.entry
        for place, segment in enumerate(file.segments)
        if segment.entry is not None
    }
    places: dict[str, list[int]] = defaultdict(list)
    for place, known in entries.items():
        places[known.id].append(place)
    gone = {entry.id for entry in removed}
    for entry in updated:
        twins = _existing(file.path, entry.id, places)
        chosen = 0 if entry.id in gone else choose_twin([entries[place] for place in twins], entry)
        entries[twins[chosen]] = entry
    for entry in removed:
        twins = _existing(file.path, entry.id, places)
        last_first = [entries[place] for place in reversed(twins)]
        del entries[twins.pop(-1 - choose_twin(last_first, entry))]
    return [
        segment if segment.entry is None else _updated(segment, entries[place])
        for place, segment in enumerate(file.segments)
        if segment.entry is None or place in entries
    ]


def choose_twin(twins: Sequence[Entry], entry: Entry) -> int:
    """Which of several entries of one id `entry` is a state of: the one that says the same, else the first."""
    text = entry.title, entry.body, entry.extra
    return next(
        (at for at, twin in enumerate(twins) if (twin.title, twin.body, twin.extra) == text), 0
    )


def insert_entry(segments: list[Segment], entry: Entry, text: str, newline: str) -> None:
    """Put an entry, of which `text` is written with one newline at its end, at its place in (created_at, id) order."""
    # After the last entry that sorts before it; before the first entry if none does; else at the end.
    places = [
        (place, _key(one.entry)) for place, one in enumerate(segments) if one.entry is not None
    ]
    earlier = [place for place, key in places if key <= _key(entry)]
    place = earlier[-1] + 1 if earlier else places[0][0] if places else len(segments)
    before = "".join(segment.raw for segment in segments[max(0, place - 2) : place])
    gap = (
        ""
        if not before or before.endswith(("\n\n", "\n\r\n"))
        else "\n"
        if before.endswith("\n")
        else "\n\n"
    )
    follows = segments[place].raw if place < len(segments) else "\n"
    tail = "" if follows.startswith(("\n", "\r\n")) else "\n"
    raw = (gap + text + tail).replace("\n", newline)
    segments.insert(place, Segment(raw, 0, entry))


def _updated(segment: Segment, entry: Entry) -> Segment:
    """The segment with the lines that differ rewritten; every other line keeps its own ending."""
    before = segment.entry
    if before is None or before == entry:
        return segment
    opening, *lines = segment.raw.split("\n")
    size = len(segment.head)
    head = edit_front_matter(lines[:size], segment.fields, before, entry)
    rest = lines[size + 1 :]
    if (entry.title, entry.body) != (before.title, before.body):
        text = "\n".join(
            format_entry(entry)
            .removesuffix("\n")
            .split("\n")[len(format_front_matter(entry)) + 2 :]
        )
        ending = "\r\n" if opening.endswith("\r") else "\n"
        tail = segment.raw[len(segment.raw.rstrip("\r\n")) :]
        rest = (text.replace("\n", ending) + tail).split("\n")
    return Segment("\n".join([opening, *head, lines[size], *rest]), 0, entry)


def _key(entry: Entry) -> tuple[date, str]:
    return entry.created_at or date.min, entry.id


def _existing(path: str, entry_id: str, places: Mapping[str, list[int]]) -> list[int]:
    if places.get(entry_id):
        return places[entry_id]
    message = f"{path} has no readable entry {entry_id}"
    raise UnreadableMemoryError(message, slug="entry-missing", hint="Run `memory-ci check`.")


def apply_changes(files: Mapping[str, bytes], changes: Sequence[Change]) -> dict[str, bytes | None]:
    """The new content of every file the changes touch; None for a file that goes away, as one that promotion empties.
    `files` holds the present content of the touched files; one that is absent from it is new. Raises
    UnreadableMemoryError if a file cannot be edited without losing something."""
    by_path: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_path[change.path].append(change)
    written: dict[str, bytes | None] = {}
    for path, group in by_path.items():
        added, updated, removed = (
            [change.entry for change in group if change.kind == kind]
            for kind in ("add", "update", "remove")
        )
        moved = [(change.entry, _text(change, files)) for change in group if change.kind == "move"]
        if added or moved or updated or removed:
            file = parse_memory_file(path, files.get(path, b""))
            if bad := next(
                (finding for finding in file.findings if finding.code == "not-utf8"), None
            ):
                raise UnreadableMemoryError(
                    f"{path}:{bad.line}: {bad.message}", slug="not-utf8", hint=bad.hint
                )
            text = render_memory_file(
                edit_file(file, added=added, moved=moved, updated=updated, removed=removed)
            )
            is_left_empty = removed and group[0].step == "promote" and not text.strip()
            written[path] = None if is_left_empty else text
    return written | {
        change.moved_from: None for change in changes if change.moved_from is not None
    }


def _text(change: Change, files: Mapping[str, bytes]) -> str:
    """The text an entry moves with: its own, with its comments and its spacing, if that says what the change says."""
    source = parse_memory_file("", files.get(change.moved_from or "", b""))
    text = entry_text(source)
    says_the_same = text is not None and parse_memory_file("", text.encode()).entries == (
        change.entry,
    )
    return text if text is not None and says_the_same else format_entry(change.entry)


# -- the canonical form of a memory file: one way to write what it says, and every word of it kept


def canonical_file(path: str, data: bytes) -> bytes:
    """The file with each readable entry in canonical form, and one blank line between it and its neighbours. Prose,
    what cannot be read, byte order mark and line endings stay. Raises UnreadableMemoryError (unsafe-rewrite) if the
    result would not read back as the same entries."""
    file = parse_memory_file(path, data)
    if not file.entries:
        return data
    segments: list[Segment] = []
    for segment, follower in zip(file.segments, (*file.segments[1:], None), strict=True):
        raw, text = segment.raw, _canonical_text(segment)
        if text is not None:
            raw = (text + ("\n" if follower else "")).replace("\n", file.newline)
        elif follower is not None and follower.entry is not None and not segment.is_broken:
            is_tight = raw.strip() and not raw.endswith(("\n\n", "\n\r\n"))
            raw += file.newline if is_tight else ""
        segments.append(Segment(raw, 0))
    result = render_memory_file(replace(file, segments=tuple(segments)))
    if _content(parse_memory_file(path, result)) != _content(file):
        raise UnreadableMemoryError(
            f"{path} cannot be formatted safely", slug="unsafe-rewrite", hint=UNSAFE_HINT
        )
    return result


def _content(file: MemoryFile) -> tuple[tuple[Entry, ...], list[str]]:
    return file.entries, sorted(finding.code for finding in file.findings)


def _canonical_text(segment: Segment) -> str | None:
    """The canonical text of an entry; None for what is no entry, and for one that would read back otherwise. The title
    line, a blank line, the body. What has no title line is not given one: that is for a person to word."""
    entry = segment.entry
    if entry is None:
        return None
    lines = segment.raw.replace("\r\n", "\n").split("\n")[len(segment.head) + 2 :]
    first = next((line for line in lines if line.strip()), "")
    body = entry.body.split("\n") if entry.body else []
    if parse_title(first) is not None:
        title = "## " + first.lstrip(" ").lstrip("#").strip(" \t")
        body = [title, "", *body] if body else [title]
    text = (
        "\n".join(["---", *_canonical_head(segment.head, segment.fields, entry), "---", *body])
        + "\n"
    )
    return text if parse_memory_file("", text.encode()).entries == (entry,) else None


def _canonical_head(head: Sequence[str], fields: Sequence[Field], entry: Entry) -> list[str]:
    """Known keys in canonical order, then the unknown ones in theirs; each with the comments above it. A comment at the
    start of a line belongs to the key below it; an indented one, to the value that it stands in. Blank lines between
    keys are dropped."""
    order = {key: place for place, key in enumerate(CONVERTERS)}
    blocks: list[tuple[int, list[str]]] = []
    comments = head[: fields[0].first]
    for field, end in zip(fields, [*(field.first for field in fields[1:]), len(head)], strict=True):
        last = end
        while not head[last - 1].strip() or head[last - 1].startswith("#"):
            last -= 1
        own = _canonical_field(field, head[field.first : last], entry)
        blocks.append((order.get(field.key, len(order)), [*filter(str.strip, comments), *own]))
        comments = head[last:end]
    blocks.sort(key=lambda block: block[0])
    return [*(line for _, lines in blocks for line in lines), *filter(str.strip, comments)]


def _canonical_field(field: Field, old: Sequence[str], entry: Entry) -> Sequence[str]:
    """The canonical lines of a field; its own where it is unknown, of several lines, or would lose a comment."""
    key, value = field.key, field.value
    if key not in CONVERTERS or any(
        "\n" in text for text in ((value,) if isinstance(value, str) else value or ())
    ):
        return old
    if key in DATES and isinstance(value, str) and value.strip():
        new = [f"{key}: {quote_scalar(value.strip())}"]  # with its time, if it has one
    else:
        new = format_field(key, getattr(entry, key))
    # A `#` that is not of the value is a comment; where an escape may be one, better yes than no.
    before, after = "\n".join(old), "\n".join(new)
    has_comment = before.count("#") > after.count("#") or ("#" in before and "\\" in before)
    return old if has_comment else new
