"""Three-way merge of one entry. A person decides only what both sides changed differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

import msgspec

from memory_ci.records.entry import Entry, Status

STATUS_ORDER: tuple[Status, ...] = ("retired", "compacted", "active")
"""Of two statuses the first in this order wins."""

USE_COUNT_FIELD = "reinforcement_count"
KNOWN_FIELDS = tuple(name for name in Entry.__struct_fields__ if name != "extra")

UNKNOWN_KEY_PREFIX = ":"
"""Precedes the name of an unknown key, which may be spelt like a field of ours (`title`)."""

Values = dict[str, Any]


class Conflict(msgspec.Struct, frozen=True):
    """A conflict that a person must decide.

    Attributes:
        fields: the fields that both sides changed differently.
        ours: our version; it differs from theirs in these fields alone.
        theirs: their version.
    """

    fields: tuple[str, ...]
    ours: Entry
    theirs: Entry


def merge_entries(
    base: Entry | None, ours: Entry | None, theirs: Entry | None
) -> Entry | Conflict | None:
    """Return the merge of both sides' changes to a base; None for an entry that is missing.

    The result does not depend on which side is ours. An entry that one side deleted and the other
    changed is kept with the change: a deletion can be repeated, a lost text cannot be guessed.
    """
    if ours is None or theirs is None:
        remaining = ours or theirs
        return None if remaining == base else remaining
    base_values = _list_values(base)
    our_values = _list_values(ours)
    their_values = _list_values(theirs)
    names = [*KNOWN_FIELDS, *_order_unknown_keys(base_values, our_values, their_values)]
    merged_values: Values = {}
    conflicting_names: list[str] = []
    for name in names:
        base_value = base_values.get(name)
        our_value = our_values.get(name)
        their_value = their_values.get(name)
        # Counts are always added up: both sides may have raised one to the same number.
        if name != USE_COUNT_FIELD and not is_contested(base_value, our_value, their_value):
            merged_values[name] = their_value if our_value == base_value else our_value
        elif name in MERGE_RULES:
            merge_values = MERGE_RULES[name]
            merged_values[name] = merge_values(base_value, our_value, their_value)
        else:
            conflicting_names.append(name)
    if not conflicting_names:
        return _build_entry(merged_values)
    fields = tuple(name.removeprefix(UNKNOWN_KEY_PREFIX) for name in conflicting_names)
    our_version = {name: merged_values.get(name, our_values.get(name)) for name in names}
    their_version = {name: merged_values.get(name, their_values.get(name)) for name in names}
    return Conflict(fields, _build_entry(our_version), _build_entry(their_version))


def _order_unknown_keys(base: Values, ours: Values, theirs: Values) -> list[str]:
    """Return all unknown keys of both sides, in the order in which the merged entry has them.

    The order is that of the side that changed the list of keys; if both did, their additions come
    last. Keys that one side deleted are at the end, so that their values are merged as well: a
    deleted value becomes None, and `_build_entry` leaves the key out.
    """
    base_keys = _list_unknown_keys(base)
    our_keys = _list_unknown_keys(ours)
    their_keys = _list_unknown_keys(theirs)
    ordered_keys: Iterable[str]
    if is_contested(base_keys, our_keys, their_keys):
        ordered_keys = _merge_lists(base_keys, our_keys, their_keys)
    elif our_keys == base_keys:
        ordered_keys = their_keys
    else:
        ordered_keys = our_keys
    other_keys = sorted({*our_keys, *their_keys})
    return list(dict.fromkeys([*ordered_keys, *other_keys]))


def _list_unknown_keys(values: Values) -> list[str]:
    return [name for name in values if name.startswith(UNKNOWN_KEY_PREFIX)]


def is_contested(base: object, ours: object, theirs: object) -> bool:
    """Return whether both sides changed a value of the base, each to a different value."""
    return ours not in (base, theirs) and theirs != base


def _merge_lists(
    base: Iterable[str] | None, ours: Iterable[str], theirs: Iterable[str]
) -> tuple[str, ...]:
    """Return the items that neither side removed, then those that each side added."""
    base_items = dict.fromkeys(base or ())
    our_items = dict.fromkeys(ours)
    their_items = dict.fromkeys(theirs)
    remaining = [item for item in base_items if item in our_items and item in their_items]
    our_additions = [item for item in our_items if item not in base_items]
    their_additions = [item for item in their_items if item not in base_items]
    # Sorted, so that it does not matter which side is ours.
    first, second = sorted([our_additions, their_additions])
    return tuple(dict.fromkeys([*remaining, *first, *second]))


def _merge_counters(base: int | None, ours: int, theirs: int) -> int:
    """Return the base with both deltas: +1 on each side is +2. Without a base, the higher count."""
    return max(ours, theirs) if base is None else max(0, ours + theirs - base)


def _choose_later(_: date | None, ours: date, theirs: date) -> date:
    return max(ours, theirs)


def _choose_earlier(_: date | None, ours: date | None, theirs: date | None) -> date:
    return min(day for day in (ours, theirs) if day is not None)


def _choose_status(_: Status | None, ours: Status, theirs: Status) -> Status:
    return min(ours, theirs, key=STATUS_ORDER.index)


MERGE_RULES: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    USE_COUNT_FIELD: _merge_counters,
    "last_reinforced": _choose_later,
    "created_at": _choose_earlier,
    "status": _choose_status,
    "supersedes": _merge_lists,
    "evidence": _merge_lists,
    "occurrences": _merge_lists,
    "cites": _merge_lists,
    "relations": _merge_lists,
}
"""By field, how the changes of both sides are combined. Other fields conflict in this case."""


def _list_values(entry: Entry | None) -> Values:
    """Return the values of an entry's fields by name, with those of its unknown keys.

    An unknown key gets the prefix `:`, because it may have the name of a field: `:title`.
    """
    if entry is None:
        return {}
    values = {name: getattr(entry, name) for name in KNOWN_FIELDS}
    for key, raw in entry.extra:
        values[f"{UNKNOWN_KEY_PREFIX}{key}"] = raw
    return values


def _build_entry(values: Mapping[str, Any]) -> Entry:
    """Return the entry with these values, without unknown keys that are None."""
    fields: Values = {}
    extra: list[tuple[str, str]] = []
    for name, value in values.items():
        if not name.startswith(UNKNOWN_KEY_PREFIX):
            fields[name] = value
        elif value is not None:
            extra.append((name.removeprefix(UNKNOWN_KEY_PREFIX), value))
    return Entry(**fields, extra=tuple(extra))
