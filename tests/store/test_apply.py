"""Tests of applying changes to the text of files."""

from __future__ import annotations

import pytest

from memory_ci.errors import UnreadableMemoryError
from memory_ci.records.plan import Change
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import apply_changes, format_entry
from tests.make import make_entry, make_id

FRAGMENT = f".memory/inbox/{make_id(1)}.md"


def make_change(kind: str, path: str = "MEMORY.md", number: int = 1, **fields: object) -> Change:
    return Change(step="extract", kind=kind, path=path, entry=make_entry(number), why="", **fields)  # type: ignore[arg-type]


def test_each_kind_of_change_is_applied() -> None:
    fragment = f".memory/inbox/{make_id(3)}.md"
    files = {
        "MEMORY.md": format_entry(make_entry(2)).encode(),
        fragment: format_entry(make_entry(3)).encode(),
    }
    written = apply_changes(
        files,
        [
            make_change("add"),
            make_change("remove", number=2),
            make_change("move", "src/MEMORY.md", 3, moved_from=fragment),
        ],
    )
    assert {
        path: [e.id for e in parse_memory_file(path, data or b"").entries]
        for path, data in written.items()
    } == {
        "MEMORY.md": [make_id(1)],
        "src/MEMORY.md": [make_id(3)],
        fragment: [],
    }
    assert written[fragment] is None


def test_dropping_a_fragment_does_not_change_the_file_of_its_duplicate() -> None:
    assert apply_changes({}, [make_change("drop", moved_from=".memory/inbox/x.md")]) == {
        ".memory/inbox/x.md": None
    }


def test_a_file_that_cannot_be_read_is_never_rewritten() -> None:
    with pytest.raises(UnreadableMemoryError) as raised:
        apply_changes({"MEMORY.md": b"\xff"}, [make_change("add")])
    assert raised.value.slug == "not-utf8"


def test_an_entry_moves_with_its_comments_and_its_spacing() -> None:
    """Folding must not format text that a person wrote by hand."""
    note = "note: |\n  text\n  # still text\n"
    entry_text = (
        format_entry(make_entry(1))
        .replace("type:", "# why I keep this\ntype:")
        .replace("0.5", "0.50   # a guess")
    )
    entry_text = entry_text.replace("---\n##", note + "---\n\n##")
    fragment = (
        entry_text.replace("status:", "scope: project\nstatus:").replace("\n", "\r\n").encode()
    )
    entry = parse_memory_file("", entry_text.encode()).entries[0]
    change = Change(
        step="fold", kind="move", path="MEMORY.md", entry=entry, why="", moved_from=FRAGMENT
    )
    assert apply_changes({FRAGMENT: fragment}, [change]) == {
        "MEMORY.md": entry_text.encode(),
        FRAGMENT: None,
    }


def test_a_move_of_changed_content_writes_the_planned_entry() -> None:
    for data in (
        b"",
        b"\xff",
        format_entry(make_entry(2)).encode(),
        b"# Prose\n" + format_entry(make_entry(1)).encode(),
    ):
        written = apply_changes({FRAGMENT: data}, [make_change("move", moved_from=FRAGMENT)])
        assert written["MEMORY.md"] == format_entry(make_entry(1)).encode()
