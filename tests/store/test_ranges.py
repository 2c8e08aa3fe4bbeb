"""Tests of the file of commit ranges that runs have read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.store.ranges import (
    Recorded,
    RecordedRange,
    format_recorded,
    merge_recorded,
    parse_recorded,
)

FIRST = RecordedRange(None, "a" * 40)
SECOND = RecordedRange("a" * 40, "b" * 40, "design")

SHAS = st.text("0123456789abcdef", min_size=40, max_size=40)
RANGES = st.builds(
    RecordedRange, st.none() | SHAS, SHAS, st.sampled_from(["", "design", "implementation"])
)
IDS = st.from_regex(r"pr-[1-9][0-9]{0,4}", fullmatch=True)


@given(st.lists(RANGES, unique=True), st.lists(IDS, unique=True))
def test_written_ranges_are_read_back(ranges: list[RecordedRange], ids: list[str]) -> None:
    recorded = Recorded(tuple(ranges), tuple(ids))
    assert parse_recorded(format_recorded(recorded)) == recorded


@given(st.binary())
def test_any_content_can_be_read(data: bytes) -> None:
    parsed = parse_recorded(data)
    assert parse_recorded(format_recorded(parsed)) == parsed


def test_an_unreadable_line_is_ignored() -> None:
    text = format_recorded(Recorded((FIRST,), ("pr-1",))).decode()
    conflict = f"<<<<<<< ours\n{text}=======\n- root..short\n- without A B\n>>>>>>> theirs\n"
    assert parse_recorded(conflict.encode()) == Recorded((FIRST,), ("pr-1",))


def test_a_merge_has_the_ranges_and_ids_of_both_sides() -> None:
    ours = format_recorded(Recorded((FIRST, SECOND), ("pr-1",)))
    theirs = format_recorded(Recorded((FIRST,), ("pr-2",)))
    merged = parse_recorded(merge_recorded(ours, theirs))
    assert merged == Recorded((FIRST, SECOND), ("pr-1", "pr-2"))
