"""Tests of the files of the SQLite engine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory_ci.commands.org.records import OrgFilters
from memory_ci.commands.org.sqlite import SqliteEngine
from memory_ci.errors import EngineError
from tests.commands.org.engines import make_entries, make_place, make_repository, writing

ALL = OrgFilters()


def test_a_file_is_read_only_and_renamed_into_place(tmp_path: Path) -> None:
    place = make_place("sqlite", str(tmp_path))
    with writing(place) as engine:
        engine.sync(make_repository("a", "public"), "1", make_entries(1, "Retry first"))
    with closing(
        sqlite3.connect(f"{(tmp_path / 'public.db').as_uri()}?mode=ro", uri=True)
    ) as reader:
        before = (tmp_path / "public.db").stat()
        with writing(place) as engine:
            engine.sync(make_repository("a", "public"), "2", make_entries(1, "Retry second"))
        assert reader.execute("SELECT title FROM entries").fetchall() == [("Retry first",)]
    assert (tmp_path / "public.db").stat().st_ino != before.st_ino
    assert before.st_mode & 0o777 == 0o444
    assert sorted(path.name for path in tmp_path.iterdir()) == ["operator", "public.db"]


def test_nothing_changed_writes_nothing(tmp_path: Path) -> None:
    place = make_place("sqlite", str(tmp_path))
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    inode = (tmp_path / "internal.db").stat().st_ino
    engine = place.write()
    assert [item.is_new for item in engine.publish()] == [False]
    engine.close()
    assert (tmp_path / "internal.db").stat().st_ino == inode


def test_deleted_entries_leave_no_trace_in_the_file(tmp_path: Path) -> None:
    place = make_place("sqlite", str(tmp_path))
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry the zanzibar gateway"))
        engine.sync(make_repository("b"), "1", make_entries(5, *(f"Note {n}" for n in range(50))))
    assert b"zanzibar" in (tmp_path / "internal.db").read_bytes()
    with writing(place) as engine:
        engine.drop("forge.example#a")
    assert b"zanzibar" not in (tmp_path / "internal.db").read_bytes()


def test_an_audience_without_repositories_has_no_file(tmp_path: Path) -> None:
    place = make_place("sqlite", str(tmp_path))
    with writing(place) as engine:
        engine.sync(make_repository("a", "group-x"), "1", make_entries(1, "Retry"))
    with writing(place) as engine:
        engine.drop("forge.example#a")
    assert list(tmp_path.glob("*.db")) == []


@pytest.mark.parametrize("damage", [b"", b"no database", None])
@pytest.mark.parametrize("is_published", [True, False])
def test_a_damaged_operator_file_is_rebuilt_from_published_files_or_from_nothing(
    tmp_path: Path, damage: bytes | None, is_published: bool
) -> None:
    place = make_place("sqlite", str(tmp_path))
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, *(f"Retry {n}" for n in range(200))))
    path = tmp_path / "operator" / "internal.db"
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(
        data[:half] + b"\xff" * 4096 + data[half + 4096 :] if damage is None else damage
    )
    if not is_published:
        (tmp_path / "internal.db").unlink()
        (tmp_path / "internal.db").write_bytes(b"damaged, too")
    with writing(place) as engine:
        assert len(engine.heads()) == is_published
        engine.sync(make_repository("b"), "1", make_entries(900, "Retry"))
    matches = place.read(None).search(["retry"], ALL, ["internal"], 300)
    assert len(matches) == 1 + 200 * is_published


def test_a_damaged_published_file_is_named_and_never_answers(tmp_path: Path) -> None:
    (tmp_path / "internal.db").write_bytes(b"no database at all")
    with pytest.raises(EngineError, match=r"internal\.db cannot be used") as caught:
        SqliteEngine(tmp_path).search(["retry"], ALL, ["internal"], 10)
    assert caught.value.slug == "org-damaged"


def test_names_of_files_that_are_no_audience_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"not ours")
    assert SqliteEngine(tmp_path).heads() == {}
    assert SqliteEngine(tmp_path).search(["retry"], ALL, ["other", "../x"], 10) == []
