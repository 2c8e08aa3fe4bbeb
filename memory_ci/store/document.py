"""Parse a memory file into segments of its text: entries, prose, and text that cannot be read.

An entry is one thing that was learned: front matter between two `---` lines, a title and a body.
The raw texts of the segments joined are the file, so every byte that is not edited stays unchanged.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.digests import blake2b
from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import MAX_CHARS, PROJECT, Entry, Located, ScopeOf
from memory_ci.records.report import Finding, Level, LoadedFile
from memory_ci.regex import Regex
from memory_ci.store.canonical import ENTRY_KEY, parse_canonical, strip_body
from memory_ci.store.frontmatter import (
    CONVERTERS,
    CORE_KEYS,
    REQUIRED,
    UUID,
    parse_extra,
    parse_values,
)
from memory_ci.store.headings import (
    FENCE,
    is_heading_2,
    is_underlined,
    mark_fenced_lines,
    parse_title,
)
from memory_ci.store.layout import classify_scope, is_fragment, parse_target
from memory_ci.store.yamltext import Field, YamlTextError, parse_fields

KEY_ANYWHERE = Regex(rf"\b{ENTRY_KEY.pattern}")
# Any key of lower-case letters, with its colon.
FIELD = Regex(r"[a-z_]+\s*:")
# The beginning of a line of YAML: `key: `, `"key": `.
KEY = Regex(r"['\"]?([A-Za-z_][\w-]*)(?:[ \t]*:(?:\s|$)|['\"][ \t]*:)")
# A field `id` with a UUID.
ID_FIELD = Regex(rf"\s*['\"]?id['\"]?[ \t]*:\s*['\"]?{UUID.pattern}")
# A line `---` that ends in a carriage return alone, as lines of an old Mac do.
OLD_MAC = Regex(r"(?:^|\r)---[ \t]*\r")
ENTRY_START = b"\n---\nid: "
BOM = b"\xef\xbb\xbf"
CONFLICT = (b"<<<<<<< ", b">>>>>>> ")
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


class _Head(msgspec.Struct, frozen=True):
    """The front matter of an entry.

    Attributes:
        close: the line of its closing `---`, 0-based.
        lines: its lines.
        fields: its fields; None if it is malformed.
    """

    close: int
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
    """Cuts a text into segments in one pass over its lines. Line numbers are 0-based."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.raw_lines = text.split("\n")
        self.lines = self.raw_lines
        if "\r" in text:
            self.lines = [line.removesuffix("\r") for line in self.raw_lines]
        self.fenced = mark_fenced_lines(self.lines)
        self.separators: list[int] = []  # The lines `---`.
        self.bounds: list[int] = []  # The separators outside of code fences.
        self.stops: list[int] = []  # The lines at which a segment may begin.
        for number, line in enumerate(self.lines):
            is_rule = line.startswith(("---", "\ufeff---"))
            is_separator = is_rule and line.rstrip() in ("---", "\ufeff---")
            # Lines of an old Mac, in one line as git counts lines.
            is_old_mac_entry = "\rid:" in line and OLD_MAC.search(line) is not None
            if is_separator:
                self.separators.append(number)
            if self.fenced[number]:
                continue
            if is_separator:
                self.bounds.append(number)
            if is_separator or is_old_mac_entry or line.startswith("# "):
                self.stops.append(number)
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
        return segments, tuple(sorted(self.findings, key=_finding_order))

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

        Unless the conflict begins with an entry, it is in the middle of the entry above it, which
        is broken then.
        """
        hint = "Resolve it and remove the markers."
        self._report(first, "conflict-marker", "merge conflict markers stand here", hint)
        above = self.segments[-1] if self.segments else None
        begins_entry = self.lines[first + 1 : first + 2] == ["---"]
        if above is not None and above.entry is not None and not begins_entry:
            self.segments[-1] = Segment(above.raw, above.line, is_broken=True)
        self._add_text(first, end, is_broken=True)

    def _report_fenced_entries(self) -> None:
        """Report entries in code fences: an unclosed fence hides those after it."""
        fenced_separators = [number for number in self.separators if self.fenced[number]]
        for first, close in pairwise(fenced_separators):
            if _has_entry_keys(self.lines[first + 1 : close]):
                hint = "If it is meant as an entry, close the fence above it."
                message = "a whole entry stands inside a code fence and is not read"
                self._report(first, "fenced-entry", message, hint, "warning")

    def _scan_range(self, start: int, end: int) -> None:
        """Add the entries and the prose of the lines between two conflicts.

        Args:
            start: the first line.
            end: the line after the last.
        """
        next_separator = dict(pairwise(_select_between(self.bounds, start, end)))
        head: _Head | None = None  # The front matter of the segment that begins at `begin`.
        begin = start
        for number in _select_between(self.stops, start, end):
            if head is not None and number <= head.close:
                continue  # The line is in the front matter.
            new_head = self._read_head(number, next_separator.get(number))
            # A heading of level 1 ends the entry above it: sections of a memory file are not part
            # of a body.
            ends_entry = head is not None and self.lines[number].startswith("# ")
            if new_head is None and not ends_entry:
                continue
            self._add_segment(begin, number, head)
            begin = number
            head = new_head
        self._add_segment(begin, end, head)

    def _read_head(self, first: int, close: int | None) -> _Head | None:
        """Return the front matter that begins at a line; None if the line does not begin one.

        Args:
            first: the line.
            close: the line of the next separator; None without one.
        """
        if "\r" in self.lines[first]:
            reason = "its lines end in carriage returns alone, so git takes them for one line"
            return self._refuse_head(first, reason)
        if close is None:
            return None
        lines = tuple(self.lines[first + 1 : close])
        if not self._is_front_matter(lines, close):
            return None
        if self.lines[first].startswith("\ufeff"):
            reason = "an invisible byte order mark is before the `---`"
            return self._refuse_head(first, reason)
        try:
            return _Head(close, lines, _parse_head(lines))
        except YamlTextError as error:
            self._report(first + 1 + error.line, "malformed-front-matter", error.reason, FENCE_HINT)
            # The line that closes it is read again: it may open the next entry.
            return _Head(first)

    def _is_front_matter(self, lines: Sequence[str], close: int) -> bool:
        """Return whether lines are meant as a front matter, not as text between Markdown rules.

        In Markdown a line `---` is a rule, so text between two of them may be prose. It is a front
        matter if it has an `id` with a UUID, or an `id` and another key. With a title below, it is
        also a front matter if all lines are keys and one is a key of an entry, or if it has two
        keys that every entry has.

        Args:
            lines: the lines between two separators.
            close: the number of the second separator.
        """
        if lines and ID_FIELD.match(lines[0]):
            return True
        field_lines = _list_field_lines(lines)
        keys = _list_keys(field_lines)
        has_uuid = any(ID_FIELD.match(line) for line in field_lines)
        if has_uuid or ("id" in keys and len(keys) > 1):
            return True
        has_only_keys = all(KEY.match(line) for line in field_lines if line.strip())
        is_mapping_of_ours = has_only_keys and not keys.isdisjoint(CONVERTERS)
        if not is_mapping_of_ours and len(keys.intersection(CORE_KEYS)) < 2:
            return False
        return self._has_title(close + 1)

    def _has_title(self, start: int) -> bool:
        """Return whether the first line of text from `start` on is a heading of level 2."""
        for number in range(start, len(self.lines)):
            if self.lines[number].strip():
                is_heading = is_heading_2(self.lines[number])
                return is_heading or is_underlined(self.lines[number : number + 2], 0)
        return False

    def _refuse_head(self, first: int, reason: str) -> _Head:
        """Report a line that is meant to begin a front matter; return a malformed front matter."""
        self._report(first, "malformed-front-matter", reason, "Write the line again.")
        return _Head(first)

    def _add_segment(self, begin: int, end: int, head: _Head | None) -> None:
        """Add the segment of an entry, or of prose if `head` is None.

        Args:
            begin: the first line.
            end: the line after the last.
            head: the front matter at its beginning.
        """
        if head is None or head.fields is None:
            self._add_text(begin, end, is_broken=head is not None)
            return
        entry = self._read_entry(head, head.fields, begin, end)
        raw = self._join_lines(begin, end)
        segment = Segment(
            raw,
            line=begin + 1,
            entry=entry,
            head=head.lines,
            fields=head.fields,
            is_broken=entry is None,
        )
        self.segments.append(segment)

    def _read_entry(
        self, head: _Head, fields: tuple[Field, ...], begin: int, end: int
    ) -> Entry | None:
        """Return the entry of a front matter and the text below it; None if it is malformed.

        Args:
            head: the front matter.
            fields: its fields.
            begin: the first line of the entry.
            end: the line after its last.
        """
        values, problems = parse_values(fields, head.lines)
        for problem in problems:
            self._report(begin + 1 + problem.line, problem.code, problem.message, problem.hint)
        if problems:
            return None
        title, text = split_body(self.lines[head.close + 1 : end])
        if _is_only_fields(title or "", text):
            message = "the entry has a second front matter in place of a text"
            hint = "Delete one of the two, or write the text of the entry below it."
            self._report(head.close + 1, "front-matter-in-body", message, hint)
            return None
        if title is None:
            hint = "Start its body with a line `## title`."
            self._report(head.close, "no-title", "the entry has no title", hint, "warning")
            title = " ".join(text.partition("\n")[0].split())
        return Entry(**values, extra=parse_extra(fields, head.lines), title=title, body=text)

    def _add_text(self, begin: int, end: int, *, is_broken: bool) -> None:
        raw = self._join_lines(begin, end)
        self.segments.append(Segment(raw, begin + 1, is_broken=is_broken))

    def _join_lines(self, begin: int, end: int) -> str:
        if begin >= end:
            return ""
        text = "\n".join(self.raw_lines[begin:end])
        return text if end == len(self.lines) else text + "\n"

    def _report(
        self, line: int, code: str, message: str, hint: str = "", level: Level = "error"
    ) -> None:
        self.findings.append(Finding(self.path, line + 1, code, message, hint, level))


def _parse_head(lines: Sequence[str]) -> tuple[Field, ...]:
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


def _select_between(numbers: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Return the numbers from `start` up to `end`, excluded, of sorted numbers."""
    return numbers[bisect_left(numbers, start) : bisect_left(numbers, end)]


