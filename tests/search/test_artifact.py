"""Tests of the index file that is passed on: its bytes do not depend on how it was built."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import RepositoryError
from memory_ci.records.entry import Entry
from memory_ci.search.artifact import write_artifact
from memory_ci.search.builder import open_index, sync
from memory_ci.search.search import search
from tests.make import examples, make_entry, make_id
from tests.search.trees import Tree, make_tree

ENTRIES = st.builds(
    make_entry,
    number=st.integers(1, 5),
    title=st.lists(st.sampled_from(["retry", "getUserName", "key"]), min_size=1, max_size=3).map(
        " ".join
    ),
    occurred_at=st.none() | st.dates(),
)
EDITS = st.dictionaries(
    st.sampled_from(["MEMORY.md", "institutional.md", "src/MEMORY.md", "src/api/MEMORY.md"]),
    st.none() | st.lists(ENTRIES, max_size=3).map(tuple),
    min_size=1,
)
"""Edits: the new entries of some files, or None for a deleted file; other files are unchanged."""


def edited(history: Iterable[dict[str, tuple[Entry, ...] | None]]) -> list[Tree]:
    """Return the trees after each step of a history of edits."""
    files: dict[str, tuple[Entry, ...] | None] = {}
    trees = []
    for edits in history:
        files |= edits
        trees.append(
            Tree({path: entries for path, entries in files.items() if entries is not None})
        )
    return trees


def write_after_edits(history: Sequence[Tree], working: Path | None, out: Path) -> bytes:
    """Return the bytes that an index at `working` writes after following a history of trees."""
    for tree in history:
        with open_index(working) as index:
            sync(index, tree.oids, tree.load)
            write_artifact(index, out)
    return out.read_bytes()


@examples(25)
@given(st.lists(EDITS, min_size=2, max_size=4).map(edited))
def test_after_any_edits_the_artifact_equals_that_of_a_fresh_build(history: list[Tree]) -> None:
    with TemporaryDirectory() as place:
        followed = write_after_edits(history, Path(place, "index.db"), Path(place, "followed.db"))
        assert (
            write_after_edits(history[-1:], None, Path(place, "elsewhere", "fresh.db")) == followed
        )


def test_another_tree_has_other_bytes(tmp_path: Path) -> None:
    trees = [make_tree(2), make_tree(3), Tree()]
    assert len({write_after_edits([tree], None, tmp_path / "out.db") for tree in trees}) == 3


def test_an_artifact_is_an_index_like_any_other(tmp_path: Path) -> None:
    tree = make_tree(3)
    write_after_edits([tree], None, tmp_path / "out.db")
    same_tree = make_tree(3)
    with open_index(tmp_path / "out.db") as index:
        assert sync(index, same_tree.oids, same_tree.load).files_read == 0
        assert [match.located.entry.id for match in search(index, ["retry"])] == [
            make_id(0),
            make_id(1),
            make_id(2),
        ]


def test_rows_are_numbered_in_order_of_path_and_line(tmp_path: Path) -> None:
    first = Tree({"src/MEMORY.md": (make_entry(1),)})
    both = Tree({"src/MEMORY.md": (make_entry(1),), "MEMORY.md": (make_entry(2), make_entry(3))})
    write_after_edits([first, both], tmp_path / "index.db", tmp_path / "out.db")
    with closing(sqlite3.connect(tmp_path / "out.db", isolation_level=None)) as connection:
        rows = connection.execute("SELECT row, path, line FROM entries ORDER BY row").fetchall()
    connection.close()
    assert rows == [(1, "MEMORY.md", 1), (2, "MEMORY.md", 21), (3, "src/MEMORY.md", 1)]


def test_an_artifact_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "out.db").mkdir()
    with pytest.raises(RepositoryError) as refused:
        write_after_edits([make_tree()], None, tmp_path / "out.db")
    assert refused.value.slug == "write-failed"
    assert [path.name for path in tmp_path.iterdir()] == ["out.db"]
