"""Readers of memory files of other tools: dated sections of TeaParty, and those of Claude Code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from textwrap import dedent
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, Domain, Entry, EntryType, create_entry
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.document import BOM, MemoryFile, Segment, parse_memory_file
from memory_ci.store.headings import mark_fenced_lines, parse_heading
from memory_ci.store.manual_notes import derive_id
from memory_ci.store.yamltext import Field, YamlTextError, parse_fields
from memory_ci.text import shorten, strip_comments

TITLE_WIDTH = 120  # characters

SECTION_KINDS: tuple[tuple[EntryType, Domain, float, tuple[str, ...]], ...] = (
    (
        "procedural",
        "team",
        0.5,
        ("session learning", "team learning", "global learning", "in-flight learning"),
    ),
    (
        "procedural",
        "task",
        0.5,
        ("project learning", "prospective learning", "learning", "procedure"),
    ),
    (
        "corrective",
        "task",
        0.8,
        ("corrective learning", "intervention learning", "correction", "lesson"),
    ),
    (
        "directive",
        "team",
        0.5,
        ("team norm", "session norm", "global norm", "norm", "escalation calibration"),
    ),
    (
        "directive",
        "team",
        0.5,
        ("project convention", "convention", "rule", "constraint", "preference"),
    ),
    ("declarative", "team", 0.5, ("observation",)),
    ("declarative", "task", 0.5, ("alignment observation", "decision", "fact", "gotcha")),
)
"""Type, domain and importance of a section, and the words of headings that mean them."""


def _map_meanings_by_kind() -> dict[str, tuple[EntryType, Domain, float]]:
    """Return type, domain and importance by the words of a heading."""
    meaning_by_kind: dict[str, tuple[EntryType, Domain, float]] = {}
    for entry_type, domain, importance, kinds in SECTION_KINDS:
        meaning_by_kind |= dict.fromkeys(kinds, (entry_type, domain, importance))
    return meaning_by_kind


MEANING_BY_KIND: Mapping[str, tuple[EntryType, Domain, float]] = _map_meanings_by_kind()

SUMMARY_LABELS = (
    "learning",
    "norm",
    "convention",
    "pattern",
    "prevention",
    "implication",
    "signal",
    "decision",
)
"""Labels of the lines (`**Learning:** …`) that summarise a section, the best first."""

DATED_HEADING = Regex(r"(?:##[ \t]+)?\[(?P<day>\d{4}-\d{2}-\d{2})\][ \t]*(?P<heading>.*?)[ \t]*")
"""The heading `## [2026-01-31] Corrective Learning: retry once`."""

SECTION_START = Regex(r"#{1,2}[ \t]")  # A heading of level 1 or 2.
LABELLED_LINE = Regex(r"(?:[-*][ \t]+)?\*\*(?P<label>[^*:]+):\*\*[ \t]*(?P<text>.*)")
"""The line `- **Learning:** retry once`."""

MARKDOWN_MARKS = Regex(
    r"^(?:[-*+>]|#+)[ \t]+|\*\*|__"
)  # A bullet, `#` or `>` at the start; `**` and `__`.
THEMATIC_BREAK = Regex(
    r"[ \t]*(?:-{3,}|\*{3,}|_{3,})[ \t]*"
)  # A thematic break of Markdown: `---`.


class LegacyLearning(msgspec.Struct, frozen=True):
    """An entry, and the lines of a file that it was made of.

    Attributes:
        entry: the entry.
        line: the number of the first line, from 1.
        last: the number of the last line; `line` for text that was an entry already.
    """

    entry: Entry
    line: int
    last: int


class LegacyFile(msgspec.Struct, frozen=True):
    """The learnings of a file, and findings on the parts that were not understood."""

    learnings: tuple[LegacyLearning, ...] = ()
    findings: tuple[Finding, ...] = ()


class _Part(NamedTuple):
    """The lines of a section, and the number of the first."""

    line: int
    lines: list[str]


def read_dated_sections(path: str, data: bytes, source: str) -> LegacyFile:
    """Return the learnings in a memory file of TeaParty, or of the format of memory-ci.

    These are its entries and its dated sections, such as `## [2026-01-31] Learning: retry once`.
    It never raises: other text becomes a finding, and is not guessed at.

    Args:
        path: the path of the file.
        data: its content.
        source: the name of the other memory.
    """
    file = parse_memory_file(path, data)
    results: list[LegacyLearning | Finding] = [*find_broken_parts(file)]
    for segment in file.segments:
        if segment.entry is not None:
            entry = _replace_dated_title(segment.entry)
            results.append(LegacyLearning(entry, segment.line, segment.line))
        elif not segment.is_broken:
            results += _read_sections(path, segment, source)
    return sort_results(results)


def _replace_dated_title(entry: Entry) -> Entry:
    """Return an entry without the date and the kind at the start of its title.

    `[2026-01-31] Learning: retry once` becomes `retry once`. If nothing follows, the title is taken
    from the body. Other titles stay.
    """
    heading_match = DATED_HEADING.fullmatch(entry.title)
    if heading_match is None or not entry.body:
        return entry
    _, title = _split_kind(heading_match["heading"])
    day = entry.occurred_at or _parse_day(heading_match["day"])
    return replace(entry, title=title or _choose_title(entry.body), occurred_at=day)


def sort_results(found: Sequence[LegacyLearning | Finding]) -> LegacyFile:
    """Return learnings and findings apart, each in the order of lines."""
    learnings = [item for item in found if isinstance(item, LegacyLearning)]
    findings = [item for item in found if isinstance(item, Finding)]
    learnings.sort(key=lambda learning: learning.line)
    findings.sort(key=lambda finding: finding.line)
    return LegacyFile(tuple(learnings), tuple(findings))


def find_broken_parts(file: MemoryFile) -> Iterator[Finding]:
    """Yield findings on parts of a file that cannot be read, and on entries that say nothing."""
    for finding in file.findings:
        if finding.code == "front-matter-in-body":
            yield finding
        elif finding.level == "error":
            yield build_not_understood(file.path, finding.line, finding.message)


def build_not_understood(path: str, line: int, message: str) -> Finding:
    """Return the finding on a part that is left alone.

    Its message never quotes the part, which was not searched for credentials.
    """
    return Finding(path, line, "not-understood", message, level="warning")


def imported_source(source: str, path: str) -> str:
    """Return the provenance of an imported entry: the other memory and the name of its file."""
    return f"{source}:{posixpath.basename(path)}"


def _split_parts(segment: Segment, is_start: Callable[[str], bool]) -> Iterator[_Part]:
    """Split a segment of a file into parts before each line that `is_start` accepts.

    A line in a fenced code block starts no part.
    """
    lines = segment.raw.replace("\r\n", "\n").removesuffix("\n").split("\n")
    starts = []
    for index, (line, is_fenced) in enumerate(zip(lines, mark_fenced_lines(lines), strict=True)):
        if not is_fenced and is_start(line):
            starts.append(index)
    for start, end in pairwise([0, *starts, len(lines)]):
        if start < end:  # The first line may be a start.
            yield _Part(segment.line + start, lines[start:end])


def _is_section(line: str) -> bool:
    return SECTION_START.match(line) is not None


def _is_heading(line: str) -> bool:
    return parse_heading(line) is not None


def _read_sections(path: str, segment: Segment, source: str) -> Iterator[LegacyLearning | Finding]:
    """Yield the learnings of dated sections, and findings on other text.

    Args:
        path: the path of the file.
        segment: a part of the file that is no entry.
        source: the name of the other memory.
    """
    for section in _split_parts(segment, _is_section):
        heading, *lines = section.lines
        heading_match = None
        if heading.startswith("##"):
            heading_match = DATED_HEADING.fullmatch(heading)
        entry = None
        if heading_match is not None:
            entry = _read_dated_section(path, heading_match, lines, source)
        if entry is not None:
            yield LegacyLearning(entry, section.line, section.line + len(lines))
            continue

        message = "text that is no dated section"
        if heading_match is not None:
            message = "not a kind of section that is known, or empty"
        text_index = _find_text(section.lines)
        if text_index is not None:
            yield build_not_understood(path, section.line + text_index, message)


def _find_text(lines: Sequence[str]) -> int | None:
    """Return the index of the first line of text, None for none.

    The title of a file, thematic breaks (`---`) and HTML comments are no text.
    """
    visible_lines = strip_comments("\n".join(lines), keeps_lines=True).split("\n")
    for index, visible in enumerate(visible_lines):
        is_text = visible.strip() and not THEMATIC_BREAK.fullmatch(visible)
        if is_text and not lines[index].startswith("# "):
            return index
    return None


def _read_dated_section(
    path: str, heading_match: re.Match[str], lines: Sequence[str], source: str
) -> Entry | None:
    """Return the entry of a dated section.

    Args:
        path: the path of the file.
        heading_match: the match of DATED_HEADING with the heading.
        lines: the lines below the heading.
        source: the name of the other memory.

    Returns:
        The entry, or None if the kind or the date is unknown, or if the section is empty.
    """
    kind, title = _split_kind(heading_match["heading"])
    day = _parse_day(heading_match["day"])
    body = _strip_thematic_break("\n".join(lines).strip("\n").rstrip())
    if kind not in MEANING_BY_KIND or day is None or not (title or body):
        return None
    title = title or _choose_title(body)
    # The id depends on the text alone, so that a second import finds the entry.
    entry_id = derive_id(source, heading_match["heading"], body)
    if body == title:
        body = ""
    entry_type, domain, importance = MEANING_BY_KIND[kind]
    entry = create_entry(
        entry_id, title, body, day, type_=entry_type, domain=domain, importance=importance
    )
    return replace(entry, occurred_at=day, source=imported_source(source, path))


def _strip_thematic_break(text: str) -> str:
    """Return a text without a rule at its end, which separates it from the next section."""
    body, _, last_line = text.rpartition("\n")
    return body.rstrip() if THEMATIC_BREAK.fullmatch(last_line) else text


def _split_kind(heading: str) -> tuple[str, str]:
    """Return the kind and the title of a heading such as `Corrective Learning: retry once`."""
    kind, _, title = heading.partition(":")
    return " ".join(kind.lower().split()), shorten(title, TITLE_WIDTH)


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _choose_title(body: str) -> str:
    """Return the line of a section that summarises it, without Markdown's marks.

    It is the text of the best label in SUMMARY_LABELS, else the first line.
    """
    lines = [line.strip() for line in body.split("\n") if line.strip()]
    text_by_label: dict[str, str] = {}
    for line in lines:
        match = LABELLED_LINE.fullmatch(line)
        if match:
            text_by_label[match["label"].strip().lower()] = match["text"]
    summary = lines[0]
    for label in SUMMARY_LABELS:
        if text_by_label.get(label):
            summary = text_by_label[label]
            break
    plain_summary = MARKDOWN_MARKS.sub("", summary)
    return shorten(plain_summary or summary, TITLE_WIDTH)


# -- Claude Code's auto memory
#
# The format is that of its own instructions. A topic file has a front matter with `name`,
# `description` and `type`, flat or with `type` under `metadata`, and a text. MEMORY.md is an index
# of `- [Title](file.md)` lines. In older versions both were sections and bullets.

SOURCE_NAME = "claude-code"
INDEX_FILE = "MEMORY.md"

MEANING_BY_TYPE: Mapping[str, tuple[EntryType, Domain]] = {
    "feedback": ("directive", "team"),
    "project": ("declarative", "task"),
    "reference": ("declarative", "team"),
}
"""Type and domain of an entry by the type of its topic file.