def _list_field_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a mapping without their common indentation.

    A mapping in braces has a line for each part between commas.
    """
    text_line = find_text_line(lines)
    first_line = "" if text_line is None else lines[text_line]
    if first_line.lstrip().startswith("{"):
        parts = ",".join(lines).split(",")
        return [part.strip(" \t{}") for part in parts]
    indent = len(first_line) - len(first_line.lstrip())
    return [line[:indent].lstrip() + line[indent:] for line in lines]


def _is_only_fields(title: str, text: str) -> bool:
    """Return whether the title and body of an entry are nothing but fields of an entry.

    The fields may be below one another or in a line.
    """
    title_text = title.strip(" \t#-")
    if title_text and not ENTRY_KEY.match(title_text):
        return False  # Almost all entries are done here.
    stripped_lines = [line.strip(" \t#-") for line in (title, *text.split("\n"))]
    lines = [line for line in stripped_lines if line]
    if not lines or not ENTRY_KEY.match(lines[0]):
        return False
    if not all(FIELD.match(line) for line in lines):
        return False
    keys = set(KEY_ANYWHERE.findall(f"{title}\n{text}"))
    return len(keys) > 2


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


def _finding_order(finding: Finding) -> tuple[int, str, str]:
    return finding.line, finding.code, finding.message


class _Piece(NamedTuple):
    """A part of a file that is read alone.

    Attributes:
        line: its first line in the file, 1-based.
        text: its text.
        separators: how many lines `---` it has.
        source: its hash if it is an entry.
    """

    line: int
    text: bytes
    separators: int
    source: bytes = b""


def load_file(
    path: str, data: bytes, patterns: ScopePatterns, known_hashes: Collection[bytes] = ()
) -> LoadedFile:
    """Read the entries of a memory file. Never raises: findings name what cannot be read.

    Args:
        path: the path of the file.
        data: its content.
        patterns: which files have which scope.
        known_hashes: hashes of entries that an index has already, and that are not read again
            (`LoadedFile.kept`). They are used only if every other entry of the file begins with
            `---` and its id, and nothing in it affects the text after it: no open fence, no third
            `---`, no conflict.
    """
    if not is_fragment(path):
        loaded = _load_pieces(path, data, patterns, set(known_hashes))
        if loaded is not None:
            return loaded
    return locate_entries(parse_memory_file(path, data), patterns, with_sources=True)


def _load_pieces(
    path: str, data: bytes, patterns: ScopePatterns, known_hashes: set[bytes]
) -> LoadedFile | None:
    """Read each entry of a file whose hash is not known alone.

    Args:
        path: the path of the file.
        data: its content.
        patterns: which files have which scope.
        known_hashes: hashes of entries; those that are found are removed.

    Returns:
        The entries that were read, and the places of the known ones; None if an entry may read
        differently alone than in the whole file.
    """
    scope = classify_scope(path, patterns) or PROJECT
    pieces, kept_entries = _split_pieces(data, scope, known_hashes)
    entries: list[Located] = []
    prose: list[tuple[int, str]] = []
    findings: list[Finding] = []
    sources: dict[int, bytes] = {}
    for piece in pieces:
        entry = _read_canonical(piece)
        if entry is not None:
            located = Located(entry, path, piece.line, scope)
            length_findings = list(check_length(located))
            entries.append(located)
            findings += length_findings
            if not length_findings:
                sources[piece.line] = piece.source
            continue
        if not _reads_same_alone(piece.text, piece.separators):
            return None
        part = locate_entries(parse_memory_file(path, piece.text), patterns, with_sources=True)
        if piece.separators and (not part.entries or part.prose):
            return None  # In the whole file this text may be part of something else.
        above = piece.line - 1
        entries += [replace(located, line=located.line + above) for located in part.entries]
        prose += [(line + above, text) for line, text in part.prose]
        findings += [replace(finding, line=finding.line + above) for finding in part.findings]
        sources.update((line + above, source) for line, source in part.sources.items())
    if not pieces and not kept_entries:
        return None
    return LoadedFile(
        path=path,
        scope=scope,
        entries=tuple(entries),
        prose=tuple(prose),
        findings=tuple(findings),
        sources=sources,
        kept=tuple(kept_entries),
    )


def _read_canonical(piece: _Piece) -> Entry | None:
    """Return the entry that a part of a file is; None if it is not in the canonical form."""
    if not piece.source:
        return None
    try:
        return parse_canonical(piece.text.decode().removeprefix("---\n"))
    except UnicodeDecodeError:
        return None


def _split_pieces(
    data: bytes, scope: ScopeOf, known_hashes: set[bytes]
) -> tuple[list[_Piece], list[tuple[bytes, int]]]:
    """Cut a file at the beginning of each entry, and leave out the known entries.

    Args:
        data: the content of the file.
        scope: its scope.
        known_hashes: hashes of entries; those that are found are removed.

    Returns:
        The text before the first entry and the entries that are not known, and the hash and line
        of each known entry. Both are empty if the file has no entry.
    """
    first, *texts = (b"\n" + data).split(ENTRY_START)
    pieces: list[_Piece] = []
    kept_entries: list[tuple[bytes, int]] = []
    if not texts:
        return pieces, kept_entries
    if first:
        pieces.append(_Piece(line=1, text=first[1:] + b"\n", separators=0))
    hasher = _make_hasher(scope)
    line = first.count(b"\n") + 1
    for text in texts:
        source = hasher(text)
        if source in known_hashes:
            known_hashes.discard(source)  # A second copy is read.
            kept_entries.append((source, line))
        else:
            # The front matter of an entry has two lines `---`.
            text_of_entry = ENTRY_START.removeprefix(b"\n") + text
            pieces.append(_Piece(line=line, text=text_of_entry, separators=2, source=source))
        line += text.count(b"\n") + 2  # ENTRY_START has two line feeds.
    return pieces, kept_entries


def _reads_same_alone(text: bytes, separators: int) -> bool:
    """Return whether a part of a file is parsed alone as it is in the whole file.

    The part must not affect the text after it: it has no other `---`, no conflict marker, carriage
    return or byte order mark, and no code fence that is not closed. It is not parsed for that.

    Args:
        text: the part.
        separators: how many lines `---` it should have.
    """
    if (b"\n" + text).count(b"\n---") != separators:
        return False
    for marker in (b"\r", BOM, *CONFLICT):
        if marker in text:
            return False
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return False
    if b"```" not in text and b"~~~" not in text:
        return True
    lines = decoded.split("\n")
    fenced = mark_fenced_lines(lines)
    return all(fenced[number] for number, line in enumerate(lines) if FENCE.match(line))


def _make_hasher(scope: ScopeOf) -> Callable[[bytes], bytes]:
    """Return a hash function for the text of an entry, by which it is recognised when read again.

    Equal texts in different scopes have different hashes. The text is that after `id: ` up to the
    next entry.
    """
    key = blake2b(f"{scope.name}\n{scope.where}".encode(), digest_size=16).digest()

    def hash_piece(piece: bytes) -> bytes:
        return blake2b(piece, digest_size=16, key=key).digest()

    return hash_piece


def _hash_entries(
    file: MemoryFile, scope: ScopeOf, findings: Sequence[Finding]
) -> Iterator[tuple[int, bytes]]:
    """Yield line and hash of the entries that read the same alone, and have no finding.

    Args:
        file: the file.
        scope: its scope.
        findings: the findings on it.
    """
    hasher = _make_hasher(scope)
    finding_lines = sorted({finding.line for finding in findings})
    ends = [segment.line for segment in file.segments[1:]] + [sys.maxsize]
    entry_start = ENTRY_START.removeprefix(b"\n")
    for segment, end in zip(file.segments, ends, strict=True):
        has_finding = bool(_select_between(finding_lines, segment.line, end))
        if segment.entry is None or has_finding:
            continue
        text = segment.raw.encode()
        if text.startswith(entry_start) and _reads_same_alone(text, separators=2):
            piece = text.removeprefix(entry_start)
            is_last = end == sys.maxsize
            # The last line feed before another entry belongs to its ENTRY_START.
            yield segment.line, hasher(piece if is_last else piece.removesuffix(b"\n"))


def locate_entries(
    file: MemoryFile, patterns: ScopePatterns, *, with_sources: bool = False
) -> LoadedFile:
    """Return the entries of a parsed memory file, each with its line and its scope.

    The scope of an entry is that of its file; an inbox fragment names its own.

    Args:
        file: the file.
        patterns: which files have which scope.
        with_sources: hash the texts of entries (`LoadedFile.sources`), which only an index needs.
    """
    path = file.path
    scope = classify_scope(path, patterns) or PROJECT
    findings = list(file.findings)
    entries: list[Located] = []
    prose: list[tuple[int, str]] = []
    for segment in file.segments:
        if segment.entry is not None:
            entry_scope = scope
            if is_fragment(path):
                entry_scope = _find_target(segment.entry, path, segment.line, findings)
            entries.append(Located(segment.entry, path, segment.line, entry_scope))
        elif not segment.is_broken and segment.raw.strip():
            prose.append((segment.line, segment.raw))

    for located in entries:
        findings += check_length(located)
    if is_fragment(path) and not findings and len(entries) != 1:
        message = "an inbox file must hold exactly one entry"
        hint = "Write one with `memory-ci add`, or move the others into files of their own."
        findings.append(Finding(path, 1, "bad-fragment", message, hint))
    sources: Mapping[int, bytes] = {}
    if with_sources and entries:
        sources = dict(_hash_entries(file, scope, findings))
    return LoadedFile(
        path=path,
        scope=scope,
        entries=tuple(entries),
        prose=tuple(prose),
        findings=tuple(sorted(findings, key=_finding_order)),
        sources=sources,
    )


def _find_target(entry: Entry, path: str, line: int, findings: list[Finding]) -> ScopeOf:
    """Return the scope that an inbox entry names, or project; add a finding if it is bad."""
    if not entry.scope:
        return PROJECT
    try:
        return parse_target(entry.scope)
    except UsageError as error:
        findings.append(Finding(path, line, "bad-scope", error.message, error.hint))
        return PROJECT


def check_length(located: Located) -> Iterator[Finding]:
    """Return a finding if an entry is longer than the limit."""
    size = len(located.entry.title) + len(located.entry.body)
    if size > MAX_CHARS:
        message = f"the entry has {size:,} characters, {MAX_CHARS:,} is the limit"
        hint = "Keep what is to be remembered, and name the file that has the rest."
        yield Finding(located.path, located.line, "entry-too-long", message, hint)
