"""Findings on lines of files, and the result of reading one memory or episode file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from memory_ci.records.entry import Located, ScopeOf

if TYPE_CHECKING:
    from memory_ci.records.episode import Feedback

Level = Literal["error", "warning", "notice"]


class Finding(msgspec.Struct, frozen=True):
    """A remark on one line of one file.

    Attributes:
        line: the line, from 1.
        code: a stable name, documented in docs/errors.md.
        hint: the way to mend it.
    """

    path: str
    line: int
    code: str
    message: str
    hint: str = ""
    level: Level = "error"


class KnownEntry(msgspec.Struct, frozen=True):
    """An entry that need not be read again: the hash of its text, and its line in the file."""

    text_hash: bytes
    line: int


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one memory file or episode file.

    An entry that cannot be read is in `findings` and not in `entries`; the others are served. An
    episode file has feedback, but neither entries nor prose.

    Attributes:
        prose: the lines outside of entries, each with its number from 1.
        feedback: feedback on entries, each with its line in the episode.
        text_hashes: hashes of the texts of entries, by line. An entry is here only if its text
            alone determines it.
        known_entries: the entries that the caller knows by their hash, which `entries` lacks.
    """

    path: str
    scope: ScopeOf
    entries: tuple[Located, ...] = ()
    prose: tuple[tuple[int, str], ...] = ()
    feedback: tuple[tuple[int, Feedback], ...] = ()
    findings: tuple[Finding, ...] = ()
    text_hashes: Mapping[int, bytes] = {}
    known_entries: tuple[KnownEntry, ...] = ()
