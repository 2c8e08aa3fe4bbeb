"""From the bytes of a memory file to the entries it holds, each with its place and scope."""

from __future__ import annotations

from collections.abc import Iterator

from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import MAX_CHARS, PROJECT, Entry, Located, ScopeOf
from memory_ci.records.loaded import LoadedFile
from memory_ci.records.report import Finding
from memory_ci.store.document import parse_memory_file
from memory_ci.store.layout import classify_scope, is_fragment, parse_target


def load_file(path: str, data: bytes, patterns: ScopePatterns) -> LoadedFile:
    """Read one memory file. Never raises: what cannot be served is in the findings."""
    file = parse_memory_file(path, data)
    scope = classify_scope(path, patterns) or PROJECT
    findings = list(file.findings)
    entries = tuple(
        Located(segment.entry, path, segment.line, _scope(path, segment.entry, segment.line, scope, findings))
        for segment in file.segments
        if segment.entry is not None
    )
    findings += (finding for place in entries for finding in find_long(place))
    if is_fragment(path) and not findings and len(entries) != 1:
        hint = "Write one with `memory-ci add`, or move the others into files of their own."
        findings.append(Finding(path, 1, "bad-fragment", "an inbox file must hold exactly one entry", hint))
    prose = tuple((s.line, s.raw) for s in file.segments if s.entry is None and not s.is_broken and s.raw.strip())
    return LoadedFile(path=path, scope=scope, entries=entries, prose=prose, findings=tuple(findings))


def find_long(place: Located) -> Iterator[Finding]:
    """The finding of an entry that is over the limit."""
    size = len(place.entry.title) + len(place.entry.body)
    if size > MAX_CHARS:
        message = f"the entry has {size:,} characters, {MAX_CHARS:,} is the limit"
        hint = "Keep what is to be remembered, and name the file that has the rest."
        yield Finding(place.path, place.line, "entry-too-long", message, hint)


def _scope(path: str, entry: Entry, line: int, scope: ScopeOf, findings: list[Finding]) -> ScopeOf:
    """The scope of an entry: that of its file, or for an inbox fragment the one it names."""
    if not is_fragment(path):
        return scope
    try:
        return target_of(entry)
    except UsageError as error:
        findings.append(Finding(path, line, "bad-scope", error.message, error.hint))
        return PROJECT


def target_of(entry: Entry) -> ScopeOf:
    """The scope that an inbox entry is bound for; project when it names none. Raises UsageError (bad-scope)."""
    return parse_target(entry.scope) if entry.scope else PROJECT
