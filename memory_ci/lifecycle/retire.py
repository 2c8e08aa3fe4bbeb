"""Retirement: entries that are no longer shown. Their files keep them until compaction, git history for ever."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import msgspec

from memory_ci.records.entry import Located, Phase
from memory_ci.records.plan import Change

KEPT = ("pin", "permanent")
"""Priorities that only a person gives, and only a person takes back."""


def plan_stage_retirement(located: Iterable[Located], ended: Phase, today: date) -> tuple[Change, ...]:
    """Retire the task entries of the phase that has ended, in every scope; a compacted one is like an active one.

    What the team knows outlives a stage, and so does what a person pinned. Of what is retired already nothing changes.
    """
    why = f"the stage {ended} ended, seen {today.isoformat()}"
    return tuple(_retired(place, why) for place in located if _ends_with(place, ended))


def _ends_with(place: Located, ended: Phase) -> bool:
    entry = place.entry
    is_of_stage = entry.domain == "task" and entry.phase == ended
    return is_of_stage and entry.status != "retired" and entry.priority not in KEPT


def _retired(place: Located, why: str) -> Change:
    entry = msgspec.structs.replace(place.entry, status="retired")
    return Change(step="retire", kind="update", path=place.path, entry=entry, why=why)
