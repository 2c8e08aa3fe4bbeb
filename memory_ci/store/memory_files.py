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
from memory_ci.records.report import Finding, KnownEntry, LoadedFile
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
"""The beginning of an entry that may be read alone, after the line feed of the text above it."""

FIRST_LINES = ENTRY_START.removeprefix(b"\n")
CONFLICT_MARKERS = (b"<<<<<<< ", b">>>>>>> ")


class _Piece(msgspec.Struct, frozen=True):
    """A part of a file that is read alone: an entry, or the text above the first entry.

    Attributes:
        line: its first line in the file, 1-based.
        text: its text.
        separator_count: how many lines `---` it should have.
        entry_hash: the hash by which an entry is recognised; b"" for the text above the first.
    """

    line: int
    text: bytes
    separator_count: int
    entry_hash: bytes = b""


def load_file(
    path: str, data: bytes, patterns: ScopePatterns, known_hashes: Collection[bytes] = ()
) -> LoadedFile:
    """Read the entries of a memory file. Never raises: findings name what cannot be read.

    The entries of most files can be read one by one. Then those that an index has already are not
    read again. A file in which text may affect the text after it (an open code fence, a third
    `---`, a conflict) is read as a whole.

    Args:
        path: the path of the file.
        data: its content.
        patterns: which files have which scope.
        known_hashes: hashes of entries that need not be read again; their lines are returned in
            `LoadedFile.known_entries`.
    """
    if not is_fragment(path):
        loaded = _load_pieces(path, data, patterns, set(known_hashes))
        if loaded is not None:
            return loaded
    return locate_entries(parse_memory_file(path, data), patterns, with_hashes=True)


def _load_pieces(
    path: str, data: bytes, patterns: ScopePatterns, known_hashes: set[bytes]
) -> LoadedFile | None:
    """Read the entries of a file one by one, apart from those with a known hash.

    Args:
        path: the path of the file.
        data: its content.
        patterns: which files have which scope.
        known_hashes: hashes of entries; those that are found are removed.

    Returns:
        The entries that were read, and the lines of the known ones; None if an entry may read
        differently alone than in the whole file.
    """
    scope = classify_scope(path, patterns) or PROJECT
    pieces, known_entries = _split_pieces(data, scope, known_hashes)
    if not pieces and not known_entries:
        return None
    entries: list[Located] = []
    prose: list[tuple[int, str]] = []
    findings: list[Finding] = []
    text_hashes: dict[int, bytes] = {}
    for piece in pieces:
        loaded = _load_piece(piece, path, patterns, scope)
        if loaded is None:
            return None
        entries += loaded.entries
        prose += loaded.prose
        findings += loaded.findings
        text_hashes |= loaded.text_hashes
    return LoadedFile(
        path=path,
        scope=scope,
        entries=tuple(entries),
        prose=tuple(prose),
        findings=tuple(findings),
        text_hashes=text_hashes,
        known_entries=tuple(known_entries),
    )


def _load_piece(
    piece: _Piece, path: str, patterns: ScopePatterns, scope: ScopeOf
) -> LoadedFile | None:
    """Read a part of a file alone; None if it may mean something else in the whole file.

    Args:
        piece: the part.
        path: the path of the file.
        patterns: which files have which scope.
        scope: the scope of the file.
    """
    entry = _read_canonical(piece)
    if entry is not None:  # As for almost all entries.
        located = Located(entry, path, piece.line, scope)
        findings = tuple(check_length(located))
        text_hashes = {} if findings else {piece.line: piece.entry_hash}
        return LoadedFile(
            path=path, scope=scope, entries=(located,), findings=findings, text_hashes=text_hashes
        )

    if not _reads_same_alone(piece.text, piece.separator_count):
        return None
    loaded = locate_entries(parse_memory_file(path, piece.text), patterns, with_hashes=True)
    is_whole_entry = bool(loaded.entries) and not loaded.prose
    if piece.entry_hash and not is_whole_entry:
        return None
    return _shift_lines(loaded, piece.line - 1)


def _shift_lines(loaded: LoadedFile, offset: int) -> LoadedFile:
    """Return what was read of a part of a file, with the lines that it has in the file."""
    entries = [replace(located, line=located.line + offset) for located in loaded.entries]
    findings = [replace(finding, line=finding.line + offset) for finding in loaded.findings]
    hashes = loaded.text_hashes.items()
    return replace(
        loaded,
        entries=tuple(entries),
        prose=tuple((line + offset, text) for line, text in loaded.prose),
        findings=tuple(findings),
        text_hashes={line + offset: text_hash for line, text_hash in hashes},
    )


def _read_canonical(piece: _Piece) -> Entry | None:
    """Return the entry that a part of a file is; None if it is not in the canonical form."""
    if not piece.entry_hash:
        return None
    try:
        return parse_canonical(piece.text.decode().removeprefix("---\n"))
    except UnicodeDecodeError:
        return None


