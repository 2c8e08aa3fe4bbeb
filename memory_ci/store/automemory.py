"""Claude Code's auto memory: topic files with `name`, `description` and `type`, and older ones of plain Markdown.

The format is the one its own instructions give: a front matter, flat or with `type` under `metadata`, then the text;
MEMORY.md is an index of `- [Title](file.md)` lines. Before that, MEMORY.md and topic files were sections and bullets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from textwrap import dedent

from memory_ci.records.entry import Domain, Entry, EntryType
from memory_ci.records.report import Finding
from memory_ci.store.document import Segment, parse_memory_file
from memory_ci.store.headings import fenced_lines, parse_heading
from memory_ci.store.legacy import (
    TITLE_WIDTH,
    LegacyFile,
    LegacyLearning,
    broken_parts,
    collect,
    imported_id,
    imported_source,
    not_understood,
)
from memory_ci.store.yamltext import Field, YamlTextError, parse_fields
from memory_ci.text import shorten

SOURCE = "claude-code"
INDEX = "MEMORY.md"

TYPES: Mapping[str, tuple[EntryType, Domain]] = {
    "feedback": ("directive", "team"),
    "project": ("declarative", "task"),
    "reference": ("declarative", "team"),
}
"""What a topic's type means here. The fourth, `user`, is about one person: a repository is shared, so it is refused."""

POINTER = re.compile(r"(?:see[ \t]+)?\[[^\]]*\]\([^)\s]+\.md\).*", re.IGNORECASE | re.DOTALL)
MENTIONED = re.compile(r"[\w.-]+\.md\b")
BULLET = re.compile(r"(?:[-*+]|\d+[.)])[ \t]+(.*)")
DIRECTIVE = re.compile(
    r"\b(?:always|never|must|do not|don't|prefer\w*|rules?|conventions?|style|feedback)\b", re.IGNORECASE
)
ABOUT_ITSELF = re.compile(r"\bmemor(?:y|ies)\b", re.IGNORECASE)
"""A level-1 heading like this names the file, not its subject."""


def mentioned_files(index: str) -> frozenset[str]:
    """The names of the topic files that an index speaks of."""
    return frozenset(MENTIONED.findall(index))


