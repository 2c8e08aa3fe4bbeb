"""Tests of writing memory files: our entries are canonical, and other bytes are unchanged."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import MemoryCIError, UnreadableMemoryError, UsageError
from memory_ci.records.entry import Entry
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file, entry_text, find_old_state, format_entry
from tests.make import format_all_keys, make_entry, make_id

DAYS = st.dates(date(1990, 1, 1), date(2100, 1, 1))
WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=30
).filter(str.strip)
LINE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30)
NASTY = st.sampled_from(
    [
        "---",
        "```",
        "# One",
        "## Two",
        "- a",
        "NO",
        "0123",
        "12:30",
        "it's",
        "a: b",
        "null",
        "x #y",
        "é",
        "\u200c",
        "😀",
        " ",
    ]
)
BODY = st.lists(st.one_of(LINE, NASTY), max_size=6).map("\n".join)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Draw an entry whose texts are often hard to quote in YAML."""
    title = draw(
        st.one_of(LINE, NASTY, st.text("a# ", min_size=1, max_size=6)).map(str.strip).filter(bool)
    )
    text = st.none() | WORDS | NASTY
    many = st.lists(st.one_of(WORDS, NASTY), max_size=3).map(tuple)
    return make_entry(
        draw(st.integers(1, 2**32 - 1)),
        type=draw(st.sampled_from(["declarative", "procedural", "directive", "corrective"])),
        importance=draw(st.floats(0, 1)),
        reinforcement_count=draw(st.integers(0, 999)),
        last_reinforced=draw(DAYS),
        created_at=draw(st.none() | DAYS),
        session=draw(text),
        source=draw(text),
        evidence=draw(many),
        supersedes=draw(many),
        instead=draw(text),
        title=title,
        body=draw(BODY),
    )


@given(entries())
def test_a_written_entry_reads_back_or_is_refused(entry: Entry) -> None:
    try:
        text = format_entry(entry)
    except UsageError:
        return
    assert parse_memory_file("", text.encode()).entries == (entry,)


@given(entries())
def test_a_yaml_1_1_parser_reads_the_same_texts(entry: Entry) -> None:
    try:
        head = format_entry(entry).split("\n---\n")[0].removeprefix("---\n")
    except UsageError:
        return
    loaded = yaml.safe_load(head)
    assert loaded.get("session") == entry.session
    assert tuple(loaded.get("evidence", ())) == entry.evidence


@pytest.mark.parametrize(
    "body", ["# A level-1 heading", "---\nid: x\ntype: task\n---", "trailing \n", "<<<<<<< HEAD\nx"]
)
def test_a_body_that_does_not_read_back_is_refused(body: str) -> None:
    with pytest.raises(UsageError) as raised:
        format_entry(make_entry(body=body))
    assert raised.value.slug == "entry-not-writable"


FILE = """# Memory

---
id: 00000001-0000-4000-8000-000000000000
# a person's remark
type: procedural
team_owner: {name: Ada, since: 2020}
domain: task
importance: 0.50
status: active
reinforcement_count: 0
last_reinforced: 2026-09-01
---

## Learning number 1

Its body,   spaced as it likes.


"""


def test_an_update_changes_only_the_lines_of_the_fields_that_differ() -> None:
    file = parse_memory_file("MEMORY.md", FILE.encode())
    entry = msgspec.structs.replace(
        file.entries[0],
        reinforcement_count=1,
        last_reinforced=date(2026, 10, 2),
        source="pr:7",
        priority="high",
    )
    text = render_memory_file(edit_file(file, updated=[entry])).decode()
    before, after = FILE.splitlines(), text.splitlines()
    assert [line for line in after if line not in before] == [
        "reinforcement_count: 1",
        "last_reinforced: '2026-10-02'",
        "priority: high",
        "source: pr:7",
    ]
    assert [line for line in before if line not in after] == [
        "reinforcement_count: 0",
        "last_reinforced: 2026-09-01",
    ]
    assert parse_memory_file("MEMORY.md", text.encode()).entries == (entry,)


def test_a_new_body_replaces_the_old_one_without_changing_the_head() -> None:
    file = parse_memory_file("MEMORY.md", FILE.encode())
    text = render_memory_file(
        edit_file(file, updated=[msgspec.structs.replace(file.entries[0], body="New.")])
    ).decode()
    assert text == FILE.replace("\n## Learning", "## Learning").replace(
        "Its body,   spaced as it likes.", "New."
    )


@given(
    st.lists(
        st.tuples(st.integers(1, 50), DAYS), min_size=1, max_size=8, unique_by=lambda pair: pair[0]
    )
)
def test_added_entries_are_sorted_by_date_and_id_and_nothing_else_moves(
    pairs: list[tuple[int, date]],
) -> None:
    file = parse_memory_file("MEMORY.md", b"# Memory\n\nWhat we learned.\n")
    for number, day in pairs:
        file = edit_file(file, added=[make_entry(number, created_at=day)])
    assert [(e.created_at, e.id) for e in file.entries] == sorted(
        (day, make_id(number)) for number, day in pairs
    )
    assert render_memory_file(file).startswith(b"# Memory\n\nWhat we learned.\n\n---\n")


