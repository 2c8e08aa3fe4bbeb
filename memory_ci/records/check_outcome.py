"""What became of the checks of entries in merged changes (docs/checks.md)."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.proportion import Share


class RuleCheckOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the check of an entry in merged changes.

    Attributes:
        id: the id of the entry.
        title: its title.
        since: the day on which the entry got its check; None if it is not committed.
        applicable: the number of changes since then that the check is about.
        ignored: the number of those that break it and do not skip it.
        skipped: the number of those that skip it by `Memory-Skip`.
        last_passed: of the last 20 changes that it is about, the number that ignored or skipped it.
        before: of the last 50 applicable changes before that day, those that break it.
        after: of the first 50 since then, those that break it without a skip.
        low: the lower end of the 95 % interval of the difference; None where one share is empty.
        high: its upper end.
    """

    id: str
    title: str
    since: date | None = None
    applicable: int = 0
    ignored: int = 0
    skipped: int = 0
    last_passed: int = 0
    before: Share = Share(0, 0)
    after: Share = Share(0, 0)
    low: float | None = None
    high: float | None = None

    @property
    def followed(self) -> int:
        """The number of applicable changes that follow the check."""
        return self.applicable - self.ignored - self.skipped

    @property
    def made_a_difference(self) -> bool:
        """Whether changes break the rule less often since it has a check."""
        return self.high is not None and self.high < 0
