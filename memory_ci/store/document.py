"""A memory file as segments of its own text: entries, prose, and what could not be read.

The segments' raw texts joined are the file, so whatever is not edited stays byte for byte as it was.
"""

from __future__ import annotations

import hashlib
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import MAX_CHARS, PROJECT, Entry, Located, ScopeOf
from memory_ci.records.report import Finding, Level, LoadedFile
from memory_ci.store.frontmatter import CONVERTERS, REQUIRED, UUID, parse_extra, parse_values
from memory_ci.store.headings import FENCE, fenced_lines, is_heading_2, is_underlined, parse_title
from memory_ci.store.layout import classify_scope, is_fragment, parse_target
from memory_ci.store.yamltext import Field, YamlTextError, parse_fields
from memory_ci.text import shorten

ENTRY_KEY = re.compile(
    r"(id|type|domain|importance|status|reinforcement_count|last_reinforced)\s*:"
)
KEY_ANYWHERE = re.compile(rf"\b{ENTRY_KEY.pattern}")
FIELD = re.compile(r"[a-z_]+\s*:")
KEY = re.compile(r"['\"]?([A-Za-z_][\w-]*)(?:[ \t]*:(?:\s|$)|['\"][ \t]*:)")
IS_ID = re.compile(rf"\s*['\"]?id['\"]?[ \t]*:\s*['\"]?{UUID.pattern}")
OLD_MAC = re.compile(r"(?:^|\r)---[ \t]*\r")
LEADING_BLANK = re.compile(r"\A(?:[ \t]*\n)+")
ENTRY_START = b"\n---\nid: "
BOM = b"\xef\xbb\xbf"
CONFLICT = (b"<<<<<<< ", b">>>>>>> ")
FENCE_HINT = "If it is not meant as an entry, put it into a code fence."


class Segment(msgspec.Struct, frozen=True):
    """A stretch of the file from `line` (1-based). `entry` is None for prose and for what is unreadable. For an entry,
    `head` are its front matter lines and `fields` where each key stands in them."""

    raw: str
    line: int
    entry: Entry | None = None
    head: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    is_broken: bool = False


class _Head(msgspec.Struct, frozen=True):
    """A front matter: its closing `---` (0-based), its lines, and its fields; None if it is malformed."""

    close: int
    lines: tuple[str, ...] = ()
    fields: tuple[Field, ...] | None = None


class MemoryFile(msgspec.Struct, frozen=True):
    """One parsed memory file. `newline` is the file's own line ending, for what is added to it."""

    path: str
    segments: tuple[Segment, ...]
    findings: tuple[Finding, ...]
    newline: str = "\n"
    has_bom: bool = False

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(segment.entry for segment in self.segments if segment.entry is not None)


def parse_memory_file(path: str, data: bytes) -> MemoryFile:
    """The file as segments. Never raises: what cannot be read becomes a finding and stays in the text."""
    has_bom = data.startswith(BOM)
    try:
        text = data.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        return MemoryFile(path, (), (not_utf8(path, data, error),))
    newline = "\r\n" if "\r\n" in text else "\n"
    segments, findings = _Scanner(path, text).scan()
    return MemoryFile(path, segments, findings, newline, has_bom)


def render_memory_file(file: MemoryFile) -> bytes:
    """The bytes of the file: the exact inverse of parse_memory_file for a file nobody edited."""
    text = "".join(segment.raw for segment in file.segments).encode()
    return BOM + text if file.has_bom else text


def not_utf8(path: str, data: bytes, error: UnicodeDecodeError) -> Finding:
    line = data.count(b"\n", 0, error.start) + 1
    return Finding(path, line, "not-utf8", "the file is not UTF-8 text", "Save it as UTF-8.")


