"""Merge: one entry, three ways. What only one side changed, and what both can have, never needs a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from memory_ci.records.entry import Entry, Status

STATUS_ORDER: tuple[Status, ...] = (
    "retired",
    "compacted",
    "active",
)  # The first that one of two sides has, wins.
COUNTER = "reinforcement_count"
KNOWN = tuple(name for name in Entry.__struct_fields__ if name != "extra")
UNKNOWN = ":"  # Stands before the name of an unknown key, which may be spelt like a field of ours (`title`).


class Conflict(msgspec.Struct, frozen=True):
    """What a person must decide: the fields that both sides changed differently. `ours` and `theirs` are the two
    versions with every other field settled: they differ in these alone."""

    fields: tuple[str, ...]
    ours: Entry
    theirs: Entry


def merge_entries(
    base: Entry | None, ours: Entry | None, theirs: Entry | None
) -> Entry | Conflict | None:
    """What both sides' changes to `base` make of it; None stands for an entry that is not there. It commutes in `ours`
    and `theirs`. Deleted on one side and changed on the other is kept with the change: a deletion can be repeated, a
    lost text cannot be guessed."""
    if ours is None or theirs is None:
        kept = ours or theirs
        return None if kept == base else kept
    before, mine, yours = _values(base), _values(ours), _values(theirs)
    keys = [[name for name in side if name.startswith(UNKNOWN)] for side in (before, mine, yours)]
    unknown = (
        _merge_lists(*keys) if is_contested(*keys) else keys[2] if keys[1] == keys[0] else keys[1]
    )
    names = [*KNOWN, *dict.fromkeys([*unknown, *sorted({*keys[1], *keys[2]})])]
    settled: dict[str, Any] = {}
    disputed: list[str] = []
    for name in names:
        sides = old, one, other = before.get(name), mine.get(name), yours.get(name)
        if not is_contested(*sides) and name != COUNTER:
            settled[name] = other if one == old else one
        elif name in RULES:
            settled[name] = RULES[name](*sides)
        else:
            disputed.append(name)
    if not disputed:
        return _entry(settled)
    versions = (
        _entry({name: settled.get(name, own.get(name)) for name in names}) for own in (mine, yours)
    )
    return Conflict(tuple(name.removeprefix(UNKNOWN) for name in disputed), *versions)


def is_contested(base: object, ours: object, theirs: object) -> bool:
    """Whether the two sides disagree: both changed `base`, and differently."""
    return ours not in (base, theirs) and theirs != base


def _merge_lists(
    base: Iterable[str] | None, ours: Iterable[str], theirs: Iterable[str]
) -> tuple[str, ...]:
    """What neither side took out of `base`, in its order, then what they added, each in its own order."""
    before, mine, yours = dict.fromkeys(base or ()), dict.fromkeys(ours), dict.fromkeys(theirs)
    kept = [item for item in before if item in mine and item in yours]
    # Sorted, so that it does not matter which side is called ours.
    added = sorted([item for item in side if item not in before] for side in (mine, yours))
    return tuple(dict.fromkeys([*kept, *added[0], *added[1]]))


RULES: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    # Base and both deltas, so it is asked even where both agree: +1 on each side is +2. Without a base, the higher.
    COUNTER: lambda base, ours, theirs: (
        max(ours, theirs) if base is None else max(0, ours + theirs - base)
    ),
    "last_reinforced": lambda _, ours, theirs: max(ours, theirs),
    "created_at": lambda _, ours, theirs: min(day for day in (ours, theirs) if day is not None),
    "status": lambda _, ours, theirs: min(ours, theirs, key=STATUS_ORDER.index),
    **dict.fromkeys(("supersedes", "evidence", "occurrences", "cites", "relations"), _merge_lists),
}  # Fields of which both sides' changes can be had.


def _values(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {}
    return {name: getattr(entry, name) for name in KNOWN} | {
        f"{UNKNOWN}{key}": raw for key, raw in entry.extra
    }


def _entry(values: Mapping[str, Any]) -> Entry:
    known = {name: value for name, value in values.items() if not name.startswith(UNKNOWN)}
    extra = [
        (name.removeprefix(UNKNOWN), raw)
        for name, raw in values.items()
        if name.startswith(UNKNOWN)
    ]
    return Entry(**known, extra=tuple((key, raw) for key, raw in extra if raw is not None))