def find_memories(path: str, data: bytes, today: date, *, is_listed: bool) -> LegacyFile:
    """The memories of one file. Plain Markdown is read only where `is_listed`: as the index, or named by it.

    Never raises; what is no memory is named, not guessed at.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    close = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    fields = _fields(lines[1:close]) if lines[0].rstrip() == "---" and close else {}
    if "name" in fields or "description" in fields:
        return collect([_read_topic(path, fields, lines, close, today)])
    if not is_listed:
        return LegacyFile(findings=(not_understood(path, 1, "neither a topic file nor named by MEMORY.md beside it"),))
    file = parse_memory_file(path, data)
    prose = (segment for segment in file.segments if segment.entry is None and not segment.is_broken)
    sections = (item for segment in prose for item in _read_sections(path, segment, today))
    return collect([*broken_parts(file), *sections])


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """The texts of a front matter, those under `metadata` among them; nothing when it is no plain mapping."""
    try:
        fields = parse_fields(lines)
        nested = next((field for field in fields if field.key == "metadata" and field.value is None), None)
        inner = dedent("\n".join(lines[nested.first + 1 : nested.last + 1])).split("\n") if nested else []
        return _texts(parse_fields(inner) if inner else ()) | _texts(fields)
    except YamlTextError:
        return {}


def _texts(fields: Sequence[Field]) -> dict[str, str]:
    return {field.key: field.value for field in fields if isinstance(field.value, str)}


def _read_topic(
    path: str, fields: Mapping[str, str], lines: Sequence[str], close: int, today: date
) -> LegacyLearning | Finding:
    """A topic file as one memory: titled by its name if that is a sentence, else by its description."""
    name, description = (" ".join(fields.get(key, "").split()) for key in ("name", "description"))
    kind = fields.get("type", "")
    if kind == "user":
        hint = "Keep it in a memory of that person's own, such as ~/MEMORY.md."
        return Finding(path, 1, "about-a-person", "is about one person, and a repository is shared", hint)
    title = shorten(name if " " in name else description or re.sub(r"[-_]+", " ", name), TITLE_WIDTH)
    if kind not in TYPES or not title:
        return not_understood(path, 1, "a topic file without a name, or of a type that is not known")
    text = "\n".join(_demoted(lines[close + 1 :])).strip("\n").rstrip()
    body = "\n\n".join(part for part in (description, text) if part and part != title)
    session = f"{SOURCE}:{fields['originSessionId']}" if fields.get("originSessionId") else None
    entry = _entry(path, title, body, TYPES[kind], today, _day(fields.get("modified", "")), session)
    return LegacyLearning(entry, 1, len(lines))


def _demoted(lines: Sequence[str]) -> Iterator[str]:
    """The lines with their headings two levels down: a level-1 heading would end the entry."""
    fenced = fenced_lines(lines)
    for line, is_fenced in zip(lines, fenced, strict=True):
        yield f"##{line}" if re.match(r"#{1,4}[ \t]", line) and not is_fenced else line


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


def _entry(
    path: str,
    title: str,
    body: str,
    meaning: tuple[EntryType, Domain],
    today: date,
    day: date | None = None,
    session: str | None = None,
) -> Entry:
    """An entry of what was written on `day`, or at some time before `today`."""
    type_, domain = meaning
    return Entry(
        id=imported_id(SOURCE, title, body),
        type=type_,
        domain=domain,
        importance=0.5,
        reinforcement_count=0,
        last_reinforced=day or today,
        status="active",
        created_at=day or today,
        occurred_at=day,
        session=session,
        source=imported_source(SOURCE, path),
        title=title,
        body=body,
    )


def _read_sections(path: str, segment: Segment, today: date) -> Iterator[LegacyLearning | Finding]:
    """The memories of plain Markdown, cut at its headings."""
    lines = segment.raw.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fenced = fenced_lines(lines)
    headings = {at: found for at, line in enumerate(lines) if not fenced[at] and (found := parse_heading(line))}
    for begin, end in zip([0, *headings], [*headings, len(lines)], strict=True):
        yield from _read_section(path, headings.get(begin), lines[begin:end], segment.line + begin, today)


def _read_section(
    path: str, heading: tuple[int, str] | None, lines: Sequence[str], line: int, today: date
) -> Iterator[LegacyLearning | Finding]:
    """A memory for each bullet of a section that has nothing else, one for a section with other text."""
    is_subject = heading is not None and not (heading[0] == 1 and ABOUT_ITSELF.search(heading[1]))
    subject = heading[1] if heading is not None and is_subject else ""
    content = lines[1:] if heading is not None else lines
    first = line + len(lines) - len(content)
    bullets = _split_bullets(content)
    if bullets is not None:
        for begin, end in bullets:
            title, body = _read_bullet(subject, content[begin:end])
            if title:
                entry = _entry(path, title, body, _guess(title), today)
                yield LegacyLearning(entry, first + begin, first + end - 1)
    elif subject:
        body = "\n".join(content).strip("\n").rstrip()
        entry = _entry(path, shorten(subject, TITLE_WIDTH), body, _guess(f"{subject} {body}"), today)
        yield LegacyLearning(entry, line, line + len(lines) - 1)
    else:
        said = next(at for at, text in enumerate(content) if text.strip())
        yield not_understood(path, first + said, "text without a heading that says what it is about")


def _split_bullets(lines: Sequence[str]) -> list[tuple[int, int]] | None:
    """The spans of top-level bullets with what is indented below them; None when other text stands among them."""
    starts: list[int] = []
    for at, line in enumerate(lines):
        if BULLET.match(line):
            starts.append(at)
        elif line.strip() and (not starts or not (line[0].isspace() or lines[at - 1].strip())):
            return None
    return list(pairwise([*starts, len(lines)]))


def _read_bullet(subject: str, lines: Sequence[str]) -> tuple[str, str]:
    """Title and body of a bullet; no title for one that only points at a topic file."""
    first = re.sub(r"^(?:[-*+]|\d+[.)])[ \t]+", "", lines[0])
    more = dedent("\n".join(lines[1:])).strip("\n").rstrip()
    if POINTER.fullmatch(first) or not first.strip():
        return "", ""
    whole = f"{subject}: {first}" if subject else first
    title = shorten(re.sub(r"\*\*|__", "", whole), TITLE_WIDTH)
    is_cut = title.endswith("…") and not whole.endswith("…")
    return title, "\n".join(part for part in (first if is_cut else "", more) if part)


def _guess(text: str) -> tuple[EntryType, Domain]:
    """Type and domain of a memory that does not say its own."""
    return ("directive" if DIRECTIVE.search(text) else "declarative"), "task"
