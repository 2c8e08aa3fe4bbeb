"""Parse a memory file into segments of its text: entries, prose, and text that cannot be read.

An entry is one thing that was learned: front matter between two `---` lines, a title and a body.
The raw texts of the segments joined are the file, so every byte that is not edited stays unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding, Level
from memory_ci.regex import Regex
from memory_ci.store.canonical import ENTRY_KEY, strip_body
from memory_ci.store.frontmatter import (
    CONVERTERS,
    CORE_KEYS,
    REQUIRED,
    UUID,
    parse_extra,
    parse_values,
)
from memory_ci.store.headings import is_heading_2, is_underlined, mark_fenced_lines, parse_title
from memory_ci.store.yamltext import Field, YamlTextError, parse_fields

# A key of an entry anywhere in a text: `id: … type: …`. ENTRY_KEY matches it at the beginning.
ENTRY_KEY_ANYWHERE = Regex(rf"\b{ENTRY_KEY.pattern}")
# Any key of lower-case letters with its colon, at the beginning of a line: `reach:`.
ANY_KEY = Regex(r"[a-z_]+\s*:")
# The beginning of a line of YAML: `key: `, `"key": `.
KEY = Regex(r"['\"]?([A-Za-z_][\w-]*)(?:[ \t]*:(?:\s|$)|['\"][ \t]*:)")
# A field `id` with a UUID.
ID_FIELD = Regex(rf"\s*['\"]?id['\"]?[ \t]*:\s*['\"]?{UUID.pattern}")
# A line `---` that ends in a carriage return alone, as lines of an old Mac do.
OLD_MAC = Regex(r"(?:^|\r)---[ \t]*\r")
BOM = b"\xef\xbb\xbf"
FENCE_HINT = "If it is not meant as an entry, put it into a code fence."


class Segment(msgspec.Struct, frozen=True):
    """A part of a memory file.

    Attributes:
        raw: its text.
        line: its first line, 1-based; 0 for new text, which is not in a file yet.
        entry: the entry that it is; None for prose and for text that cannot be read.
        head: the front matter lines of the entry.
        fields: the fields in these lines.
        is_broken: whether it cannot be read.
    """

    raw: str
    line: int = 0
    entry: Entry | None = None
    head: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    is_broken: bool = False


class _FrontMatter(msgspec.Struct, frozen=True):
    """The front matter of an entry, or a text that is meant as one.

    Attributes:
        last: the last line of it that is read, 0-based: its closing `---`. Of a malformed front
            matter it is the first line, so that the lines below are read again.
        lines: its lines between the two `---`.
        fields: its fields; None if it is malformed.
    """

    last: int
    lines: tuple[str, ...] = ()
    fields: tuple[Field, ...] | None = None


class MemoryFile(msgspec.Struct, frozen=True):
    """A parsed memory file.

    Attributes:
        path: its path.
        segments: its parts, in order.
        findings: remarks on text that cannot be read.
        newline: its line ending, for text that is added to it.
        has_bom: whether it begins with a byte order mark.
    """

    path: str
    segments: tuple[Segment, ...]
    findings: tuple[Finding, ...]
    newline: str = "\n"
    has_bom: bool = False

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the file, in order."""
        return tuple(segment.entry for segment in self.segments if segment.entry is not None)


def parse_memory_file(path: str, data: bytes) -> MemoryFile:
    """Parse a memory file into segments. Never raises: unreadable text becomes a finding."""
    has_bom = data.startswith(BOM)
    try:
        text = data.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        return MemoryFile(path, (), (not_utf8(path, data, error),))
    newline = "\r\n" if "\r\n" in text else "\n"
    segments, findings = _Scanner(path, text).scan()
    return MemoryFile(path, segments, findings, newline, has_bom)


def render_memory_file(file: MemoryFile) -> bytes:
    """Return the content of a memory file: the segments joined, after a byte order mark if any."""
    text = "".join(segment.raw for segment in file.segments).encode()
    return BOM + text if file.has_bom else text


def not_utf8(path: str, data: bytes, error: UnicodeDecodeError) -> Finding:
    """Return the finding on a file that is not UTF-8."""
    line = data.count(b"\n", 0, error.start) + 1
    return Finding(path, line, "not-utf8", "the file is not UTF-8 text", "Save it as UTF-8.")


