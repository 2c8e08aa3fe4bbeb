"""LoadedFile: what reading one memory file gave."""

from __future__ import annotations

import msgspec

from memory_ci.records.entry import Located, ScopeOf
from memory_ci.records.report import Finding


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one memory file, its prose as (1-based line, text), and what was wrong in it.

    An entry that cannot be read is in `findings`, not in `entries`; the others are served.
    """

    path: str
    scope: ScopeOf
    entries: tuple[Located, ...] = ()
    prose: tuple[tuple[int, str], ...] = ()
    findings: tuple[Finding, ...] = ()
