"""Tests of feedback in the index: its rows equal the episode files, are verified, and are read back by entry."""

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


def make_feedback(
    number: int = 1, kind: FeedbackKind = "confirmed", ref: str = "pr:1", **fields: str
) -> Feedback:
    return Feedback(id=make_id(number), kind=kind, at=WHEN, ref=ref, **fields)


def make_tree(*feedback: Feedback, path: str = FIRST) -> Tree:
    """Return a tree with one memory file, and one episode file with this feedback."""
    tree = Tree({"MEMORY.md": (make_entry(1), make_entry(2))})
    tree.files[path] = make_loaded(
        path, feedback=tuple((1 + 9 * n, event) for n, event in enumerate(feedback))
    )
    return tree


def write(tree: Tree, path: Path | None) -> None:
    with open_index(path) as index:
        sync(index, tree.oids, tree.load)


def differences(path: Path, tree: Tree) -> list[tuple[str, int]]:
    with open_index(None) as fresh:
        sync(fresh, tree.oids, tree.load)
        return [(finding.path, finding.line) for finding in verify(path, fresh)]


def read_feedback(path: Path, *numbers: int) -> list[Feedback]:
    with open_index(path) as index:
        return [event for event, _ in list_feedback(index, map(make_id, numbers))]


def test_feedback_on_an_entry_is_read_back_unchanged(tmp_path: Path) -> None:
    written = make_feedback(by="ada")
    write(make_tree(written, make_feedback(2)), tmp_path / "index.db")
    assert read_feedback(tmp_path / "index.db", 1) == [written]


def test_rows_of_a_changed_or_removed_file_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    write(make_tree(make_feedback(kind="confirmed")), path)
    tree = make_tree(make_feedback(kind="rejected"))
    write(tree, path)
    assert [event.kind for event in read_feedback(path, 1)] == ["rejected"]
    assert tree.requests == [[FIRST]]
    del tree.files[FIRST]
    write(tree, path)
    assert read_feedback(path, 1) == []


def test_any_order_of_adding_files_gives_the_same_bytes(tmp_path: Path) -> None:
    tree = make_tree(make_feedback(), make_feedback(2))
    tree.files[SECOND] = make_loaded(SECOND, feedback=((1, make_feedback(ref="pr:2")),))
    second_tree = make_tree(make_feedback(ref="pr:2"), path=SECOND)
    write(second_tree, tmp_path / "late.db")
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
def test_an_altered_row_is_reported_and_its_index_is_not_used(tmp_path: Path, what: str) -> None:
    statement, place = ALTERED[what]
    path, tree = tmp_path / "index.db", make_tree(make_feedback(), make_feedback(2))
    write(tree, path)
    connection = connect(path)
    connection.execute(statement)
    assert list(list_altered_files(connection)) == [place[0]]
    connection.close()
    assert differences(path, tree) == [place]
    write(tree, path)
    assert differences(path, tree) == []


def test_an_unreadable_row_is_damage_and_repaired(tmp_path: Path) -> None:
    tree = make_tree(make_feedback())
    with open_index(tmp_path / "index.db") as index:
        sync(index, tree.oids, tree.load)
        index.connection.execute("UPDATE feedback SET kind = 'praised'")
        counted = list_feedback(index, [make_id(1)])
        assert counted == [(make_feedback(), 1)]


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
def test_feedback_for_some_entries_equals_that_in_all_feedback(
    feedback: list[Feedback],
) -> None:
    tree = make_tree(*feedback[::2])
    tree.files[SECOND] = make_loaded(SECOND, feedback=tuple((1, event) for event in feedback[1::2]))
    ids = [make_id(1), make_id(2)]
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        counted = list_feedback(index, ids)
    shares = {make_work_key(event): count for event, count in counted if event.kind == "ignored"}
    expected = compute_utilities(feedback)
    of_some_entries = compute_utilities_of_entries([event for event, _ in counted], shares)
    assert of_some_entries == {entry: expected[entry] for entry in ids if entry in expected}


def test_a_reference_that_looks_like_author_and_time_is_another_job() -> None:
    tree = make_tree(
        make_feedback(1, "ignored", ref="", by="ada"),
        make_feedback(2, "ignored", ref=f"ada\n{WHEN.isoformat()}"),
    )
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert [count for _, count in list_feedback(index, [make_id(1)])] == [1]


def count_steps(files: int) -> int:
    """Return how many hundred database steps reading takes if all files are about one job."""
    tree = Tree({"MEMORY.md": (make_entry(1),)})
    for name in (f".memory/episodes/2026-11/pr-{number}.md" for number in range(files)):
        tree.files[name] = make_loaded(
            name, feedback=tuple((1, make_feedback(number, "ignored")) for number in range(10))
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


def test_a_job_is_counted_once_for_any_number_of_files() -> None:
    assert count_steps(80) < 3 * count_steps(40)


def test_any_text_is_safe_in_the_query() -> None:
    odd = make_feedback(ref="'; DROP TABLE feedback; --", by='"\x1b[2J')
    tree = make_tree(odd)
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert list_feedback(index, [make_id(1), "' OR 1"]) == [(odd, 1)]


def test_after_any_edit_the_rows_equal_those_of_a_fresh_build(tmp_path: Path) -> None:
    edits: list[Callable[[], Tree]] = [
        lambda: make_tree(make_feedback(), make_feedback(2)),
        lambda: make_tree(make_feedback(2), make_feedback()),
        lambda: make_tree(make_feedback(2), path=SECOND),
    ]
    for edit in edits:
        write(edit(), tmp_path / "index.db")
        assert differences(tmp_path / "index.db", edit()) == []
    assert read_feedback(tmp_path / "index.db", 2) == [make_feedback(2)]
