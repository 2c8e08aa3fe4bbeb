"""Findings: what a check saw, where, and what to do; and what reading one memory or episode file gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from memory_ci.records.entry import Located, ScopeOf

if TYPE_CHECKING:
    from memory_ci.records.episode import Feedback

Level = Literal["error", "warning", "notice"]


class Finding(msgspec.Struct, frozen=True):
    """One remark on one line of one file. `code` is stable and documented in docs/errors.md."""

    path: str
    line: int
    code: str
    message: str
    hint: str = ""
    level: Level = "error"


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one memory file, its prose as (1-based line, text), and what was wrong in it.
    An entry that cannot be read is in `findings`, not in `entries`; the others are served. An episode file has neither
    entries nor prose, but `feedback`, each with the line of the episode that says so.
    `sources`: by the line of an entry the hash of its text, where that alone makes it what it is. `kept`: the hashes
    and lines of entries that whoever asked knows by them, which are not in `entries`."""

    path: str
    scope: ScopeOf
    entries: tuple[Located, ...] = ()
    prose: tuple[tuple[int, str], ...] = ()
    feedback: tuple[tuple[int, Feedback], ...] = ()
    findings: tuple[Finding, ...] = ()
    sources: Mapping[int, bytes] = {}
    kept: tuple[tuple[bytes, int], ...] = ()
