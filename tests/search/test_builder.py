"""Tests of building the index: it equals the tree, whatever the file contained before."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import Entry
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import SCHEMA, TOKENIZER, Index, entries_by_path
from memory_ci.search.search import list_entries, list_findings, list_prose, search
from tests.make import examples, make_entry, make_id
from tests.search.trees import Tree, make_loaded, make_tree


def find_ids(index: Index, *terms: str) -> list[str]:
    return [match.located.entry.id for match in search(index, terms)]


def build_content(tree: Tree, path: Path | None = None) -> list[object]:
    with open_index(path) as index:
        sync(index, tree.oids, tree.load)
        return read_content(index)


def read_content(index: Index) -> list[object]:
    """Return everything that an index stores or answers, without its internal row numbers."""
    index.connection.execute(
        "INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)"
    )
    return [
        entries_by_path(index.connection),
        *index.connection.execute("SELECT * FROM files ORDER BY path"),
        *[search(index, (word,), statuses=None, scopes=None) for word in WORDS],
        list_entries(index),
        list_prose(index, "institutional"),
        list_findings(index),
    ]


WORDS = ("retry", "getUserName", "charge", "key")
ENTRIES = st.builds(
    make_entry,
    number=st.integers(1, 5),
    title=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    body=st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    status=st.sampled_from(["active", "retired", "compacted"]),
    type=st.sampled_from(["corrective", "procedural"]),
)
FILES = st.dictionaries(
    st.sampled_from(["MEMORY.md", "institutional.md", "src/MEMORY.md", "src/api/MEMORY.md"]),
    st.lists(ENTRIES, max_size=3).map(tuple),
)


@examples(40)
@given(st.lists(FILES, min_size=1, max_size=5))
def test_after_any_edits_the_index_equals_a_fresh_build(
    history: list[dict[str, tuple[Entry, ...]]],
) -> None:
    """Files are edited, renamed, emptied and deleted: no row of an older version may stay."""
    with open_index(None) as index:
        for files in history:
            tree = Tree(files)
            report = sync(index, tree.oids, tree.load)
            assert read_content(index) == build_content(tree)
            assert report.entries == sum(map(len, files.values()))


def test_removed_text_is_not_found_again(tmp_path: Path) -> None:
    tree = Tree(
        {
            "MEMORY.md": (make_entry(1, title="old words"),),
            "src/MEMORY.md": (make_entry(2, title="old too"),),
        }
    )
    build_content(tree, tmp_path / "index.db")
    edited = Tree({"MEMORY.md": (make_entry(1, title="new words"),)})
    with open_index(tmp_path / "index.db") as index:
        sync(index, edited.oids, edited.load)
        assert find_ids(index, "old") == []
        assert find_ids(index, "new") == [make_id(1)]


def test_only_files_that_are_new_to_the_index_are_read(tmp_path: Path) -> None:
    tree = make_tree(3)
    build_content(tree, tmp_path / "index.db")
    tree.files["src/MEMORY.md"] = make_loaded("src/MEMORY.md", make_entry(9))
    with open_index(tmp_path / "index.db") as index:
        report = sync(index, tree.oids, tree.load)
    assert tree.requests == [["MEMORY.md", "institutional.md", "src/MEMORY.md"], ["src/MEMORY.md"]]
    assert (report.files_read, report.entries, report.was_rebuilt) == (1, 4, False)


def test_without_a_change_no_file_is_read(tmp_path: Path) -> None:
    tree = make_tree()
    first = build_content(tree, tmp_path / "index.db")
    assert build_content(tree, tmp_path / "index.db") == first
    assert len(tree.requests) == 1


def test_a_file_without_an_object_id_is_read_every_time(tmp_path: Path) -> None:
    tree = make_tree()
    for _ in range(2):
        with open_index(tmp_path / "index.db") as index:
            sync(index, tree.oids | {"MEMORY.md": ""}, tree.load)
            assert find_ids(index, "retry") == [make_id(0)]
    assert tree.requests[1] == ["MEMORY.md"]


def test_an_unreadable_file_is_read_again() -> None:
    tree = make_tree()

    def load_all_but_one(paths: Collection[str]) -> Iterator[LoadedFile]:
        return (loaded for loaded in tree.load(paths) if loaded.path != "MEMORY.md")

    with open_index(None) as index:
        assert sync(index, tree.oids, load_all_but_one).entries == 0
        assert sync(index, tree.oids, tree.load).entries == 1
    assert tree.requests[1] == ["MEMORY.md"]


def test_an_indexed_entry_is_read_back_unchanged() -> None:
    entry = make_entry(
        1,
        body="a\n\nb ‌ \U0001f600",
        evidence=("e",),
        extra=(("x-team", "[a, b]"),),
        adoption="rejected",
    )
    loaded = make_loaded("src/MEMORY.md", entry)
    tree = Tree()
    tree.files["src/MEMORY.md"] = loaded
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert list_entries(index) == list(loaded.entries)


def test_an_id_in_two_files_has_two_rows() -> None:
    tree = Tree({"MEMORY.md": (make_entry(1),), "src/MEMORY.md": (make_entry(1),)})
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert [located.path for located in list_entries(index)] == ["MEMORY.md", "src/MEMORY.md"]


def test_an_exception_in_the_block_does_not_change_the_file(tmp_path: Path) -> None:
    before = build_content(make_tree(2), tmp_path / "index.db")
    changed = make_tree(5)

    def fail_after_sync() -> None:
        with open_index(tmp_path / "index.db") as index:
            sync(index, changed.oids, changed.load)
            raise LookupError

    with pytest.raises(LookupError):
        fail_after_sync()
    second_tree = make_tree(2)
    assert build_content(second_tree, tmp_path / "index.db") == before
    assert second_tree.requests == []


# --- a file that cannot be trusted ---


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


def overwrite(path: Path, first: int, last: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[first:last] = b"\xa5" * len(data[first:last])
    path.write_bytes(data)


def make_foreign(path: Path) -> None:
    path.unlink()
    change(path, "CREATE TABLE meta (something TEXT)")


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_text("not a database at all " * 400),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "first page garbled": lambda path: overwrite(path, 20, 4096),
    "all but the first pages garbled": lambda path: overwrite(path, 8192),
    "foreign": make_foreign,
    "other version": lambda path: change(path, "UPDATE meta SET value = '0' WHERE key = 'schema'"),
    "other tokenizer": lambda path: change(
        path, "UPDATE meta SET value = 'porter ascii' WHERE key = 'tokenizer'"
    ),
    "table gone": lambda path: change(path, "DROP TABLE files"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_untrusted_index_is_built_again(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "index.db"
    expected = build_content(make_tree(50), path)
    DAMAGES[damage](path)
    tree = make_tree(50)
    with open_index(path) as index:
        report = sync(index, tree.oids, tree.load)
        assert read_content(index) == expected
        assert not index.is_temporary
    assert report.was_rebuilt
    assert build_content(tree, path) == expected
    assert len(tree.requests) == 1, "the new file is kept and used"


PARTS = {
    "an entry": "UPDATE entries SET front = x'c1'",
    "a field": "UPDATE entries SET status = 'retired'",
    "a body": "UPDATE entries SET body = 'Retry at once.'",
    "a prose": "UPDATE files SET prose = x'90'",
    "an object id": "UPDATE files SET oid = 'x'",
    "the words": "DELETE FROM entries_fts_data",
    "a word": "INSERT INTO entries_fts (entries_fts, rowid, title, body, parts, cited) "
    "SELECT 'delete', row, title, body, '', '' FROM entries WHERE row = 2",
    "an entry elsewhere": "UPDATE entries SET path = 'other.md' WHERE row = 2",
    "a trigger": "CREATE TRIGGER evil AFTER INSERT ON files BEGIN DELETE FROM entries; END",
    "a view": "DROP VIEW entries_text",
}


@pytest.mark.parametrize("part", PARTS)
def test_an_altered_index_is_not_trusted_even_with_the_same_object_ids(
    tmp_path: Path, part: str
) -> None:
    path = tmp_path / "index.db"
    expected = build_content(make_tree(3), path)
    change(path, PARTS[part])
    tree = make_tree(3)
    with open_index(path) as index:
        assert sync(index, tree.oids, tree.load).was_rebuilt
        assert find_ids(index, "retry") == [make_id(0), make_id(1), make_id(2)]
        assert read_content(index) == expected


def test_an_index_from_a_cache_is_verified_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy keeps its modification time but not its change time; the second opening verifies no row."""
    build_content(make_tree(3), tmp_path / "index.db")
    restored = tmp_path / "clone" / "index.db"
    restored.parent.mkdir()
    shutil.copy2(tmp_path / "index.db", restored)
    shutil.copy2(tmp_path / "index.db.seal", restored.with_name("index.db.seal"))
    proofs: list[object] = []
    monkeypatch.setattr("memory_ci.search.database.require_intact", proofs.append)
    tree = make_tree(3)
    for _ in range(3):
        build_content(tree, restored)
    assert (len(proofs), tree.requests) == (1, [])