def test_adding_one_entry_at_a_time_or_all_at_once_gives_the_same_bytes() -> None:
    new = [
        make_entry(number, created_at=date(2026, 1, number), body="```\ncode\n```")
        for number in (3, 1, 2)
    ]
    stepwise = parse_memory_file("MEMORY.md", b"")
    for entry in new:
        stepwise = edit_file(stepwise, added=[entry])
    assert render_memory_file(stepwise) == render_memory_file(
        edit_file(parse_memory_file("MEMORY.md", b""), added=new)
    )


def test_added_and_updated_entries_have_the_windows_line_endings_of_the_file() -> None:
    file = parse_memory_file("MEMORY.md", FILE.replace("\n", "\r\n").encode())
    old = msgspec.structs.replace(file.entries[0], reinforcement_count=9, body="Two\nlines.")
    data = render_memory_file(edit_file(file, added=[make_entry(2)], updated=[old]))
    assert data.count(b"\n") == data.count(b"\r\n")
    assert {
        entry.id: entry.reinforcement_count for entry in parse_memory_file("", data).entries
    } == {
        make_id(1): 9,
        make_id(2): 0,
    }


def test_an_edit_that_would_break_an_entry_is_refused() -> None:
    """After an unclosed fence, an appended body with a fence would swallow the text in between."""
    file = parse_memory_file(
        "MEMORY.md", format_entry(make_entry(1)).encode() + b"\n```\nunclosed\n"
    )
    with pytest.raises(UnreadableMemoryError) as raised:
        edit_file(file, added=[make_entry(2, body="```\ncode\n```")])
    assert raised.value.slug == "unsafe-rewrite"


def test_updating_a_missing_entry_is_an_error() -> None:
    with pytest.raises(MemoryCIError) as raised:
        edit_file(parse_memory_file("MEMORY.md", b""), updated=[make_entry(1)])
    assert raised.value.slug == "entry-missing"


def test_an_entry_is_removed_and_nothing_else_moves() -> None:
    texts = [format_entry(make_entry(number)) for number in (1, 2, 3)]
    file = parse_memory_file("MEMORY.md", ("# Memory\n\n" + "\n".join(texts)).encode())
    edited = render_memory_file(edit_file(file, removed=[make_entry(2)])).decode()
    assert edited == "# Memory\n\n" + texts[0] + "\n" + texts[2]


def test_of_a_repeated_id_the_first_is_updated_and_the_last_removed() -> None:
    file = parse_memory_file(
        "MEMORY.md",
        (format_entry(make_entry(1)) + "\n" + format_entry(make_entry(1, title="Twin"))).encode(),
    )
    merged = make_entry(1, reinforcement_count=5)
    edited = edit_file(file, updated=[merged], removed=[make_entry(1, title="Twin")])
    assert edited.entries == (merged,)


@pytest.mark.parametrize("title", ["First", "Second"])
def test_of_entries_with_equal_ids_the_given_one_is_removed(title: str) -> None:
    twins = make_entry(1, title="First"), make_entry(1, title="Second")
    file = parse_memory_file("MEMORY.md", "\n".join(map(format_entry, twins)).encode())
    assert [
        entry.title for entry in edit_file(file, removed=[make_entry(1, title=title)]).entries
    ] == [twin.title for twin in twins if twin.title != title]


@pytest.mark.parametrize("title", ["C#", "a # b", "x #", "#", "## x ##"])
def test_a_title_with_hashes_reads_back(title: str) -> None:
    (entry,) = parse_memory_file("", format_entry(make_entry(title=title)).encode()).entries
    assert entry.title == title


@pytest.mark.parametrize("importance", [0.12345, 1 / 3, 1e-7, 5e-324, 0.1 + 0.2])
def test_an_importance_keeps_every_decimal(importance: float) -> None:
    (entry,) = parse_memory_file(
        "", format_entry(make_entry(importance=importance)).encode()
    ).entries
    assert entry.importance == importance


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"cites": ("src/\udcff.py",)}, "'cites'"),
        ({"evidence": ("fine", "\ud800")}, "'evidence'"),
        ({"source": ""}, "'source'"),
        ({"importance": 2.0}, "'importance'"),
        ({"extra": (("note", " \udcff"),)}, "'note'"),
        ({"title": "half \udcff"}, "title"),
        ({"title": "two\nlines"}, "title"),
        ({"title": ""}, "title"),
        ({"body": "half \udcff"}, "body"),
        ({"body": "# One"}, "body"),
    ],
)
def test_an_entry_that_cannot_be_written_is_named(fields: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError) as raised:
        format_entry(make_entry(**fields))
    assert raised.value.slug == "entry-not-writable"
    assert part in raised.value.message.partition("because of its ")[2]
    assert raised.value.hint