class _Scanner:
    """Cuts a text into segments in one pass over its lines. Line numbers are 0-based.

    Attributes:
        path: the path of the file.
        raw_lines: the lines of the text, split at line feeds.
        lines: the same lines without a carriage return at their end.
        fenced: for each line whether it is in a code fence.
        fenced_separators: the numbers of the lines `---` in code fences.
        separators: the numbers of the other lines `---`, which may begin or close a front matter.
        possible_starts: the numbers of the lines at which a segment may begin.
        findings: remarks on what cannot be read.
        segments: the segments of the lines that were scanned.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.raw_lines = text.split("\n")
        self.lines = self.raw_lines
        if "\r" in text:
            self.lines = [line.removesuffix("\r") for line in self.raw_lines]
        self.fenced = mark_fenced_lines(self.lines)
        self.fenced_separators: list[int] = []
        self.separators: list[int] = []
        self.possible_starts: list[int] = []
        for number, line in enumerate(self.lines):
            is_rule = line.startswith(("---", "\ufeff---"))
            is_separator = is_rule and line.rstrip() in ("---", "\ufeff---")
            if self.fenced[number]:
                if is_separator:
                    self.fenced_separators.append(number)
                continue
            # Lines of an old Mac end in a carriage return alone: for git they are one line.
            is_old_mac_entry = "\rid:" in line and OLD_MAC.search(line) is not None
            if is_separator:
                self.separators.append(number)
            if is_separator or is_old_mac_entry or line.startswith("# "):
                self.possible_starts.append(number)
        self.findings: list[Finding] = []
        self.segments: list[Segment] = []

    def scan(self) -> tuple[tuple[Segment, ...], tuple[Finding, ...]]:
        """Return the segments, in order, and the findings on what cannot be read."""
        start = 0
        for first, end in self._find_conflicts():
            self._scan_range(start, first)
            self._add_conflict(first, end)
            start = end
        self._scan_range(start, len(self.lines))
        self._report_fenced_entries()
        segments = tuple(segment for segment in self.segments if segment.raw)
        return segments, tuple(sorted(self.findings, key=finding_order))

    def _find_conflicts(self) -> list[tuple[int, int]]:
        """Return (first, end) of the lines of each merge conflict, its markers included.

        Where one of the two markers is missing, the line of the other is the conflict.
        """
        conflicts: list[tuple[int, int]] = []
        opening: int | None = None
        for number, line in enumerate(self.lines):
            if not line.startswith(("<", ">")) or self.fenced[number]:
                continue
            if line.startswith("<<<<<<< ") and opening is None:
                opening = number
            elif line.startswith(">>>>>>> "):
                first = number if opening is None else opening
                conflicts.append((first, number + 1))
                opening = None
        if opening is not None:
            conflicts.append((opening, opening + 1))
        return conflicts

    def _add_conflict(self, first: int, end: int) -> None:
        """Add the segment of a merge conflict, and report it.

        A conflict that does not begin with an entry is in the middle of the entry above it. Then
        that entry cannot be read, either.

        Args:
            first: the line of the first marker.
            end: the line after the last marker.
        """
        hint = "Resolve it and remove the markers."
        self._report_finding(first, "conflict-marker", "merge conflict markers stand here", hint)
        previous = self.segments[-1] if self.segments else None
        begins_with_entry = self.lines[first + 1 : first + 2] == ["---"]
        if previous is not None and previous.entry is not None and not begins_with_entry:
            self.segments[-1] = Segment(previous.raw, previous.line, is_broken=True)
        self._add_text(first, end, is_broken=True)

    def _report_fenced_entries(self) -> None:
        """Report entries in code fences: an unclosed fence hides those after it."""
        for first, closing in pairwise(self.fenced_separators):
            if _has_entry_keys(self.lines[first + 1 : closing]):
                hint = "If it is meant as an entry, close the fence above it."
                message = "a whole entry stands inside a code fence and is not read"
                self._report_finding(first, "fenced-entry", message, hint, "warning")

    def _scan_range(self, start: int, end: int) -> None:
        """Add the entries and the prose of the lines between two conflicts.

        An entry has the lines from its front matter up to the next front matter or a heading of
        level 1, which begins a section of the file.

        Args:
            start: the first line.
            end: the line after the last.
        """
        next_separator = dict(pairwise(select_between(self.separators, start, end)))
        segment_start = start
        front_matter: _FrontMatter | None = None  # Of this segment; None if it is prose.
        for number in select_between(self.possible_starts, start, end):
            if front_matter is not None and number <= front_matter.last:
                continue
            new_front_matter = self._read_front_matter(number, next_separator.get(number))
            is_heading_1 = self.lines[number].startswith("# ")
            ends_entry = is_heading_1 and front_matter is not None
            if new_front_matter is None and not ends_entry:
                continue
            self._add_segment(segment_start, number, front_matter)
            segment_start = number
            front_matter = new_front_matter
        self._add_segment(segment_start, end, front_matter)

    def _read_front_matter(self, first: int, closing: int | None) -> _FrontMatter | None:
        """Return the front matter that begins at a line; None if the line does not begin one.

        A malformed front matter is reported and has no fields.

        Args:
            first: the line.
            closing: the line of the next separator, which closes it; None without one.
        """
        if "\r" in self.lines[first]:
            reason = "its lines end in carriage returns alone, so git takes them for one line"
            return self._refuse_front_matter(first, reason)
        if closing is None:
            return None
        lines = tuple(self.lines[first + 1 : closing])
        if not self._is_front_matter(lines, closing):
            return None
        if self.lines[first].startswith("\ufeff"):
            reason = "an invisible byte order mark is before the `---`"
            return self._refuse_front_matter(first, reason)
        try:
            return _FrontMatter(closing, lines, _parse_front_matter(lines))
        except YamlTextError as error:
            self._report_finding(
                first + 1 + error.line, "malformed-front-matter", error.reason, FENCE_HINT
            )
            # The line that closes it is read again: it may open the next entry.
            return _FrontMatter(last=first)

    def _is_front_matter(self, lines: Sequence[str], closing: int) -> bool:
        """Return whether lines are meant as a front matter, not as text between Markdown rules.

        In Markdown a line `---` is a rule, so text between two of them may be prose. It is a front
        matter if one of these holds:

        - it has an `id` with a UUID;
        - it has an `id` and another key;
        - it has at least two keys that every entry has, and a title is below it;
        - all its lines are keys, one of them of an entry, and a title is below it.

        Args:
            lines: the lines between two separators.
            closing: the number of the second separator.
        """
        if lines and ID_FIELD.match(lines[0]):
            return True
        field_lines = _list_field_lines(lines)
        keys = _list_keys(field_lines)
        has_uuid = any(ID_FIELD.match(line) for line in field_lines)
        if has_uuid or ("id" in keys and len(keys) > 1):
            return True
        has_only_keys = all(KEY.match(line) for line in field_lines if line.strip())
        is_entry_mapping = has_only_keys and not keys.isdisjoint(CONVERTERS)
        has_core_keys = len(keys.intersection(CORE_KEYS)) >= 2
        return (is_entry_mapping or has_core_keys) and self._has_title(closing + 1)

    def _has_title(self, start: int) -> bool:
        """Return whether the first line of text from `start` on is a heading of level 2."""
        for number in range(start, len(self.lines)):
            if self.lines[number].strip():
                is_heading = is_heading_2(self.lines[number])
                return is_heading or is_underlined(self.lines[number : number + 2], 0)
        return False

    def _refuse_front_matter(self, first: int, reason: str) -> _FrontMatter:
        """Report a line that is meant to begin a front matter; return a malformed front matter."""
        self._report_finding(first, "malformed-front-matter", reason, "Write the line again.")
        return _FrontMatter(last=first)

    def _add_segment(self, begin: int, end: int, front_matter: _FrontMatter | None) -> None:
        """Add the segment of an entry or, without a front matter, of prose.

        Args:
            begin: the first line.
            end: the line after the last.
            front_matter: the front matter at its beginning.
        """
        if front_matter is None or front_matter.fields is None:
            self._add_text(begin, end, is_broken=front_matter is not None)
            return
        entry = self._read_entry(front_matter, front_matter.fields, begin, end)
        raw = self._join_lines(begin, end)
        segment = Segment(
            raw,
            line=begin + 1,
            entry=entry,
            head=front_matter.lines,
            fields=front_matter.fields,
            is_broken=entry is None,
        )
        self.segments.append(segment)

    def _read_entry(
        self, front_matter: _FrontMatter, fields: tuple[Field, ...], begin: int, end: int
    ) -> Entry | None:
        """Return the entry of a front matter and the text below it; None if it is malformed.

        Args:
            front_matter: the front matter.
            fields: its fields.
            begin: the first line of the entry.
            end: the line after its last.
        """
        values, problems = parse_values(fields, front_matter.lines)
        for problem in problems:
            self._report_finding(
                begin + 1 + problem.line, problem.code, problem.message, problem.hint
            )
        if problems:
            return None
        title, text = split_body(self.lines[front_matter.last + 1 : end])
        if _is_only_fields(title or "", text):
            message = "the entry has a second front matter in place of a text"
            hint = "Delete one of the two, or write the text of the entry below it."
            self._report_finding(front_matter.last + 1, "front-matter-in-body", message, hint)
            return None
        if title is None:
            hint = "Start its body with a line `## title`."
            self._report_finding(
                front_matter.last, "no-title", "the entry has no title", hint, "warning"
            )
            title = " ".join(text.partition("\n")[0].split())
        return Entry(
            **values, extra=parse_extra(fields, front_matter.lines), title=title, body=text
        )

    def _add_text(self, begin: int, end: int, *, is_broken: bool) -> None:
        raw = self._join_lines(begin, end)
        self.segments.append(Segment(raw, begin + 1, is_broken=is_broken))

    def _join_lines(self, begin: int, end: int) -> str:
        if begin >= end:
            return ""
        text = "\n".join(self.raw_lines[begin:end])
        return text if end == len(self.lines) else text + "\n"

    def _report_finding(
        self, line: int, code: str, message: str, hint: str = "", level: Level = "error"
    ) -> None:
        self.findings.append(Finding(self.path, line + 1, code, message, hint, level))


def _parse_front_matter(lines: Sequence[str]) -> tuple[Field, ...]:
    """Parse the fields of a front matter.

    Raises:
        YamlTextError: the front matter is malformed, is not closed before a heading, or has the
            key `id` in quotes.
    """
    for number, line in enumerate(lines):
        # YAML would take a heading for a comment and read the next entry.
        if line.startswith("#") and parse_title(line) is not None:
            reason = "the front matter is not closed by a line --- before this heading"
            raise YamlTextError(number, reason)
    fields = parse_fields(lines)
    for field in fields:
        if field.key == "id" and not lines[field.first].startswith("id"):
            reason = "the key id is found in history by its word: write it without quotes"
            raise YamlTextError(field.first, reason)
    return fields


def select_between(numbers: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Return the numbers from `start` up to `end`, excluded, of sorted numbers."""
    return numbers[bisect_left(numbers, start) : bisect_left(numbers, end)]


