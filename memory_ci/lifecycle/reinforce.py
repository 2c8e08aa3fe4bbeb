"""Reinforcement: an entry that was given to merged work counts once more for that work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

import msgspec

from memory_ci.records.change import Change
from memory_ci.records.entry import Located


def plan_reinforcement(
    uses: Iterable[tuple[str, date, frozenset[str]]], located: Mapping[str, Located]
) -> tuple[Change, ...]:
    """One update per entry: +1 for each merged change that used it, last_reinforced the latest of their dates.

    `uses` holds, per merged change, its label, the day it was merged and the entry ids it names. A retired
    entry is left alone, a compacted one counts like an active one, and an id nobody knows is nobody's.
    """
    labels: dict[str, list[str]] = {}
    days: dict[str, date] = {}
    for label, day, ids in uses:
        for entry_id in ids:
            if entry_id in located and located[entry_id].entry.status != "retired":
                labels.setdefault(entry_id, []).append(label)
                days[entry_id] = max(day, days.get(entry_id, day))
    return tuple(_change(located[entry_id], labels[entry_id], days[entry_id]) for entry_id in sorted(labels))


def _change(place: Located, labels: list[str], day: date) -> Change:
    entry = msgspec.structs.replace(
        place.entry,
        reinforcement_count=place.entry.reinforcement_count + len(labels),
        last_reinforced=max(day, place.entry.last_reinforced),
    )
    return Change(step="reinforce", kind="update", path=place.path, entry=entry, why=f"for {', '.join(labels)}")
