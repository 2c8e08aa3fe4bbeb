"""The options of a record run: its branch, its range, and its sources."""

from __future__ import annotations

from pathlib import Path

import msgspec

from memory_ci.records.config import EngineName


class RecordOptions(msgspec.Struct, frozen=True):
    """The range that a run reads, and the sources and engine to use.

    Attributes:
        since: begin after this revision, or so long ago (`90d`, `12w`, `6m`, `1y`); None takes up
            where the last run ended.
        ref: the branch; None for the checked-out branch.
        sessions: transcripts that the caller names, in addition to the repository's transcripts.
        engine: the engine to use instead of the configuration's.
        from_root: on a first run, begin at the first commit and not where memory-ci was set up.
        base: the commit that the branch is at, if the caller knows it.
        problems: problems that the caller met before (`fetch_sessions`).
        accepted_keys: content keys of candidates that a person accepted in the memory pull request.
    """

    since: str | None = None
    ref: str | None = None
    sessions: tuple[Path, ...] = ()
    engine: EngineName | None = None
    from_root: bool = False
    base: str | None = None
    problems: tuple[str, ...] = ()
    accepted_keys: frozenset[str] = frozenset()

    @property
    def is_range_named(self) -> bool:
        """Whether the caller said where the range begins."""
        return self.since is not None or self.from_root
