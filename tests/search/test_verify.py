"""Tests of verifying an index against its tree, and of the statistics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.records.report import Finding
from memory_ci.search.artifact import verify
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import LIST_FILES, connect, entries_by_path, list_altered_files
from memory_ci.search.rows import entry_digest, file_digest
from tests.make import make_entry
from tests.search.trees import Tree, make_loaded, make_tree


def write(tree: Tree, path: Path | None) -> None:
    with open_index(path) as index:
        sync(index, tree.oids, tree.load)


def differences(path: Path, tree: Tree) -> list[Finding]:
    with open_index(None) as fresh:
        sync(fresh, tree.oids, tree.load)
        return verify(path, fresh)


def test_an_index_that_equals_the_tree_has_no_findings_whatever_its_row_numbers(
    tmp_path: Path,
) -> None:
    write(Tree({"src/MEMORY.md": (make_entry(9),)}), tmp_path / "index.db")
    write(make_tree(3), tmp_path / "index.db")
    assert differences(tmp_path / "index.db", make_tree(3)) == []


def test_verifying_changes_nothing(tmp_path: Path) -> None:
    write(make_tree(3), tmp_path / "index.db")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    differences(tmp_path / "index.db", make_tree(3))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def alter_rows(path: Path, statement: str) -> None:
    """Alter rows and update all digests, as somebody who knows the format would."""
    connection = connect(path)
    connection.execute(statement)
    rows = entries_by_path(connection)
    for *values, _ in connection.execute(LIST_FILES).fetchall():
        seal = file_digest(tuple(values), map(entry_digest, rows.get(values[0], [])))
        connection.execute("UPDATE files SET digest = ? WHERE path = ?", (seal, values[0]))
    connection.execute("INSERT INTO entries_fts (entries_fts) VALUES ('rebuild')")
    connection.close()


def test_altered_rows_with_correct_digests_are_found_by_comparing_the_tree(
    tmp_path: Path,
) -> None:
    path = tmp_path / "index.db"
    write(make_tree(3), path)
    alter_rows(path, "UPDATE entries SET body = 'Never test.' WHERE row = 2")
    assert [
        (difference.path, difference.line, difference.code)
        for difference in differences(path, make_tree(3))
    ] == [("MEMORY.md", 21, "index-differs")]


CHANGES: dict[str, tuple[Callable[[Tree], object], tuple[str, int]]] = {
    "a file more": (lambda tree: tree.files.update({"a.md": make_loaded("a.md")}), ("a.md", 1)),
    "a file less": (lambda tree: tree.files.pop("src/MEMORY.md"), ("src/MEMORY.md", 1)),
    "an edit": (
        lambda tree: tree.files.update({"MEMORY.md": make_loaded("MEMORY.md", make_entry(1))}),
        ("MEMORY.md", 1),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_outdated_files_of_an_index_are_reported(tmp_path: Path, change: str) -> None:
    edit, expected = CHANGES[change]
    write(make_tree(3), tmp_path / "index.db")
    tree = make_tree(3)
    edit(tree)
    assert [
        (difference.path, difference.line)
        for difference in differences(tmp_path / "index.db", tree)
    ] == [expected]


ALTERED = {
    "an entry less": ("DELETE FROM entries WHERE row = 3", ("MEMORY.md", 41)),
    "a finding": ("UPDATE files SET findings = x'90'", ("institutional.md", 1)),
    "a digest": ("UPDATE files SET digest = x'00' WHERE path = 'MEMORY.md'", ("MEMORY.md", 1)),
}


@pytest.mark.parametrize("alteration", ALTERED)
def test_an_altered_row_is_reported(tmp_path: Path, alteration: str) -> None:
    statement, expected = ALTERED[alteration]
    write(make_tree(3), tmp_path / "index.db")
    connection = connect(tmp_path / "index.db")
    connection.execute(statement)
    connection.close()
    assert [
        (difference.path, difference.line)
        for difference in differences(tmp_path / "index.db", make_tree(3))
    ] == [expected]


def test_rows_of_a_file_that_is_not_listed_are_found(tmp_path: Path) -> None:
    write(make_tree(3), tmp_path / "index.db")
    connection = connect(tmp_path / "index.db")
    connection.execute("DELETE FROM files WHERE path = 'MEMORY.md'")
    assert list(list_altered_files(connection)) == ["MEMORY.md"]
    connection.close()


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_text("not a database at all " * 400),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:9000]),
}


@pytest.mark.parametrize("state", UNUSABLE)
def test_a_file_that_is_not_an_index_is_one_finding(tmp_path: Path, state: str) -> None:
    path = tmp_path / "index.db"
    write(make_tree(3), path)
    UNUSABLE[state](path)
    assert [
        (difference.path, difference.code) for difference in differences(path, make_tree(3))
    ] == [(str(path), "index-differs")]


def test_indexed_words_that_differ_from_the_text_are_found(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    write(make_tree(3), path)
    connection = connect(path)
    connection.execute(
        "INSERT INTO entries_fts (rowid, title, body, parts, cited) VALUES (1, 'planted', '', '', '')"
    )
    connection.close()
    assert len(differences(path, make_tree(3))) == 1