def _split_pieces(
    data: bytes, scope: ScopeOf, known_hashes: set[bytes]
) -> tuple[list[_Piece], list[KnownEntry]]:
    """Cut a file at the beginning of each entry, and leave out the known entries.

    Args:
        data: the content of the file.
        scope: its scope.
        known_hashes: hashes of entries; those that are found are removed.

    Returns:
        The text above the first entry and the entries that are not known; and the known entries.
        Both are empty if the file has no entry.
    """
    # A line feed is put before the file so that an entry on its first line is found, too.
    above_entries, *entry_texts = (b"\n" + data).split(ENTRY_START)
    pieces: list[_Piece] = []
    known_entries: list[KnownEntry] = []
    if not entry_texts:
        return pieces, known_entries
    if above_entries:
        text = above_entries.removeprefix(b"\n") + b"\n"
        pieces.append(_Piece(line=1, text=text, separator_count=0))

    hash_text = _make_hasher(scope)
    line = above_entries.count(b"\n") + 1
    for entry_text in entry_texts:
        entry_hash = hash_text(entry_text)
        if entry_hash in known_hashes:
            known_hashes.discard(entry_hash)  # A second copy is read.
            known_entries.append(KnownEntry(entry_hash, line))
        else:
            text = FIRST_LINES + entry_text
            pieces.append(_Piece(line, text, separator_count=2, entry_hash=entry_hash))
        line += ENTRY_START.count(b"\n") + entry_text.count(b"\n")
    return pieces, known_entries


def _reads_same_alone(text: bytes, separator_count: int) -> bool:
    """Return whether a part of a file means the same alone and in the whole file.

    It does if nothing in it can affect the text after it: it has no more lines `---` than it
    should have (another may begin an entry), no conflict marker, carriage return or byte order
    mark, and no code fence that is not closed. It is not parsed for that, which takes longer.

    Args:
        text: the part.
        separator_count: how many lines `---` it should have: 2 for an entry.
    """
    if (b"\n" + text).count(b"\n---") != separator_count:
        return False
    for marker in (b"\r", BOM, *CONFLICT_MARKERS):
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
    """Return the function that hashes the text of an entry, by which it is recognised again.

    The function takes the bytes between ENTRY_START and the ENTRY_START of the next entry. Equal
    texts in different scopes have different hashes, because the scope is the key of the hash.
    """
    key = blake2b(f"{scope.name}\n{scope.where}".encode(), digest_size=16).digest()

    def hash_text(entry_text: bytes) -> bytes:
        return blake2b(entry_text, digest_size=16, key=key).digest()

    return hash_text


def _hash_entries(
    file: MemoryFile, scope: ScopeOf, findings: Sequence[Finding]
) -> Iterator[tuple[int, bytes]]:
    """Yield the line and the hash of each entry of a parsed file that can be recognised by it.

    The hashes are those that `_split_pieces` computes without parsing. Entries with a finding have
    none: they are read each time, so that the finding is reported each time. An entry that would
    mean something else if it were read alone has no hash, either.

    Args:
        file: the file.
        scope: its scope.
        findings: the findings on it.
    """
    hash_text = _make_hasher(scope)
    finding_lines = sorted({finding.line for finding in findings})
    next_lines = [segment.line for segment in file.segments[1:]] + [sys.maxsize]
    for segment, next_line in zip(file.segments, next_lines, strict=True):
        has_finding = bool(select_between(finding_lines, segment.line, next_line))
        if segment.entry is None or has_finding:
            continue
        text = segment.raw.encode()
        if not text.startswith(FIRST_LINES) or not _reads_same_alone(text, separator_count=2):
            continue
        entry_text = text.removeprefix(FIRST_LINES)
        is_last_segment = next_line == sys.maxsize
        if not is_last_segment:
            # This line feed belongs to the ENTRY_START of the next entry.
            entry_text = entry_text.removesuffix(b"\n")
        yield segment.line, hash_text(entry_text)


def locate_entries(
    file: MemoryFile, patterns: ScopePatterns, *, with_hashes: bool = False
) -> LoadedFile:
    """Return the entries of a parsed memory file, each with its line and its scope.

    An entry has the scope of its file. An inbox fragment (a new entry in a file of its own)
    names the scope itself; a fragment that can be read but has not exactly one entry is reported.

    Args:
        file: the file.
        patterns: which files have which scope.
        with_hashes: hash the texts of entries (`text_hashes`), which only an index needs.
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
    can_be_read = not findings
    if is_fragment(path) and can_be_read and len(entries) != 1:
        message = "an inbox file must hold exactly one entry"
        hint = "Write one with `memory-ci add`, or move the others into files of their own."
        findings.append(Finding(path, 1, "bad-fragment", message, hint))
    text_hashes: Mapping[int, bytes] = {}
    if with_hashes and entries:
        text_hashes = dict(_hash_entries(file, scope, findings))
    return LoadedFile(
        path=path,
        scope=scope,
        entries=tuple(entries),
        prose=tuple(prose),
        findings=tuple(sorted(findings, key=finding_order)),
        text_hashes=text_hashes,
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
