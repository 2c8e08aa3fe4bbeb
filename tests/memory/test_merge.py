"""Tests of merging memory files: entries and prose are merged three-way without losing a line."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.gitrepo.merges import merge_text
from memory_ci.memory import merge as merge_module
from memory_ci.memory.merge import merge_files, merge_texts
from memory_ci.records.entry import Entry
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from tests.make import examples, make_entry, make_id

INTRO = "# Memory\n\n<!-- What we learned. -->\n"


def text_of(*entries: Entry, intro: str = INTRO) -> bytes:
    return "\n".join([intro, *map(format_entry, entries)]).encode()


def ids(data: bytes) -> list[str]:
    return [entry.id for entry in parse_memory_file("", data).entries]


def numbered(*numbers: int) -> list[Entry]:
    return [make_entry(number, created_at=date(2026, 9, 1)) for number in numbers]


def test_entries_added_on_both_sides_are_in_the_order_of_creation() -> None:
    base, ours, theirs = (text_of(*numbered(*numbers)) for numbers in ((5,), (5, 7), (2, 5, 6)))
    assert merge_texts(base, ours, theirs) == (text_of(*numbered(2, 5, 6, 7)), 0)
    assert merge_texts(base, theirs, ours) == (text_of(*numbered(2, 5, 6, 7)), 0)


def test_a_file_that_both_sides_added_is_merged() -> None:
    assert merge_texts(b"", text_of(*numbered(1, 2)), text_of(*numbered(2, 3))) == (
        text_of(*numbered(1, 2, 3)),
        0,
    )


def test_sections_of_a_file_that_both_sides_added_keep_their_entries() -> None:
    first, two, three = map(format_entry, numbered(1, 2, 3))
    ours, theirs = (
        f"{INTRO}\n{first}\n# Other\n\n{three}",
        f"{INTRO}\n{first}\n{two}\n# Other\n\n{three}",
    )
    assert merge_texts(b"", ours.encode(), theirs.encode()) == (theirs.encode(), 0)


def test_a_file_without_a_last_newline_is_not_joined_to_the_next_entry() -> None:
    base, ours = text_of(*numbered(1, 2)), text_of(*numbered(1)).removesuffix(b"\n")
    assert merge_texts(base, ours, base + b"\n# Other\n") == (ours + b"\n\n# Other", 0)


@given(
    st.sets(st.integers(1, 9)),
    st.sets(st.integers(1, 9)),
    st.sets(st.integers(1, 9)),
    st.sampled_from(["", INTRO]),
)
@examples(40)
def test_any_additions_and_deletions_merge_as_sets(
    base: set[int], ours: set[int], theirs: set[int], intro: str
) -> None:
    texts = [text_of(*numbered(*sorted(side)), intro=intro) for side in (base, ours, theirs)]
    merged, conflicts = merge_texts(*texts)
    assert conflicts == 0
    assert ids(merged) == [
        make_id(number) for number in sorted((ours & theirs) | (ours - base) | (theirs - base))
    ]
    assert merge_texts(texts[0], texts[2], texts[1]) == (merged, 0)


@given(st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
@examples(20)
def test_an_unchanged_side_gives_the_bytes_of_the_other(base: set[int], side: set[int]) -> None:
    before, after = text_of(*numbered(*base)), text_of(*numbered(*side))
    assert merge_texts(before, after, before) == merge_texts(before, before, after) == (after, 0)


def test_counters_of_one_entry_add_up_and_other_entries_keep_their_bytes() -> None:
    quirky = format_entry(make_entry(2)).replace(
        "type: procedural", "# by hand\ntype:   procedural"
    )
    texts = [
        text_of(make_entry(1, reinforcement_count=count), intro=f"{INTRO}\n{quirky}").replace(
            b"0.5", b"0.50"
        )
        for count in (1, 2, 3)
    ]
    assert merge_texts(*texts) == (texts[0].replace(b"count: 1", b"count: 4"), 0)


def test_equal_increments_of_a_counter_on_both_sides_add_up() -> None:
    base, ours, theirs = (
        text_of(make_entry(1, reinforcement_count=count), make_entry(2, body=body))
        for count, body in ((0, ""), (1, "ours"), (1, ""))
    )
    merged, conflicts = merge_texts(base, ours, theirs)
    assert conflicts == 0
    assert parse_memory_file("", merged).entries[0].reinforcement_count == 2


def test_a_conflict_is_marked_around_the_two_versions_of_that_entry_alone() -> None:
    base = text_of(*numbered(1, 2, 3))
    ours = base.replace(b"## Learning number 2", b"## Ours").replace(b"number 3", b"three")
    theirs = base.replace(b"## Learning number 2", b"## Theirs").replace(b"number 1", b"one")
    merged, conflicts = merge_texts(base, ours, theirs)
    assert conflicts == 1
    before, _, remainder = merged.decode().partition("<<<<<<< ours\n")
    mine, _, remainder = remainder.partition("=======\n")
    yours, _, after = remainder.partition(">>>>>>> theirs\n")
    assert before.endswith("## Learning one\n\n")
    assert after.startswith("\n---\n")
    assert after.endswith("## Learning three\n")
    assert (mine, yours) == (mine, mine.replace("## Ours", "## Theirs"))
    assert mine.startswith(f"---\nid: {make_id(2)}\n")
    assert {finding.code for finding in parse_memory_file("", merged).findings} == {
        "conflict-marker"
    }
    assert ids(merged) == [make_id(1), make_id(3)]


def test_one_id_with_two_contents_is_a_conflict_of_that_entry() -> None:
    merged, conflicts = merge_texts(
        INTRO.encode(), text_of(make_entry(1, body="a")), text_of(make_entry(1, body="b"))
    )
    assert conflicts == 1
    assert merged.startswith(INTRO.encode() + b"\n<<<<<<< ours\n")
    assert merged.endswith(b"\nb\n>>>>>>> theirs\n")


def test_a_deleted_entry_that_the_other_side_changed_is_kept_with_the_change() -> None:
    base, ours = text_of(*numbered(1, 2)), text_of(*numbered(1))
    changed = base.replace(b"number 2", b"two, changed")
    assert merge_texts(base, ours, changed) == (changed, 0)
    assert merge_texts(base, changed, ours) == (changed, 0)


def test_prose_changed_on_one_side_is_merged_and_entries_keep_their_sections() -> None:
    def file(intro: str, section: str, *numbers: int) -> bytes:
        first = "\n".join(map(format_entry, numbered(1)))
        other_entries = "\n".join(map(format_entry, numbered(*numbers)))
        return f"{intro}\n{first}\n# {section}\n\nAbout it.\n\n{other_entries}".encode()

    merged = merge_texts(
        file(INTRO, "Old", 2), file(INTRO + "More.\n", "Old", 2, 3), file(INTRO, "New", 2, 4)
    )
    assert merged == (file(INTRO + "More.\n", "New", 2, 3, 4), 0)


def test_prose_changed_on_both_sides_conflicts_and_entries_do_not() -> None:
    ours, theirs = (
        text_of(*numbered(1, number), intro=f"# {name}\n")
        for number, name in ((2, "Ours"), (3, "Theirs"))
    )
    merged, conflicts = merge_texts(text_of(*numbered(1)), ours, theirs)
    assert conflicts == 1
    assert merged.startswith(b"<<<<<<< ours\n# Ours\n=======\n# Theirs\n>>>>>>> theirs\n\n---\n")
    assert ids(merged) == [make_id(1), make_id(2), make_id(3)]


def test_front_matter_comments_of_either_side_are_kept() -> None:
    base, ours, theirs = (
        text_of(make_entry(1, reinforcement_count=count)).replace(b"type", comment + b"type")
        for count, comment in ((0, b""), (1, b""), (1, b"# checked by Ada\n"))
    )
    merged, conflicts = merge_texts(base, ours, theirs)
    assert (merged, conflicts) == (theirs.replace(b"count: 1", b"count: 2"), 0)
    commented = ours.replace(b"type", b"# checked by Bob\ntype")
    merged, conflicts = merge_texts(base, commented, theirs)
    assert conflicts == 1
    assert b"Ada" in merged
    assert b"Bob" in merged


def test_unknown_keys_of_both_sides_are_kept() -> None:
    base, ours, theirs = (
        text_of(make_entry(1, extra=extra)) for extra in ((), (("a", " 1"),), (("b", " 2"),))
    )
    merged, conflicts = merge_texts(base, ours, theirs)
    assert conflicts == 0
    assert set(parse_memory_file("", merged).entries[0].extra) == {("a", " 1"), ("b", " 2")}


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_the_byte_order_mark_of_a_file_are_kept(prefix: bytes) -> None:
    texts = [
        prefix + text_of(*numbered(*numbers)).replace(b"\n", b"\r\n")
        for numbers in ((1,), (1, 2), (1, 3), (1, 2, 3))
    ]
    assert merge_texts(*texts[:3]) == (texts[3], 0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"type: procedural", b"type: oops"),
        lambda data: data + b"\n" + format_entry(numbered(1)[0]).encode(),
        lambda data: data.replace(b"# Memory", b"# M\xffmory"),
        lambda data: data.replace(b"# Memory\n", b"# Memory\r\n"),
    ],
    ids=["unreadable", "twice", "not-utf8", "mixed-line-ends"],
)
def test_a_file_that_is_not_clearly_readable_is_merged_by_git(spoil: object) -> None:
    assert callable(spoil)
    base, ours, theirs = (spoil(text_of(*numbered(*numbers))) for numbers in ((1,), (1, 2), (1, 3)))
    merged, conflicts = merge_texts(base, ours, theirs)
    assert (merged, conflicts) == merge_text(base, ours, theirs)


def test_a_file_where_merging_would_close_a_fence_is_merged_by_git() -> None:
    plain, *fenced = (
        make_entry(number, body="```\nopen" if number > 1 else "") for number in (1, 2, 3)
    )
    texts = text_of(plain), text_of(plain, fenced[0]), text_of(plain, fenced[1])
    assert merge_texts(*texts) == merge_text(*texts)
    assert merge_text(*texts)[1] > 0


def test_binary_content_stays_ours_and_is_a_conflict() -> None:
    assert merge_texts(b"\0a", b"\0b", b"\0c") == (b"\0b", 1)


def test_after_any_failure_git_merges_and_the_file_is_written(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*texts: bytes) -> None:
        raise RecursionError

    monkeypatch.setattr(merge_module, "merge_texts", fail)
    folder = tmp_path_factory.mktemp("merge")
    base, ours, theirs = (folder / name for name in ("base", "ours", "theirs"))
    for path, text in ((base, "a\nb\nc\nd\n"), (ours, "A\nb\nc\nd\n"), (theirs, "a\nb\nc\nD\n")):
        path.write_text(text)
    assert merge_files(base, ours, theirs, "MEMORY.md") == 0
    assert ours.read_text() == "A\nb\nc\nD\n"
