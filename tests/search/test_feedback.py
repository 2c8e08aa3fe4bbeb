"""Feedback in the index: rows of episode files, kept equal to them, proved, and read back for those who are asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.utility import (
    compute_utilities,
    compute_utilities_of_entries,
    make_work_key,
)
from memory_ci.records.episode import Feedback, FeedbackKind
from memory_ci.search.artifact import verify, write_artifact
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import connect, list_altered_files
from memory_ci.search.search import list_feedback
from tests.make import make_entry, make_id
from tests.search.trees import Tree, make_loaded

WHEN = datetime(2026, 11, 20, 14, tzinfo=UTC)
FIRST, SECOND = ".memory/episodes/2026-11/pr-1.md", ".memory/episodes/2026-11/pr-2.md"


def said(
    number: int = 1, kind: FeedbackKind = "confirmed", ref: str = "pr:1", **fields: str
) -> Feedback:
    return Feedback(id=make_id(number), kind=kind, at=WHEN, ref=ref, **fields)


def make_tree(*feedback: Feedback, path: str = FIRST) -> Tree:
    """One memory file, and one episode file that says this."""
    tree = Tree({"MEMORY.md": (make_entry(1), make_entry(2))})
    tree.files[path] = make_loaded(
        path, feedback=tuple((1 + 9 * n, one) for n, one in enumerate(feedback))
    )
    return tree


def write(tree: Tree, path: Path | None) -> None:
    with open_index(path) as index:
        sync(index, tree.oids, tree.load)


def differences(path: Path, tree: Tree) -> list[tuple[str, int]]:
    with open_index(None) as fresh:
        sync(fresh, tree.oids, tree.load)
        return [(finding.path, finding.line) for finding in verify(path, fresh)]


def known(path: Path, *numbers: int) -> list[Feedback]:
    with open_index(path) as index:
        return [one for one, _ in list_feedback(index, map(make_id, numbers))]


def test_what_was_said_of_an_entry_is_read_back_as_it_was(tmp_path: Path) -> None:
    written = said(by="ada")
    write(make_tree(written, said(2)), tmp_path / "index.db")
    assert known(tmp_path / "index.db", 1) == [written]


def test_a_file_that_changes_or_goes_takes_its_rows_with_it(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    write(make_tree(said(kind="confirmed")), path)
    tree = make_tree(said(kind="rejected"))
    write(tree, path)
    assert [one.kind for one in known(path, 1)] == ["rejected"]
    assert tree.asked == [[FIRST]]
    del tree.files[FIRST]
    write(tree, path)
    assert known(path, 1) == []


def test_files_in_any_order_of_arrival_give_the_same_bytes(tmp_path: Path) -> None:
    tree = make_tree(said(), said(2))
    tree.files[SECOND] = make_loaded(SECOND, feedback=((1, said(ref="pr:2")),))
    late = make_tree(said(ref="pr:2"), path=SECOND)
    write(late, tmp_path / "late.db")
    for name in ("one", "late"):
        with open_index(tmp_path / f"{name}.db") as index:
            sync(index, tree.oids, tree.load)
            write_artifact(index, tmp_path / f"{name}.out")
    assert (tmp_path / "one.out").read_bytes() == (tmp_path / "late.out").read_bytes()
    assert differences(tmp_path / "one.out", tree) == []


ALTERED: dict[str, tuple[str, tuple[str, int]]] = {
    "a kind": ("UPDATE feedback SET kind = 'rejected' WHERE place = 1", (FIRST, 10)),
    "a row less": ("DELETE FROM feedback WHERE place = 0", (FIRST, 1)),
    "a row more": (
        "INSERT INTO feedback SELECT 'x.md', 0, 1, entry, kind, at, by, ref, job FROM feedback WHERE place = 0",
        ("x.md", 1),
    ),
}


@pytest.mark.parametrize("what", ALTERED)
def test_an_altered_row_is_named_and_the_index_that_holds_it_is_not_used(
    tmp_path: Path, what: str
) -> None:
    statement, place = ALTERED[what]
    path, tree = tmp_path / "index.db", make_tree(said(), said(2))
    write(tree, path)
    connection = connect(path)
    connection.execute(statement)
    assert list(list_altered_files(connection)) == [place[0]]
    connection.close()
    assert differences(path, tree) == [place]
    write(tree, path)
    assert differences(path, tree) == []


def test_a_row_that_cannot_be_read_back_is_damage_and_heals(tmp_path: Path) -> None:
    tree = make_tree(said())
    with open_index(tmp_path / "index.db") as index:
        sync(index, tree.oids, tree.load)
        index.connection.execute("UPDATE feedback SET kind = 'praised'")
        found = list_feedback(index, [make_id(1)])
        assert found == [(said(), 1)]


kinds = st.sampled_from(["confirmed", "corrected", "rejected", "undone", "ignored"])
events = st.builds(
    Feedback,
    id=st.integers(1, 4).map(make_id),
    kind=kinds,
    at=st.integers(0, 3).map(lambda days: WHEN + timedelta(days=days)),
    by=st.sampled_from(["", "ada", "bob\n2026"]),
    ref=st.sampled_from(["", "pr:1", "pr:2", "ada", f"ada\n{WHEN.isoformat()}"]),
)


@given(st.lists(events, max_size=25))
def test_of_some_entries_the_index_gives_what_all_of_the_feedback_gives(
    told: list[Feedback],
) -> None:
    tree = make_tree(*told[::2])
    tree.files[SECOND] = make_loaded(SECOND, feedback=tuple((1, one) for one in told[1::2]))
    asked = [make_id(1), make_id(2)]
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        found = list_feedback(index, asked)
    shares = {make_work_key(one): count for one, count in found if one.kind == "ignored"}
    expected = compute_utilities(told)
    some = compute_utilities_of_entries([one for one, _ in found], shares)
    assert some == {entry: expected[entry] for entry in asked if entry in expected}


def test_a_reference_that_spells_a_name_and_a_time_is_another_job() -> None:
    tree = make_tree(
        said(1, "ignored", ref="", by="ada"), said(2, "ignored", ref=f"ada\n{WHEN.isoformat()}")
    )
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert [count for _, count in list_feedback(index, [make_id(1)])] == [1]


def count_steps(files: int) -> int:
    """How many hundred steps the database takes to tell what was said, where all files tell of one job."""
    tree = Tree({"MEMORY.md": (make_entry(1),)})
    for name in (f".memory/episodes/2026-11/pr-{number}.md" for number in range(files)):
        tree.files[name] = make_loaded(
            name, feedback=tuple((1, said(number, "ignored")) for number in range(10))
        )
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        index.connection.set_progress_handler(count, 100)
        assert len(list_feedback(index, [make_id(1), make_id(2)])) == 2 * files
    return steps


def test_a_job_is_counted_once_however_many_files_tell_of_it() -> None:
    assert count_steps(80) < 3 * count_steps(40)


def test_a_text_of_anybody_does_no_harm_to_the_query() -> None:
    odd = said(ref="'; DROP TABLE feedback; --", by='"\x1b[2J')
    tree = make_tree(odd)
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert list_feedback(index, [make_id(1), "' OR 1"]) == [(odd, 1)]


def test_the_rows_are_those_of_a_fresh_build_after_any_edit(tmp_path: Path) -> None:
    edits: list[Callable[[], Tree]] = [
        lambda: make_tree(said(), said(2)),
        lambda: make_tree(said(2), said()),
        lambda: make_tree(said(2), path=SECOND),
    ]
    for edit in edits:
        write(edit(), tmp_path / "index.db")
        assert differences(tmp_path / "index.db", edit()) == []
    assert known(tmp_path / "index.db", 2) == [said(2)]
