"""Tests of default values: they are not written, and reading gives the same with and without them."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, Entry
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import canonical_file, edit_file, format_entry
from tests.make import format_all_keys, make_entry, make_id

DAY = date(2026, 9, 1)
LATER = date(2026, 9, 8)
PLAIN = make_entry(1, created_at=DAY, source="commit:1a2b3c4d5e6f")
SHORT = f"""---
id: {make_id(1)}
type: procedural
created_at: '2026-09-01'
source: commit:1a2b3c4d5e6f
---
## Learning number 1
"""


def read(text: str) -> Entry:
    file = parse_memory_file("MEMORY.md", text.encode())
    assert not file.findings
    (entry,) = file.entries
    return entry


def update(text: str, entry: Entry) -> str:
    file = parse_memory_file("MEMORY.md", text.encode())
    return render_memory_file(edit_file(file, updated=[entry])).decode()


def test_an_entry_of_defaults_is_written_in_four_keys() -> None:
    assert format_entry(PLAIN) == SHORT


def test_missing_keys_have_their_defaults() -> None:
    entry = read(SHORT)
    assert (entry.domain, entry.importance) == ("task", NEW_IMPORTANCE)
    assert (entry.reinforcement_count, entry.status) == (0, "active")
    assert entry.last_reinforced == DAY


@given(
    st.builds(
        make_entry,
        domain=st.sampled_from(["task", "team"]),
        importance=st.sampled_from([0.5, 0.7]),
        reinforcement_count=st.sampled_from([0, 2]),
        status=st.sampled_from(["active", "retired", "compacted"]),
        created_at=st.sampled_from([None, DAY, LATER]),
        last_reinforced=st.sampled_from([DAY, LATER]),
    )
)
def test_both_forms_read_as_one_entry(entry: Entry) -> None:
    assert read(format_entry(entry)) == read(format_all_keys(entry)) == entry


def test_written_defaults_are_canonical_and_stay() -> None:
    old = format_all_keys(PLAIN)
    assert canonical_file("MEMORY.md", old.encode()).decode() == old
    assert canonical_file("MEMORY.md", SHORT.encode()).decode() == SHORT


def test_an_update_writes_keys_that_differ_from_their_default() -> None:
    used = replace(PLAIN, reinforcement_count=1, last_reinforced=LATER)
    text = update(SHORT, used)
    assert text == SHORT.replace(
        "created_at:", "reinforcement_count: 1\nlast_reinforced: '2026-09-08'\ncreated_at:"
    )
    assert read(text) == used


def test_a_written_key_stays_when_its_value_becomes_the_default() -> None:
    retired = SHORT.replace("created_at:", "status: retired # by Ann\ncreated_at:")
    assert update(retired, PLAIN) == retired.replace("retired #", "active #")


def test_a_new_creation_date_does_not_change_the_date_of_the_last_use() -> None:
    moved = replace(PLAIN, created_at=LATER)
    text = update(SHORT, moved)
    assert "last_reinforced: '2026-09-01'\ncreated_at: '2026-09-08'" in text
    assert read(text) == moved


@pytest.mark.parametrize("key", ["domain", "importance", "reinforcement_count", "status"])
def test_an_empty_value_is_not_the_default(key: str) -> None:
    text = SHORT.replace("created_at:", f"{key}:\ncreated_at:")
    (finding,) = parse_memory_file("MEMORY.md", text.encode()).findings
    assert finding.code == "bad-value"


def test_a_short_entry_in_a_code_fence_is_reported() -> None:
    text = f"# Memory\n\n```\n{SHORT}```\n"
    (finding,) = parse_memory_file("MEMORY.md", text.encode()).findings
    assert finding.code == "fenced-entry"
