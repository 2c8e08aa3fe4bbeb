"""Tests of the three-way merge of an entry: automatic results, conflicts, and algebraic properties."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.merge import Conflict, merge_entries
from memory_ci.records.entry import Entry
from tests.make import make_entry

ITEMS = st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map(tuple)
DAYS = st.sampled_from([date(2026, 9, day) for day in range(1, 5)])
EXTRA = st.dictionaries(
    st.sampled_from(["title", "team", "owner"]), st.sampled_from([" x", " y"]), max_size=3
)


@st.composite
def versions(draw: st.DrawFn) -> Entry | None:
    """Draw a version of one entry; versions differ in few fields, so that every rule of the merge applies."""
    if draw(st.integers(0, 5)) == 0:
        return None
    return make_entry(
        1,
        importance=draw(st.sampled_from([0.2, 0.5])),
        reinforcement_count=draw(st.integers(0, 4)),
        last_reinforced=draw(DAYS),
        created_at=draw(st.none() | DAYS),
        status=draw(st.sampled_from(["active", "compacted", "retired"])),
        phase=draw(st.sampled_from([None, "design"])),
        evidence=draw(ITEMS),
        supersedes=draw(ITEMS),
        extra=tuple(draw(EXTRA).items()),
        body=draw(st.sampled_from(["", "one", "two"])),
    )


def swap(merged: Entry | Conflict | None) -> Entry | Conflict | None:
    return (
        Conflict(merged.fields, merged.theirs, merged.ours)
        if isinstance(merged, Conflict)
        else merged
    )


def merge(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> Entry:
    merged = merge_entries(make_entry(**base), make_entry(**ours), make_entry(**theirs))
    assert isinstance(merged, Entry)
    return merged


@given(versions(), versions(), versions())
def test_the_merge_is_symmetric(
    base: Entry | None, ours: Entry | None, theirs: Entry | None
) -> None:
    forward, back = merge_entries(base, ours, theirs), merge_entries(base, theirs, ours)
    if isinstance(forward, Conflict) and isinstance(back, Conflict):
        assert set(forward.fields) == set(back.fields)
        back = Conflict(forward.fields, back.ours, back.theirs)
    assert forward == swap(back)


@given(versions(), versions())
def test_an_unchanged_side_gives_the_other_side(base: Entry | None, side: Entry | None) -> None:
    assert merge_entries(base, side, base) == side
    assert merge_entries(base, base, side) == side


@given(versions(), versions(), versions())
def test_a_conflict_differs_in_the_disputed_fields_alone(
    base: Entry | None, ours: Entry, theirs: Entry
) -> None:
    merged = merge_entries(base, ours, theirs)
    if isinstance(merged, Conflict):
        field_names = [name for name in Entry.__struct_fields__ if name != "extra"]
        differing = {
            name
            for name in field_names
            if getattr(merged.ours, name) != getattr(merged.theirs, name)
        }
        assert differing == {
            name for name in merged.fields if name in field_names and name != "title"
        }


def test_what_either_side_adds_is_kept() -> None:
    assert merge_entries(None, make_entry(1), None) == make_entry(1)
    assert merge_entries(None, None, make_entry(1)) == make_entry(1)


def test_a_deletion_wins_over_no_change_and_loses_to_a_change() -> None:
    entry, changed = make_entry(1), make_entry(1, body="more")
    assert merge_entries(entry, None, entry) is None
    assert merge_entries(entry, entry, None) is None
    assert merge_entries(entry, None, None) is None
    assert merge_entries(entry, None, changed) == changed
    assert merge_entries(entry, changed, None) == changed


@pytest.mark.parametrize(("ours", "theirs", "merged"), [(5, 4, 6), (4, 4, 5), (3, 1, 1), (0, 1, 0)])
def test_counters_add_up_and_never_fall_below_zero(ours: int, theirs: int, merged: int) -> None:
    counts = [{"reinforcement_count": count} for count in (3, ours, theirs)]
    assert merge(*counts).reinforcement_count == merged


def test_the_same_entry_added_on_both_sides_counts_once() -> None:
    first, two = make_entry(1, reinforcement_count=2), make_entry(1, reinforcement_count=3)
    assert merge_entries(None, first, two) == two


def test_the_later_reinforcement_and_the_earlier_creation_win() -> None:
    days = [date(2026, 9, day) for day in (10, 12, 11)]
    merged = merge(*({"last_reinforced": day, "created_at": day} for day in days))
    assert (merged.last_reinforced, merged.created_at) == (date(2026, 9, 12), date(2026, 9, 11))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("active", "retired", "compacted", "retired"),
        ("retired", "compacted", "active", "compacted"),
        ("retired", "active", "retired", "active"),
    ],
)
def test_of_two_changed_statuses_the_stronger_wins(
    base: str, ours: str, theirs: str, merged: str
) -> None:
    assert merge({"status": base}, {"status": ours}, {"status": theirs}).status == merged


def test_additions_and_removals_of_both_sides_apply_to_lists() -> None:
    merged = merge(
        {"evidence": ("a", "b", "c")},
        {"evidence": ("a", "c", "x")},
        {"evidence": ("b", "c", "w", "x")},
    )
    assert merged.evidence == ("c", "w", "x")


def test_changes_of_different_fields_are_both_kept() -> None:
    merged = merge({}, {"importance": 0.9}, {"body": "because", "extra": (("owner", " ada"),)})
    assert merged == make_entry(importance=0.9, body="because", extra=(("owner", " ada"),))


def test_different_changes_of_a_field_conflict_and_other_fields_are_merged() -> None:
    merged = merge_entries(
        make_entry(), make_entry(title="A", importance=0.9), make_entry(title="B", body="because")
    )
    settled: dict[str, Any] = {"importance": 0.9, "body": "because"}
    assert merged == Conflict(
        ("title",), make_entry(title="A", **settled), make_entry(title="B", **settled)
    )


def test_an_unknown_key_that_one_side_dropped_and_the_other_changed_is_in_conflict() -> None:
    base, changed = make_entry(extra=(("owner", " ada"),)), make_entry(extra=(("owner", " bob"),))
    assert merge_entries(base, make_entry(), changed) == Conflict(("owner",), make_entry(), changed)
