"""Legacy memory: dated sections without front matter, as TeaParty wrote them, become entries once and for all."""

from __future__ import annotations

import hashlib
import posixpath
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import Domain, Entry, EntryType
from memory_ci.records.report import Finding
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file
from memory_ci.store.headings import fenced_lines
from memory_ci.text import shorten, strip_comments

TITLE_WIDTH = 120

KINDS: tuple[tuple[EntryType, Domain, float, tuple[str, ...]], ...] = (
    ("procedural", "team", 0.5, ("session learning", "team learning", "global learning", "in-flight learning")),
    ("procedural", "task", 0.5, ("project learning", "prospective learning", "learning", "procedure")),
    ("corrective", "task", 0.8, ("corrective learning", "intervention learning", "correction", "lesson")),
    ("directive", "team", 0.5, ("team norm", "session norm", "global norm", "norm", "escalation calibration")),
    ("directive", "team", 0.5, ("project convention", "convention", "rule", "constraint", "preference")),
    ("declarative", "team", 0.5, ("observation",)),
    ("declarative", "task", 0.5, ("alignment observation", "decision", "fact", "gotcha")),
)
"""Type, domain and importance of a section by what its heading calls it."""

BY_KIND: Mapping[str, tuple[EntryType, Domain, float]] = {
    kind: (type_, domain, importance) for type_, domain, importance, kinds in KINDS for kind in kinds
}

TELLING = ("learning", "norm", "convention", "pattern", "prevention", "implication", "signal", "decision")
"""The labelled lines of a section (`**Learning:** …`) that say it best, in this order."""

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


def find_sections(path: str, data: bytes, source: str, today: date) -> LegacyFile:
    """The entries and the dated sections of a file. Never raises; what is neither is named, not guessed at."""
    file = parse_memory_file(path, data)
    found: list[LegacyLearning | Finding] = list(broken_parts(file))
    for segment in file.segments:
        if segment.entry is not None:
            found.append(LegacyLearning(_retitled(segment.entry), segment.line, segment.line))
        elif not segment.is_broken:
            found += _read_prose(path, segment, source, today)
    return collect(found)


def collect(found: Sequence[LegacyLearning | Finding]) -> LegacyFile:
    """Learnings and findings apart, each in the order of lines."""
    learnings = sorted((item for item in found if isinstance(item, LegacyLearning)), key=lambda item: item.line)
    findings = sorted((item for item in found if isinstance(item, Finding)), key=lambda item: item.line)
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


def imported_id(source: str, *texts: str) -> str:
    """A UUID (version 4 layout, RFC 9562 section 5.4) made of where a text comes from and its words.

    White space and case do not count, nor does the file: importing a text again gives the same id.
    """
    seed = "\0".join((source, *(" ".join(text.lower().split()) for text in texts)))
    return str(uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4))


def imported_source(source: str, path: str) -> str:
    """The provenance of an imported entry: the other memory and the name of its file."""
    return f"{source}:{posixpath.basename(path)}"


def _read_prose(path: str, segment: Segment, source: str, today: date) -> Iterator[LegacyLearning | Finding]:
    lines = segment.raw.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fenced = fenced_lines(lines)
    starts = [at for at, line in enumerate(lines) if SECTION.match(line) and not fenced[at]]
    for begin, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        part, line = lines[begin:end], segment.line + begin
        dated = DATED.fullmatch(part[0]) if part and part[0].startswith("##") else None
        entry = _to_entry(path, dated, part[1:], source) if dated else None
        if entry is not None:
            yield LegacyLearning(entry, line, line + len(part) - 1)
        elif (said := _first_words(part)) is not None:
            reason = "not a kind of section that is known, or empty" if dated else "text that is no dated section"
            yield not_understood(path, line + said, reason)


def _first_words(lines: Sequence[str]) -> int | None:
    """The first line that says something; a file's own title, rules and HTML comments do not."""
    text = strip_comments("\n".join(lines), keeps_lines=True)
    said = (at for at, line in enumerate(text.split("\n")) if line.strip() and not RULE.fullmatch(line))
    return next((at for at in said if not lines[at].startswith("# ")), None)


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
    type_, domain, importance = BY_KIND[kind]
    title = title or _title_of(body)
    return Entry(
        id=imported_id(source, dated.group(2), body),
        type=type_,
        domain=domain,
        importance=importance,
        reinforcement_count=0,
        last_reinforced=day,
        status="active",
        created_at=day,
        occurred_at=day,
        source=imported_source(source, path),
        title=title,
        body="" if body == title else body,
    )


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
    labelled = {m.group(1).strip().lower(): m.group(2) for line in lines if (m := LABELLED.fullmatch(line))}
    best = next((labelled[label] for label in TELLING if labelled.get(label)), lines[0])
    return shorten(MARKUP.sub("", best) or best, TITLE_WIDTH)


def _retitled(entry: Entry) -> Entry:
    """An entry whose title only says when and of which kind it is, under a title of its own words."""
    dated = DATED.fullmatch(entry.title)
    if dated is None or not entry.body:
        return entry
    _, title = _split_kind(dated.group(2))
    day = entry.occurred_at or _parse_day(dated.group(1))
    return replace(entry, title=title or _title_of(entry.body), occurred_at=day)