def test_the_highest_count_stays_readable() -> None:
    full = make_entry(reinforcement_count=10**18 - 1)
    file = parse_memory_file("", format_entry(full).encode())
    too_many = msgspec.structs.replace(full, reinforcement_count=10**18)
    assert edit_file(file, updated=[too_many]).entries == (full,)


def test_every_line_keeps_its_own_ending_when_another_is_rewritten() -> None:
    lines = FILE.splitlines()
    mixed = "".join(line + ("\r\n" if number % 3 else "\n") for number, line in enumerate(lines))
    file = parse_memory_file("MEMORY.md", mixed.encode())
    text = render_memory_file(edit_file(file, updated=[reinforce(file.entries[0])])).decode()
    assert text == mixed.replace("_count: 0", "_count: 1")
    new = msgspec.structs.replace(file.entries[0], priority="high")
    text = render_memory_file(edit_file(file, updated=[new])).decode()
    assert [line for line in text.split("\n") if line not in mixed.split("\n")] == [
        "priority: high\r"
    ]
    assert text.replace("priority: high\r\n", "") == mixed


def test_an_entry_with_unix_line_ends_in_a_windows_file_stays_one_entry() -> None:
    prose, text = "# Memory\r\n\r\n", format_entry(make_entry(1, body="Old."))
    file = parse_memory_file("MEMORY.md", (prose + text).encode())
    edited = edit_file(file, updated=[make_entry(1, body="New.\nOne.")])
    assert render_memory_file(edited).decode() == prose + format_entry(
        make_entry(1, body="New.\nOne.")
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count: 0   # set by Ann", "count: 1   # set by Ann"),
        ("count: '0' # 'quoted'", "count: 1 # 'quoted'"),
        ("count: 0\t# behind a tab\r", "count: 1\t# behind a tab\r"),
    ],
)
def test_the_comment_after_a_value_survives_its_update(old: str, new: str) -> None:
    text = format_all_keys(make_entry(1)).replace("count: 0", old)
    file = parse_memory_file("", text.encode())
    assert render_memory_file(
        edit_file(file, updated=[reinforce(file.entries[0])])
    ).decode() == text.replace(old, new)


def reinforce(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, reinforcement_count=entry.reinforcement_count + 1)


def test_updating_one_of_two_equal_ids_does_not_change_the_bytes_of_the_other() -> None:
    first, second = make_entry(1, body="One."), make_entry(1, title="Twin", body="Two.")
    for old, at in ((first, 0), (second, 1)):
        file = parse_memory_file("", (format_entry(first) + "\n" + format_entry(second)).encode())
        edited = edit_file(file, updated=[reinforce(old)])
        assert edited.segments[1 - at].raw == file.segments[1 - at].raw
        assert edited.entries[at] == reinforce(old)


def test_merging_copies_writes_the_planned_entry() -> None:
    """The text is that of the second copy, the place that of the first."""
    first, second = make_entry(1, body="One."), make_entry(1, body="Longer.", importance=0.9)
    file = parse_memory_file("", (format_entry(first) + "\n" + format_entry(second)).encode())
    for merged in (reinforce(second), second):
        assert edit_file(file, updated=[merged], removed=[second]).entries == (merged,)


def test_of_equal_ids_with_different_texts_the_first_is_updated() -> None:
    assert (
        find_old_state([make_entry(1, body="a"), make_entry(1, body="b")], make_entry(1, body="c"))
        == 0
    )


FRAGMENT = FILE.removeprefix("# Memory\n\n").replace("status:", "scope: team:src # there\nstatus:")


def test_the_text_of_a_fragment_has_no_scope() -> None:
    file = parse_memory_file("", b"\xef\xbb\xbf\r\n" + FRAGMENT.replace("\n", "\r\n").encode())
    assert entry_text(file) == FILE.removeprefix("# Memory\n\n").rstrip() + "\n"


@pytest.mark.parametrize(
    "text",
    ["", "# Prose\n", "# Prose\n\n" + FRAGMENT, FRAGMENT + FRAGMENT, FRAGMENT + "<<<<<<< x\n"],
)
def test_a_file_without_exactly_one_entry_has_no_fragment_text(text: str) -> None:
    assert entry_text(parse_memory_file("", text.encode())) is None


def test_of_two_updates_of_an_entry_the_newer_counts() -> None:
    file = parse_memory_file("", format_entry(make_entry(1)).encode())
    steps = [make_entry(1, source="pr:1"), make_entry(1, source="pr:1", reinforcement_count=1)]
    assert edit_file(file, updated=steps).entries == (steps[1],)