def _list_field_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a YAML mapping without the indentation of its first line.

    Of a mapping in braces (`{id: x, type: y}`) the parts between commas are returned instead.
    """
    text_line = find_text_line(lines)
    first_line = "" if text_line is None else lines[text_line]
    if first_line.lstrip().startswith("{"):
        parts: list[str] = []
        for line in lines:
            parts += line.split(",")
        return [part.strip(" \t{}") for part in parts]

    indent = len(first_line) - len(first_line.lstrip())
    unindented: list[str] = []
    for line in lines:
        # A line that is indented less keeps its text.
        unindented.append(line[:indent].lstrip() + line[indent:])
    return unindented


def _is_only_fields(title: str, text: str) -> bool:
    """Return whether the title and body of an entry are in truth a second front matter.

    They are if they begin with a key of an entry, each line begins with some key, and three keys of
    an entry are in them, below one another or in one line. Marks of headings and lists before a
    key do not count.
    """
    title_text = title.strip(" \t#-")
    if title_text and not ENTRY_KEY.match(title_text):
        return False  # Almost all entries are done here.
    stripped_lines = [line.strip(" \t#-") for line in (title, *text.split("\n"))]
    lines = [line for line in stripped_lines if line]
    if not lines or not ENTRY_KEY.match(lines[0]):
        return False
    if not all(ANY_KEY.match(line) for line in lines):
        return False
    entry_keys = set(ENTRY_KEY_ANYWHERE.findall(f"{title}\n{text}"))
    return len(entry_keys) >= 3


def _list_keys(lines: Sequence[str]) -> set[str]:
    """Return the keys that lines begin with."""
    matches = [KEY.match(line) for line in lines]
    return {match.group(1) for match in matches if match}


def _has_entry_keys(lines: Sequence[str]) -> bool:
    """Return whether lines have the keys that no entry is without."""
    keys = _list_keys(lines)
    return keys.issuperset(REQUIRED) and not keys.isdisjoint({"created_at", "last_reinforced"})


def split_body(lines: Sequence[str]) -> tuple[str | None, str]:
    """Split the text of an entry into its title and its body.

    Args:
        lines: the lines after its front matter.

    Returns:
        The title, None if the lines do not start with a heading, and the body.
    """
    start = find_text_line(lines)
    if start is None:
        return None, ""
    title = parse_title(lines[start])
    if title is not None:
        body_start = start + 1
    elif is_underlined(lines, start):
        title = lines[start].strip()
        body_start = start + 2
    else:
        body_start = start
    return title or None, strip_body("\n".join(lines[body_start:]))


def find_text_line(lines: Sequence[str]) -> int | None:
    """Return the index of the first line that is not blank, if there is one."""
    for number, line in enumerate(lines):
        if line.strip():
            return number
    return None


def finding_order(finding: Finding) -> tuple[int, str, str]:
    """Return the key by which the findings of a file are sorted: line, code, message."""
    return finding.line, finding.code, finding.message
