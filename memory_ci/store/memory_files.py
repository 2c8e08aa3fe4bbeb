"""Memory files with their entries located: who an entry is for, and what is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from memory_ci.digests import blake2b
from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import MAX_CHARS, PROJECT, Entry, Located, ScopeOf
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.canonical import parse_canonical
from memory_ci.store.document import (
    BOM,
    MemoryFile,
    finding_order,
    parse_memory_file,
    select_between,
)
from memory_ci.store.headings import FENCE, mark_fenced_lines
from memory_ci.store.layout import classify_scope, is_fragment, parse_target

ENTRY_START = b"\n---\nid: "
CONFLICT = (b"<<<<<<< ", b">>>>>>> ")


class _Piece(msgspec.Struct, frozen=True):
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
        has_finding = bool(select_between(finding_lines, segment.line, end))
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
        findings=tuple(sorted(findings, key=finding_order)),
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