def test_an_edit_that_restores_the_modification_time_is_detected(tmp_path: Path) -> None:
    path, tree = tmp_path / "index.db", make_tree(3)
    build_content(tree, path)
    before = path.stat()
    change(path, "UPDATE entries SET line = 2 WHERE row = 2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)
    with open_index(path) as index:
        assert sync(index, tree.oids, tree.load).was_rebuilt


@pytest.mark.parametrize("column", ["front", "title", "last_reinforced"])
def test_an_index_with_damage_that_is_found_only_on_reading_is_built_again(
    tmp_path: Path, column: str
) -> None:
    expected = build_content(make_tree(3))
    tree = make_tree(3)
    with open_index(tmp_path / "index.db") as index:
        sync(index, tree.oids, tree.load)
        index.connection.execute(f"UPDATE entries SET {column} = CAST(x'ff' AS TEXT)")  # noqa: S608 - of this list
        assert find_ids(index, "retry") == [make_id(0), make_id(1), make_id(2)]
        assert read_content(index) == expected


def test_a_new_index_that_is_damaged_is_built_again(tmp_path: Path) -> None:
    tree = make_tree(3)
    with open_index(tmp_path / "index.db") as index:
        sync(index, tree.oids, tree.load)
        index.connection.execute("UPDATE entries SET front = x'c1'")
        assert len(find_ids(index, "retry")) == 3
        assert not index.is_temporary
    assert len(tree.requests) == 2


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_the_journal_of_a_discarded_index_is_not_applied_to_the_new_one(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / "index.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {'WAL' if suffix == '-wal' else 'PERSIST'}")
        connection.execute("CREATE TABLE meta (something TEXT)")
        left_behind = Path(f"{path}{suffix}").read_bytes()
    connection.close()
    path.write_text("no database at all")
    Path(f"{path}{suffix}").write_bytes(left_behind)
    assert left_behind
    assert build_content(make_tree(), path) == build_content(make_tree())
    second_tree = make_tree()
    assert build_content(second_tree, path) == build_content(make_tree())
    assert second_tree.requests == []


def test_a_new_index_of_another_process_is_not_discarded(tmp_path: Path) -> None:
    """Two processes find the same damage; the second must not remove the index that the first has built."""
    expected = build_content(make_tree(2), tmp_path / "new.db")
    with open_index(tmp_path / "index.db") as index:
        (tmp_path / "new.db").replace(tmp_path / "index.db")
        index.replace_by_empty(sqlite3.DatabaseError("damage"))
    tree = make_tree(2)
    assert build_content(tree, tmp_path / "index.db") == expected
    assert tree.requests == []


# --- a place that cannot be used ---


def test_if_no_file_can_be_written_the_index_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where the directory should be")
    for path in (tmp_path / "file" / "index.db", tmp_path):
        tree = make_tree()
        with open_index(path) as index:
            sync(index, tree.oids, tree.load)
            assert index.is_temporary
            assert index.reason
            assert find_ids(index, "retry") == [make_id(0)]


def test_if_the_file_stays_locked_the_index_is_in_memory(tmp_path: Path) -> None:
    path, tree = tmp_path / "index.db", make_tree()
    with open_index(path) as holder:
        with open_index(path, lock_timeout=0) as index:
            sync(index, tree.oids, tree.load)
            assert index.is_temporary
            assert "locked" in index.reason
            assert find_ids(index, "retry") == [make_id(0)]
        assert not holder.is_temporary


def test_an_index_requested_in_memory_has_no_reason() -> None:
    with open_index(None) as index:
        assert index.is_temporary
        assert index.reason == ""


BUILDER = """
import sys
from pathlib import Path
from memory_ci.search.builder import open_index, sync
from memory_ci.search.search import search
from tests.search.trees import make_tree
tree = make_tree(300)
with open_index(Path(sys.argv[1]), lock_timeout=600) as index:
    sync(index, tree.oids, tree.load)
    print(len(search(index, ["retry"], depth=1000)), index.is_temporary)
"""


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damage", ["missing", "no database", "other version"])
def test_processes_that_build_at_the_same_time_all_get_the_right_answer(
    tmp_path: Path, damage: str, count: int
) -> None:
    path = tmp_path / "index.db"
    build_content(make_tree(2), path)
    DAMAGES[damage](path)
    root = Path(__file__).parents[2]
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, str(path)], cwd=root, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    assert [builder.communicate()[0] for builder in builders] == ["300 False\n"] * count
    assert build_content(make_tree(300), path) == build_content(make_tree(300))


def test_schema_and_cache_key_name_the_same_tokenizer() -> None:
    assert f"tokenize = '{TOKENIZER}'" in SCHEMA.read_text(encoding="utf-8")
