"""Legacy memory: dated sections without front matter, as TeaParty wrote them, become entries once and for all."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from textwrap import dedent

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, Domain, Entry, EntryType, new_entry
from memory_ci.records.report import Finding
from memory_ci.store.document import BOM, MemoryFile, Segment, parse_memory_file
from memory_ci.store.headings import fenced_lines, parse_heading
from memory_ci.store.manual_notes import imported_id
from memory_ci.store.yamltext import Field, YamlTextError, parse_fields
from memory_ci.text import shorten, strip_comments

TITLE_WIDTH = 120

KINDS: tuple[tuple[EntryType, Domain, float, tuple[str, ...]], ...] = (
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
)  # Type, domain and importance of a section by what its heading calls it.
BY_KIND: Mapping[str, tuple[EntryType, Domain, float]] = {
    kind: (type_, domain, importance)
    for type_, domain, importance, kinds in KINDS
    for kind in kinds
}

# The labelled lines of a section (`**Learning:** …`) that say it best, in this order.
TELLING = (
    "learning",
    "norm",
    "convention",
    "pattern",
    "prevention",
    "implication",
    "signal",
    "decision",
)
DATED = re.compile(r"(?:##[ \t]+)?\[(\d{4}-\d{2}-\d{2})\][ \t]*(.*?)[ \t]*")
SECTION = re.compile(r"#{1,2}[ \t]")
LABELLED = re.compile(r"(?:[-*][ \t]+)?\*\*([^*:]+):\*\*[ \t]*(.*)")
MARKUP = re.compile(r"^(?:[-*+>]|#+)[ \t]+|\*\*|__")
RULE = re.compile(r"[ \t]*(?:-{3,}|\*{3,}|_{3,})[ \t]*")


class LegacyLearning(msgspec.Struct, frozen=True):
    """An entry made of the lines `line` to `last` (1-based) of a file; one that stood there has its first line only."""

    entry: Entry
    line: int
    last: int


class LegacyFile(msgspec.Struct, frozen=True):
    """What a file of another memory holds, and the places in it that were not understood."""

    learnings: tuple[LegacyLearning, ...] = ()
    findings: tuple[Finding, ...] = ()


def find_sections(path: str, data: bytes, source: str) -> LegacyFile:
    """The entries and the dated sections of a file. Never raises; what is neither is named, not guessed at."""
    file = parse_memory_file(path, data)
    found = list[LegacyLearning | Finding](broken_parts(file))
    for segment in file.segments:
        if (entry := segment.entry) is not None:
            dated = DATED.fullmatch(entry.title)
            if dated and entry.body:  # the title only says when it was and of which kind it is
                title = _split_kind(dated.group(2))[1] or _title_of(entry.body)
                entry = replace(
                    entry, title=title, occurred_at=entry.occurred_at or _parse_day(dated.group(1))
                )
            found.append(LegacyLearning(entry, segment.line, segment.line))
        elif not segment.is_broken:
            found += _read_prose(path, segment, source)
    return collect(found)


def collect(found: Sequence[LegacyLearning | Finding]) -> LegacyFile:
    """Learnings and findings apart, each in the order of lines."""
    learnings = sorted(
        (item for item in found if isinstance(item, LegacyLearning)), key=lambda item: item.line
    )
    findings = sorted(
        (item for item in found if isinstance(item, Finding)), key=lambda item: item.line
    )
    return LegacyFile(tuple(learnings), tuple(findings))


def broken_parts(file: MemoryFile) -> Iterator[Finding]:
    """What in a file cannot be read at all, or is an entry that says nothing."""
    for finding in file.findings:
        if finding.code == "front-matter-in-body":
            yield finding
        elif finding.level == "error":
            yield not_understood(file.path, finding.line, finding.message)


def not_understood(path: str, line: int, message: str) -> Finding:
    """A place that was left alone. The message never quotes it: nobody has looked for credentials in it."""
    return Finding(path, line, "not-understood", message, level="warning")


def imported_source(source: str, path: str) -> str:
    """The provenance of an imported entry: the other memory and the name of its file."""
    return f"{source}:{posixpath.basename(path)}"


def _cut(segment: Segment, is_start: Callable[[str], bool]) -> Iterator[tuple[int, list[str]]]:
    """The line and the lines of each part of a segment; a part begins at a line outside of code that is a start."""
    lines = segment.raw.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fenced = fenced_lines(lines)
    starts = [at for at, line in enumerate(lines) if not fenced[at] and is_start(line)]
    for begin, end in pairwise([0, *starts, len(lines)]):
        if begin < end:
            yield segment.line + begin, lines[begin:end]


def _read_prose(path: str, segment: Segment, source: str) -> Iterator[LegacyLearning | Finding]:
    for line, part in _cut(segment, lambda text: SECTION.match(text) is not None):
        dated = DATED.fullmatch(part[0]) if part[0].startswith("##") else None
        entry = _to_entry(path, dated, part[1:], source) if dated else None
        if entry is not None:
            yield LegacyLearning(entry, line, line + len(part) - 1)
            continue
        # The first line that says something; a file's own title, rules and HTML comments do not.
        text = strip_comments("\n".join(part), keeps_lines=True).split("\n")
        said = (at for at, one in enumerate(text) if one.strip() and not RULE.fullmatch(one))
        first = next((at for at in said if not part[at].startswith("# ")), None)
        if first is not None:
            reason = (
                "not a kind of section that is known, or empty"
                if dated
                else "text that is no dated section"
            )
            yield not_understood(path, line + first, reason)


def _to_entry(path: str, dated: re.Match[str], lines: Sequence[str], source: str) -> Entry | None:
    """The entry that a section is; None when its kind or its date is none, or when it says nothing."""
    kind, title = _split_kind(dated.group(2))
    day = _parse_day(dated.group(1))
    # The lines without blank ones around them, and without a rule that parts them from what follows.
    text = "\n".join(lines).strip("\n").rstrip()
    above, _, last = text.rpartition("\n")
    body = above.rstrip() if RULE.fullmatch(last) else text
    if kind not in BY_KIND or day is None or not (title or body):
        return None
    title = title or _title_of(body)
    made_of = imported_id(source, dated.group(2), body)
    entry = new_entry(made_of, title, "" if body == title else body, BY_KIND[kind], day)
    return replace(entry, occurred_at=day, source=imported_source(source, path))


def _split_kind(heading: str) -> tuple[str, str]:
    """`Corrective Learning: retry once` as its kind and its own title."""
    kind, _, title = heading.partition(":")
    return " ".join(kind.lower().split()), shorten(title, TITLE_WIDTH)


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _title_of(body: str) -> str:
    """The line of a section that says best what was learned, in one line."""
    lines = [line.strip() for line in body.split("\n") if line.strip()]
    labelled = {
        m.group(1).strip().lower(): m.group(2) for line in lines if (m := LABELLED.fullmatch(line))
    }
    best = next((labelled[label] for label in TELLING if labelled.get(label)), lines[0])
    return shorten(MARKUP.sub("", best) or best, TITLE_WIDTH)


# -- Claude Code's auto memory: topic files with `name`, `description` and `type`, and older ones of plain Markdown
#
# The format is the one its own instructions give: a front matter, flat or with `type` under `metadata`, then the text;
# MEMORY.md is an index of `- [Title](file.md)` lines. Before that, MEMORY.md and topic files were sections and bullets.

SOURCE = "claude-code"
INDEX = "MEMORY.md"

TYPES: Mapping[str, tuple[EntryType, Domain]] = {
    "feedback": ("directive", "team"),
    "project": ("declarative", "task"),
    "reference": ("declarative", "team"),
}  # What a topic's type means here. The fourth, `user`, is about one person: a repository is shared, so it is refused.
POINTER = re.compile(r"(?:see[ \t]+)?\[[^\]]*\]\([^)\s]+\.md\).*", re.IGNORECASE | re.DOTALL)
MENTIONED = re.compile(r"[\w.-]+\.md\b")
BULLET = re.compile(r"(?:[-*+]|\d+[.)])[ \t]+(.*)")
HIGH = re.compile(r"#{1,4}[ \t]")
DIRECTIVE = re.compile(
    r"\b(?:always|never|must|do not|don't|prefer\w*|rules?|conventions?|style|feedback)\b",
    re.IGNORECASE,
)
ABOUT_ITSELF = re.compile(
    r"\bmemor(?:y|ies)\b", re.IGNORECASE
)  # A level-1 heading of the file, not its subject.


def mentioned_files(index: str) -> frozenset[str]:
    return frozenset(MENTIONED.findall(index))


def find_memories(path: str, data: bytes, today: date, *, is_listed: bool) -> LegacyFile:
    """The memories of one file. Plain Markdown is read only where `is_listed`: as the index, or named by it. Never
    raises; what is no memory is named, not guessed at."""
    text = data.removeprefix(BOM).decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    close = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    fields = _fields(lines[1:close]) if lines[0].rstrip() == "---" and close else {}
    if "name" in fields or "description" in fields:
        return collect([_read_topic(path, fields, lines, close, today)])
    if not is_listed:
        return LegacyFile(
            findings=(
                not_understood(path, 1, "neither a topic file nor named by MEMORY.md beside it"),
            )
        )
    file = parse_memory_file(path, data)
    found = list[LegacyLearning | Finding](broken_parts(file))
    for segment in file.segments:
        if segment.entry is None and not segment.is_broken:
            for line, part in _cut(segment, lambda text: parse_heading(text) is not None):
                found += _read_section(path, part, line, today)
    return collect(found)


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """The texts of a front matter, those under `metadata` among them; nothing when it is no plain mapping."""
    try:
        fields = parse_fields(lines)
        nested = next(
            (field for field in fields if field.key == "metadata" and field.value is None), None
        )
        inner = (
            dedent("\n".join(lines[nested.first + 1 : nested.last + 1])).split("\n")
            if nested
            else []
        )
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
        return Finding(
            path, 1, "about-a-person", "is about one person, and a repository is shared", hint
        )
    title = shorten(
        name if " " in name else description or re.sub(r"[-_]+", " ", name), TITLE_WIDTH
    )
    if kind not in TYPES or not title:
        return not_understood(
            path, 1, "a topic file without a name, or of a type that is not known"
        )
    below = lines[close + 1 :]
    lower = (  # headings go two levels down: a level-1 heading would end the entry
        f"##{line}" if not is_fenced and HIGH.match(line) else line
        for line, is_fenced in zip(below, fenced_lines(below), strict=True)
    )
    text = "\n".join(lower).strip("\n").rstrip()
    body = "\n\n".join(part for part in (description, text) if part and part != title)
    session = f"{SOURCE}:{fields['originSessionId']}" if fields.get("originSessionId") else None
    day = _parse_day(fields.get("modified", "")[:10])
    entry = replace(
        _entry(path, title, body, TYPES[kind], day or today), occurred_at=day, session=session
    )
    return LegacyLearning(entry, 1, len(lines))


def _entry(path: str, title: str, body: str, meaning: tuple[EntryType, Domain], day: date) -> Entry:
    """An entry of what was written on a day, or at some time before it."""
    made_of = imported_id(SOURCE, title, body)
    entry = new_entry(made_of, title, body, (*meaning, NEW_IMPORTANCE), day)
    return replace(entry, source=imported_source(SOURCE, path))


def _read_section(
    path: str, lines: Sequence[str], line: int, today: date
) -> Iterator[LegacyLearning | Finding]:
    """A memory for each bullet of a section that has nothing else, one for a section with other text."""
    heading = parse_heading(lines[0])
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
        entry = _entry(
            path, shorten(subject, TITLE_WIDTH), body, _guess(f"{subject} {body}"), today
        )
        yield LegacyLearning(entry, line, line + len(lines) - 1)
    else:
        said = next(at for at, text in enumerate(content) if text.strip())
        yield not_understood(
            path, first + said, "text without a heading that says what it is about"
        )


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
    first = re.sub(BULLET, r"\1", lines[0])
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
