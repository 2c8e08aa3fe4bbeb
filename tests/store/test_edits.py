"""Writing memory files: canonical for what we write, and not one byte of what we do not."""

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
    st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=30
).filter(str.strip)
LINE = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1, max_size=30
)
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
def test_what_is_written_reads_back_as_the_same_entry_or_is_refused(entry: Entry) -> None:
    try:
        text = format_entry(entry)
    except UsageError:
        return
    assert parse_memory_file("", text.encode()).entries == (entry,)


@given(entries())
def test_a_yaml_1_1_reader_sees_our_texts_as_the_same_texts(entry: Entry) -> None:
    try:
        head = format_entry(entry).split("\n---\n")[0].removeprefix("---\n")
    except UsageError:
        return
    loaded = yaml.safe_load(head)
    assert loaded.get("session") == entry.session
    assert tuple(loaded.get("evidence", ())) == entry.evidence


@pytest.mark.parametrize(
    "body", ["# A level-1 heading", "---\nid: x\ntype: task\n---", "trailing \n", "        find_old_state(
            [make_entry(1, body="a"), make_entry(1, body="b")], make_entry(1, body="c")
        )
        == 0
    )


FRAGMENT = FILE.removeprefix("# Memory\n\n").replace("status:", "scope: team:src # there\nstatus:")


def test_the_text_of_a_fragment_is_its_own_without_its_scope() -> None:
    file = parse_memory_file("", b"\xef\xbb\xbf\r\n" + FRAGMENT.replace("\n", "\r\n").encode())
    assert entry_text(file) == FILE.removeprefix("# Memory\n\n").rstrip() + "\n"


@pytest.mark.parametrize(
    "text",
    ["", "# Prose\n", "# Prose\n\n" + FRAGMENT, FRAGMENT + FRAGMENT, FRAGMENT + "<<<<<<< x\n"],
)
def test_a_file_that_is_not_one_entry_has_no_such_text(text: str) -> None:
    assert entry_text(parse_memory_file("", text.encode())) is None


def test_of_two_updates_of_one_entry_the_newer_stands() -> None:
    file = parse_memory_file("", format_entry(make_entry(1)).encode())
    steps = [make_entry(1, source="pr:1"), make_entry(1, source="pr:1", reinforcement_count=1)]
    assert edit_file(file, updated=steps).entries == (steps[1],)