class _Scanner:
    """Cuts a text into segments in one pass over its lines."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.raw_lines = text.split("\n")
        self.lines = (
            [line.removesuffix("\r") for line in self.raw_lines] if "\r" in text else self.raw_lines
        )
        self.fenced = fenced_lines(self.lines)
        self.separators = [
            number
            for number, line in enumerate(self.lines)
            if line.startswith(("---", "\ufeff---")) and line.rstrip() in ("---", "\ufeff---")
        ]
        self.bounds = [number for number in self.separators if not self.fenced[number]]
        others = (
            number
            for number, line in enumerate(self.lines)
            if (line.startswith("# ") or ("\rid:" in line and OLD_MAC.search(line)))
            and not self.fenced[number]
        )
        self.stops = sorted({*self.bounds, *others})
        """The lines at which a segment may begin: separators, level-1 headings, and entries all in one line."""
        self.findings: list[Finding] = []
        self.segments: list[Segment] = []

    def scan(self) -> tuple[tuple[Segment, ...], tuple[Finding, ...]]:
        start = 0
        for first, end in [*self._conflicts(), (len(self.lines), len(self.lines))]:
            self._scan_plain(start, first)
            if first < end:
                hint = "Resolve it and remove the markers."
                self._find(first, "conflict-marker", "merge conflict markers stand here", hint)
                last = self.segments[-1] if self.segments else None
                if (
                    last is not None
                    and last.entry is not None
                    and self.lines[first + 1 : first + 2] != ["---"]
                ):
                    self.segments[-1] = Segment(last.raw, last.line, is_broken=True)
                self._cut(first, end, is_broken=True)
            start = end
        # An unclosed fence swallows the entries after it: say so, for they are not served.
        for first, close in pairwise(number for number in self.separators if self.fenced[number]):
            if _keys(self.lines[first + 1 : close]).issuperset(REQUIRED):
                hint = "If it is meant as an entry, close the fence above it."
                message = "a whole entry stands inside a code fence and is not read"
                self._find(first, "fenced-entry", message, hint, "warning")
        return tuple(segment for segment in self.segments if segment.raw), tuple(
            sorted(self.findings, key=_place)
        )

    def _conflicts(self) -> list[tuple[int, int]]:
        """The line ranges [first, end) between conflict markers."""
        spans: list[tuple[int, int]] = []
        opened: int | None = None
        for number, line in enumerate(self.lines):
            if line[:1] not in ("<", ">") or self.fenced[number]:
                continue
            if line.startswith("<<<<<<< ") and opened is None:
                opened = number
            elif line.startswith(">>>>>>> "):
                spans.append((number if opened is None else opened, number + 1))
                opened = None
        if opened is not None:
            spans.append((opened, opened + 1))
        return spans

    def _scan_plain(self, start: int, end: int) -> None:
        """Entries and prose between two conflicts."""
        separators = self.bounds[bisect_left(self.bounds, start) : bisect_left(self.bounds, end)]
        closers = dict(pairwise(separators))
        head: _Head | None = None
        begin = start
        for number in self.stops[bisect_left(self.stops, start) : bisect_left(self.stops, end)]:
            if head is not None and number <= head.close:
                continue
            opened = self._open(number, closers.get(number))
            # A level-1 heading ends the entry above it: sections of a memory file are not part of a body.
            ends_entry = head is not None and self.lines[number].startswith("# ")
            if opened is None and not ends_entry:
                continue
            self._close(begin, number, head)
            begin, head = number, opened
        self._close(begin, end, head)

    def _open(self, first: int, close: int | None) -> _Head | None:
        """The front matter from a separator to the next, or None when what they enclose is not meant as one."""
        if "\r" in self.lines[first]:
            return self._refuse(
                first, "its lines end as those of an old Mac do, which git takes for one line"
            )
        if close is None:
            return None
        lines = tuple(self.lines[first + 1 : close])
        if not self._is_meant(lines, close):
            return None
        if self.lines[first].startswith("\ufeff"):
            return self._refuse(
                first, "a byte order mark, which nobody sees, stands before the `---`"
            )
        try:
            for number, line in enumerate(
                lines
            ):  # YAML would take a heading for a comment and read the next entry
                if line.startswith("#") and parse_title(line) is not None:
                    raise YamlTextError(
                        number, "the front matter is not closed by a line --- before this heading"
                    )
            fields = parse_fields(lines)
            quoted = [
                field.first
                for field in fields
                if field.key == "id" and not lines[field.first].startswith("id")
            ]
            if quoted:
                raise YamlTextError(
                    quoted[0], "the key id is found in history by its word: write it without quotes"
                )
        except YamlTextError as error:
            self._find(first + 1 + error.line, "malformed-front-matter", error.reason, FENCE_HINT)
            return _Head(
                first
            )  # the line that closes it is looked at again: it may open the next entry
        return _Head(close, lines, fields)

    def _is_meant(self, lines: Sequence[str], close: int) -> bool:
        """Whether lines are meant as a front matter: an `id` and another key; or keys of ours, and a title below. One
        of ours is enough if nothing but keys stands there; else it takes two that are required. A lone `id:` in prose
        is not, unless it is a UUID."""
        if lines and IS_ID.match(lines[0]):
            return True
        opening = next((line for line in lines if line.strip()), "")
        indent = len(opening) - len(opening.lstrip())
        told = [line[:indent].lstrip() + line[indent:] for line in lines]
        if opening.lstrip().startswith("{"):
            told = [part.strip(" \t{}") for line in lines for part in line.split(",")]
        keys = _keys(told)
        if any(map(IS_ID.match, told)) or ("id" in keys and len(keys) > 1):
            return True
        is_bare = not keys.isdisjoint(CONVERTERS) and all(
            KEY.match(line) for line in told if line.strip()
        )
        if not is_bare and len(keys.intersection(REQUIRED)) < 2:
            return False
        below = next(
            (at for at in range(close + 1, len(self.lines)) if self.lines[at].strip()), close
        )
        return is_heading_2(self.lines[below]) or (
            below > close and is_underlined(self.lines[below : below + 2], 0)
        )

    def _refuse(self, first: int, reason: str) -> _Head:
        self._find(first, "malformed-front-matter", reason, "Write the line again.")
        return _Head(first)

    def _close(self, begin: int, end: int, head: _Head | None) -> None:
        if head is None or head.fields is None:
            self._cut(begin, end, is_broken=head is not None)
            return
        entry = self._entry(head, head.fields, begin, end)
        raw = self._raw(begin, end)
        self.segments.append(
            Segment(raw, begin + 1, entry, head.lines, head.fields, is_broken=entry is None)
        )

    def _entry(self, head: _Head, fields: tuple[Field, ...], begin: int, end: int) -> Entry | None:
        values, problems = parse_values(fields)
        for problem in problems:
            self._find(begin + 1 + problem.line, problem.code, problem.message, problem.hint)
        if problems:
            return None
        title, text = split_body(self.lines[head.close + 1 : end])
        # Whether it is nothing but the fields of an entry: one below the other, or all in a line.
        said = [one for line in (title or "", *text.split("\n")) if (one := line.strip(" \t#-"))]
        is_fields = (
            bool(said) and ENTRY_KEY.match(said[0]) is not None and all(map(FIELD.match, said))
        )
        if is_fields and len(set(KEY_ANYWHERE.findall(f"{title or ''}\n{text}"))) > 2:
            hint = "Take one of the two out, or write below it what was learned."
            self._find(
                head.close + 1,
                "front-matter-in-body",
                "the body is another front matter, and no words",
                hint,
            )
            return None
        if title is None:
            hint = "Start its body with a line `## title`."
            self._find(head.close, "no-title", "the entry has no title", hint, "warning")
            title = shorten(text.partition("\n")[0], 120)
        return Entry(**values, extra=parse_extra(fields, head.lines), title=title, body=text)

    def _cut(self, begin: int, end: int, *, is_broken: bool) -> None:
        self.segments.append(Segment(self._raw(begin, end), begin + 1, is_broken=is_broken))

    def _raw(self, begin: int, end: int) -> str:
        tail = "" if end == len(self.lines) else "\n"
        return "\n".join(self.raw_lines[begin:end]) + tail if begin < end else ""

    def _find(
        self, line: int, code: str, message: str, hint: str = "", level: Level = "error"
    ) -> None:
        """Reports a 0-based line."""
        self.findings.append(Finding(self.path, line + 1, code, message, hint, level))


def _keys(lines: Sequence[str]) -> set[str]:
    return {match.group(1) for line in lines if (match := KEY.match(line))}


def split_body(lines: Sequence[str]) -> tuple[str | None, str]:
    """Title and body of what follows a front matter; no title when it does not start with a heading."""
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    title = parse_title(lines[start]) if start < len(lines) else None
    rest = lines[start:] if title is None else lines[start + 1 :]
    if title is None and is_underlined(lines, start):
        title, rest = lines[start].strip(), lines[start + 2 :]
    text = LEADING_BLANK.sub("", "\n".join(rest)).rstrip()
    return title or None, text


def _place(finding: Finding) -> tuple[int, str, str]:
    return finding.line, finding.code, finding.message


def load_file(
    path: str, data: bytes, patterns: ScopePatterns, known: Collection[bytes] = ()
) -> LoadedFile:
    """Read one memory file. Never raises: what cannot be served is in the findings. Entries whose hash is in `known`
    are not read again (`LoadedFile.kept`), if every entry of the file that is not begins with `---` and its id, and
    nothing in it reaches beyond it: no open fence, no third `---`, no conflict."""
    loaded = (
        _load_unknown(path, data, patterns, set(known)) if known and not is_fragment(path) else None
    )
    return loaded or locate_entries(parse_memory_file(path, data), patterns)


def _load_unknown(
    path: str, data: bytes, patterns: ScopePatterns, known: set[bytes]
) -> LoadedFile | None:
    scope = classify_scope(path, patterns) or PROJECT
    hasher = _piece_hasher(scope)
    first, *pieces = (b"\n" + data).split(ENTRY_START)
    if not pieces:
        return None
    line = first.count(b"\n") + 1
    texts = [(1, first[1:] + b"\n", 0)] if first else []
    kept = []
    for piece in pieces:
        source = hasher(piece)
        if source in known:
            known.discard(source)  # a second copy is read, and may be known by then
            kept.append((source, line))
        else:
            texts.append((line, ENTRY_START[1:] + piece, 2))
        line += piece.count(b"\n") + 2
    parts: list[tuple[int, LoadedFile]] = []  # each with how many lines stand above it
    for line, text, separators in texts:
        if not _is_closed(text, separators):
            return None
        part = locate_entries(parse_memory_file(path, text), patterns)
        if separators and (not part.entries or part.prose):
            return None  # what opens here, or ends here, may be something else in its place
        parts.append((line - 1, part))
    return LoadedFile(
        path=path,
        scope=scope,
        entries=tuple(
            replace(one, line=one.line + above) for above, part in parts for one in part.entries
        ),
        prose=tuple((line + above, text) for above, part in parts for line, text in part.prose),
        findings=tuple(
            replace(one, line=one.line + above) for above, part in parts for one in part.findings
        ),
        sources={
            line + above: source for above, part in parts for line, source in part.sources.items()
        },
        kept=tuple(kept),
    )


def _is_closed(text: bytes, separators: int) -> bool:
    """Whether a piece of a file is read alone as it is read in its place, by signs that are found quickly."""
    if (b"\n" + text).count(b"\n---") != separators or any(
        sign in text for sign in (b"\r", BOM, *CONFLICT)
    ):
        return False
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError:
        return False
    if b"```" not in text and b"~~~" not in text:
        return True
    fenced = fenced_lines(lines)
    return all(fenced[at] for at, line in enumerate(lines) if FENCE.match(line))


def _piece_hasher(scope: ScopeOf) -> Callable[[bytes], bytes]:
    """By what an entry is known: its text from behind `id: ` to before the next entry, and the scope of its file."""
    key = hashlib.blake2b(f"{scope.name}\n{scope.where}".encode(), digest_size=16).digest()
    return lambda piece: hashlib.blake2b(piece, digest_size=16, key=key).digest()


def _sources(
    file: MemoryFile, scope: ScopeOf, findings: Sequence[Finding]
) -> Iterator[tuple[int, bytes]]:
    hasher, lines = _piece_hasher(scope), sorted({finding.line for finding in findings})
    ends = [segment.line for segment in file.segments[1:]] + [sys.maxsize]
    for segment, end in zip(file.segments, ends, strict=True):
        text = segment.raw.encode() if segment.entry else b""
        is_sound = bisect_left(lines, segment.line) == bisect_left(lines, end)
        if is_sound and text.startswith(ENTRY_START[1:]) and _is_closed(text, 2):
            piece = text[len(ENTRY_START) - 1 :]
            yield segment.line, hasher(piece if end == sys.maxsize else piece.removesuffix(b"\n"))


def locate_entries(file: MemoryFile, patterns: ScopePatterns) -> LoadedFile:
    """The entries of a parsed file, each with its place and scope."""
    path = file.path
    scope = classify_scope(path, patterns) or PROJECT
    findings = list(file.findings)

    def scope_of(entry: Entry, line: int) -> ScopeOf:
        """That of its file, or for an inbox fragment the one it names."""
        if not is_fragment(path):
            return scope
        try:
            return target_of(entry)
        except UsageError as error:
            findings.append(Finding(path, line, "bad-scope", error.message, error.hint))
            return PROJECT

    entries = tuple(
        Located(segment.entry, path, segment.line, scope_of(segment.entry, segment.line))
        for segment in file.segments
        if segment.entry is not None
    )
    findings += (finding for place in entries for finding in find_long(place))
    if is_fragment(path) and not findings and len(entries) != 1:
        hint = "Write one with `memory-ci add`, or move the others into files of their own."
        findings.append(
            Finding(path, 1, "bad-fragment", "an inbox file must hold exactly one entry", hint)
        )
    prose = tuple(
        (s.line, s.raw)
        for s in file.segments
        if s.entry is None and not s.is_broken and s.raw.strip()
    )
    sources = dict(_sources(file, scope, findings)) if entries else {}
    told = tuple(sorted(findings, key=_place))
    return LoadedFile(
        path=path, scope=scope, entries=entries, prose=prose, findings=told, sources=sources
    )


def find_long(place: Located) -> Iterator[Finding]:
    size = len(place.entry.title) + len(place.entry.body)
    if size > MAX_CHARS:
        message = f"the entry has {size:,} characters, {MAX_CHARS:,} is the limit"
        hint = "Keep what is to be remembered, and name the file that has the rest."
        yield Finding(place.path, place.line, "entry-too-long", message, hint)


def target_of(entry: Entry) -> ScopeOf:
    """The scope that an inbox entry is bound for; project when it names none. Raises UsageError (bad-scope)."""
    return parse_target(entry.scope) if entry.scope else PROJECT
