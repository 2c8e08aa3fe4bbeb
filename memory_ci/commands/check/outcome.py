"""What became of each check of a base, for output and programs."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.check import CheckLevel

Verdict = Literal["followed", "violated", "skipped", "not-applicable", "not-judged"]


class CheckOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check of the base.

    Attributes:
        id: the id of its entry.
        title: the title of its entry.
        reason: why it was skipped or could not be judged, "" otherwise.
    """

    id: str
    title: str
    level: CheckLevel
    verdict: Verdict
    reason: str = ""