The fourth type, `user`, is about one person. It is refused, because a repository is shared.
"""

TOPIC_POINTER = Regex(r"(?:see[ \t]+)?\[[^\]]*\]\([^)\s]+\.md\).*", re.IGNORECASE | re.DOTALL)
"""A text that only points at a topic file: `See [Title](file.md) for more`."""

FILE_NAME = Regex(r"[\w.-]+\.md\b")  # The name of a Markdown file.
BULLET = Regex(r"(?:[-*+]|\d+[.)])[ \t]+(.*)")  # `- text` and `1. text`
HIGH_HEADING = Regex(r"#{1,4}[ \t]")  # A heading of level 1 to 4.
DIRECTIVE_WORDS = Regex(
    r"\b(?:always|never|must|do not|don't|prefer\w*|rules?|conventions?|style|feedback)\b",
    re.IGNORECASE,
)
MEMORY_WORD = Regex(r"\bmemor(?:y|ies)\b", re.IGNORECASE)
"""A level-1 heading that names the file itself, and no subject."""


def list_mentioned_files(index: str) -> frozenset[str]:
    """Return the names of Markdown files that an index mentions."""
    return frozenset(FILE_NAME.findall(index))


def read_auto_memory(path: str, data: bytes, today: date, *, is_named: bool) -> LegacyFile:
    """Return the learnings in a file of Claude Code's auto memory.

    It never raises: other text is a finding, and is not guessed at.

    Args:
        path: the file.
        data: its content.
        today: the day of memories without a date.
        is_named: the file is the index, or the index names it; only then plain Markdown is read.
    """
    text = data.removeprefix(BOM).decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    end = _find_front_matter_end(lines)
    fields = _parse_front_matter(lines[1:end]) if end else {}
    if "name" in fields or "description" in fields:
        return sort_results([_read_topic(path, fields, lines, end, today)])
    if not is_named:
        message = "neither a topic file nor named by MEMORY.md beside it"
        return LegacyFile(findings=(build_not_understood(path, 1, message),))

    file = parse_memory_file(path, data)
    results: list[LegacyLearning | Finding] = [*find_broken_parts(file)]
    for segment in file.segments:
        if segment.entry is None and not segment.is_broken:
            for part in _split_parts(segment, _is_heading):
                results += _read_section(path, part, today)
    return sort_results(results)


def _find_front_matter_end(lines: Sequence[str]) -> int:
    """Return the index of the line that ends the front matter, 0 for no front matter."""
    if lines[0].rstrip() != "---":
        return 0
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return index
    return 0


def _parse_front_matter(lines: Sequence[str]) -> dict[str, str]:
    """Return the keys of a front matter, and those below its key `metadata`, whose values are text.

    Args:
        lines: the lines between the two `---`.

    Returns:
        The texts by key; none if the lines are no plain mapping.
    """
    try:
        fields = parse_fields(lines)
        nested_texts: dict[str, str] = {}
        for field in fields:
            if field.key == "metadata" and field.value is None:
                nested = dedent("\n".join(lines[field.first + 1 : field.last + 1]))
                nested_texts = _select_texts(parse_fields(nested.split("\n")))
                break
        return nested_texts | _select_texts(fields)
    except YamlTextError:
        return {}


def _select_texts(fields: Sequence[Field]) -> dict[str, str]:
    """Return the values of fields that are text, by key."""
    return {field.key: field.value for field in fields if isinstance(field.value, str)}


def _read_topic(
    path: str, fields: Mapping[str, str], lines: Sequence[str], end: int, today: date
) -> LegacyLearning | Finding:
    """Return the learning of a topic file of Claude Code's memory.

    Its title is the name of the topic if that is a sentence, else the description.

    Args:
        path: the file.
        fields: its front matter.
        lines: all its lines.
        end: the index of the line that ends the front matter.
        today: the day of a learning without a date.

    Returns:
        The learning; or a finding, if the topic is a person, or has no title or known type.
    """
    topic_type = fields.get("type", "")
    if topic_type == "user":
        message = "is about one person, and a repository is shared"
        hint = "Keep it in a memory of that person's own, such as ~/MEMORY.md."
        return Finding(path, 1, "about-a-person", message, hint)
    name = " ".join(fields.get("name", "").split())
    description = " ".join(fields.get("description", "").split())
    is_sentence = " " in name
    if is_sentence:
        title = name
    else:
        title = description or re.sub(r"[-_]+", " ", name)
    title = shorten(title, TITLE_WIDTH)
    if topic_type not in MEANING_BY_TYPE or not title:
        message = "a topic file without a name, or of a type that is not known"
        return build_not_understood(path, 1, message)

    text = "\n".join(_demote_headings(lines[end + 1 :])).strip("\n").rstrip()
    body = "\n\n".join(part for part in (description, text) if part and part != title)
    day = _parse_day(fields.get("modified", "")[:10])  # the day of a time such as 2026-01-31T…
    entry = _create_memory_entry(path, title, body, MEANING_BY_TYPE[topic_type], day or today)
    session_id = fields.get("originSessionId")
    session = f"{SOURCE_NAME}:{session_id}" if session_id else None
    return LegacyLearning(replace(entry, occurred_at=day, session=session), 1, len(lines))


def _demote_headings(lines: Sequence[str]) -> list[str]:
    """Return lines with their headings of levels 1 to 4 two levels lower.

    A level-1 heading would end the entry.
    """
    lowered: list[str] = []
    for line, is_fenced in zip(lines, mark_fenced_lines(lines), strict=True):
        is_high = not is_fenced and HIGH_HEADING.match(line)
        lowered.append(f"##{line}" if is_high else line)
    return lowered


def _create_memory_entry(
    path: str, title: str, body: str, type_and_domain: tuple[EntryType, Domain], day: date
) -> Entry:
    """Return an entry for a text, whose id depends on the text alone.

    So a second import of the text finds the entry.

    Args:
        path: the file of the text.
        title: the title of the entry.
        body: its text.
        type_and_domain: the type of the entry (a directive, for instance) and its domain.
        day: the day on which the text was written, or a later one.
    """
    entry_id = derive_id(SOURCE_NAME, title, body)
    entry_type, domain = type_and_domain
    entry = create_entry(
        entry_id, title, body, day, type_=entry_type, domain=domain, importance=NEW_IMPORTANCE
    )
    return replace(entry, source=imported_source(SOURCE_NAME, path))


def _read_section(path: str, part: _Part, today: date) -> Iterator[LegacyLearning | Finding]:
    """Yield a learning for each bullet of a section, or one for a section with other text."""
    heading = parse_heading(part.lines[0])
    subject = _find_subject(heading)
    content = part.lines if heading is None else part.lines[1:]
    first_line = part.line if heading is None else part.line + 1
    last_line = part.line + len(part.lines) - 1

    bullets = _split_bullets(content)
    if bullets is not None:
        for start, end in bullets:
            title, body = _read_bullet(subject, content[start:end])
            if title:
                type_and_domain = _guess_type_and_domain(title)
                entry = _create_memory_entry(path, title, body, type_and_domain, today)
                yield LegacyLearning(entry, first_line + start, first_line + end - 1)
    elif subject:
        body = "\n".join(content).strip("\n").rstrip()
        title = shorten(subject, TITLE_WIDTH)
        type_and_domain = _guess_type_and_domain(f"{subject} {body}")
        entry = _create_memory_entry(path, title, body, type_and_domain, today)
        yield LegacyLearning(entry, part.line, last_line)
    else:
        text_index = next(index for index, line in enumerate(content) if line.strip())
        message = "text without a heading that says what it is about"
        yield build_not_understood(path, first_line + text_index, message)


def _find_subject(heading: tuple[int, str] | None) -> str:
    """Return the text of a heading, "" without a heading or if it names the file itself."""
    if heading is None:
        return ""
    level, text = heading
    is_name_of_file = level == 1 and MEMORY_WORD.search(text) is not None
    return "" if is_name_of_file else text


def _split_bullets(lines: Sequence[str]) -> list[tuple[int, int]] | None:
    """Split lines into top-level bullets, each with the indented lines below it.

    Returns:
        The indices of the first line of each bullet and of the line behind it; None if there is
        other text among the bullets.
    """
    starts: list[int] = []
    for index, line in enumerate(lines):
        if BULLET.match(line):
            starts.append(index)
            continue
        if not line.strip():
            continue
        # Markdown joins a line to the paragraph above it, if no blank line is between them.
        is_continuation = line[0].isspace() or lines[index - 1].strip()
        if not starts or not is_continuation:
            return None
    return list(pairwise([*starts, len(lines)]))


def _read_bullet(subject: str, lines: Sequence[str]) -> tuple[str, str]:
    """Return the title and body of a bullet; no title if it only points at a topic file."""
    first_line = BULLET.sub(r"\1", lines[0])
    if TOPIC_POINTER.fullmatch(first_line) or not first_line.strip():
        return "", ""
    body = dedent("\n".join(lines[1:])).strip("\n").rstrip()
    statement = f"{subject}: {first_line}" if subject else first_line
    title = shorten(re.sub(r"\*\*|__", "", statement), TITLE_WIDTH)
    is_shortened = title.endswith("…") and not statement.endswith("…")
    if is_shortened:
        body = f"{first_line}\n{body}" if body else first_line
    return title, body


def _guess_type_and_domain(text: str) -> tuple[EntryType, Domain]:
    """Return the type and domain of a memory that names none."""
    return ("directive" if DIRECTIVE_WORDS.search(text) else "declarative"), "task"
