"""Tests of `check --fix`: entries that a branch appended are moved into the inbox, and back."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memory_ci.commands.check.fix import adopt_by_hand, move_to_inbox
from memory_ci.errors import UsageError
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.make import format_all_keys, make_entry, make_id
from tests.project import Project


def append(project: Project, path: str, *numbers: int, text: str = "") -> None:
    file = project.path / path
    before = file.read_text() if file.exists() else ""
    entries = "\n".join(format_entry(make_entry(number)) for number in numbers)
    project.write(path, (before and before + "\n") + entries + text)


@pytest.fixture
def branch(project: Project) -> Project:
    """Check out a new branch of a project that has entry 1 in MEMORY.md."""
    append(project, "MEMORY.md", 1)
    project.git("add", ".")
    project.commit("One")
    project.branch("feature/main")
    return project


def test_appended_entries_move_and_the_file_is_restored_byte_for_byte(
    branch: Project,
) -> None:
    append(branch, "MEMORY.md", 2)
    branch.git("add", ".")
    branch.commit("Two")
    append(branch, "MEMORY.md", 3)
    moved = move_to_inbox(branch.workspace)
    assert [(move.entry_id, move.source, move.path) for move in moved] == [
        (make_id(number), "MEMORY.md", fragment_path(make_id(number))) for number in (2, 3)
    ]
    assert (branch.path / "MEMORY.md").read_text() == branch.show("main", "MEMORY.md")
    assert (branch.path / fragment_path(make_id(2))).read_text() == format_entry(
        make_entry(2, scope="project")
    )
    assert branch.check().is_ok
    assert move_to_inbox(branch.workspace) == ()


@pytest.mark.parametrize("end", ["", "\n\n\n"])
def test_the_end_of_the_file_is_restored_too(branch: Project, end: str) -> None:
    before = (branch.path / "MEMORY.md").read_text().rstrip() + end
    branch.commit("Another end", {"MEMORY.md": before})
    branch.git("branch", "-f", "main", "HEAD")
    branch.write("MEMORY.md", f"{before}\n\n{format_entry(make_entry(2))}")
    assert len(move_to_inbox(branch.workspace)) == 1
    assert (branch.path / "MEMORY.md").read_text() == before


def test_moved_entries_get_the_scope_of_their_file(branch: Project) -> None:
    paths = ["src/api/MEMORY.md", "institutional.md", ".teaparty/jobs/j1/institutional.md"]
    for number, path in enumerate(paths, 2):
        append(branch, path, number)
    move_to_inbox(branch.workspace)
    texts = [(branch.path / fragment_path(make_id(number))).read_text() for number in (2, 3, 4)]
    scopes = [parse_memory_file("", text.encode()).entries[0].scope for text in texts]
    assert scopes == ["team:src/api", "institutional", "session:j1"]
    assert not (branch.path / "src/api/MEMORY.md").exists()


def test_moved_entries_are_folded_unchanged(branch: Project) -> None:
    append(branch, "MEMORY.md", 2)
    move_to_inbox(branch.workspace)
    branch.git("add", ".")
    branch.commit("Note it")
    branch.merge_back("feature/main")
    branch.record()
    assert make_entry(2) in branch.entries()


def test_everything_else_that_the_branch_changed_stays(branch: Project) -> None:
    append(branch, "MEMORY.md", 2)
    text = (branch.path / "MEMORY.md").read_text()
    branch.write(
        "MEMORY.md",
        text.replace("# Memory", "# Our memory").replace("type:", "importance: 0.7\ntype:"),
    )
    move_to_inbox(branch.workspace)
    before = branch.show("main", "MEMORY.md")
    expected = before.replace("# Memory", "# Our memory").replace("type:", "importance: 0.7\ntype:")
    assert (branch.path / "MEMORY.md").read_text() == expected
    assert "importance: 0.7" in (branch.path / fragment_path(make_id(2))).read_text()


def test_an_entry_that_only_changed_its_file_is_not_new(branch: Project) -> None:
    branch.write("src/MEMORY.md", format_entry(make_entry(1)))
    branch.write("MEMORY.md", "# Memory\n")
    assert move_to_inbox(branch.workspace) == ()


def test_a_duplicate_id_is_left_for_check_to_report(branch: Project) -> None:
    append(branch, "MEMORY.md", 2)
    append(branch, "src/MEMORY.md", 2)
    assert move_to_inbox(branch.workspace) == ()
    assert not branch.check().is_ok


def test_comments_and_unknown_keys_go_along(branch: Project) -> None:
    odd = (
        format_all_keys(make_entry(2))
        .replace("domain:", "# by Ada\nowner: ada\ndomain:")
        .replace("\n", "\r\n")
    )
    branch.write("src/MEMORY.md", odd)
    move_to_inbox(branch.workspace)
    fragment = (branch.path / fragment_path(make_id(2))).read_bytes().decode()
    assert "# by Ada\nowner: ada\ndomain:" in fragment
    assert "\r" not in fragment


def test_a_dry_run_moves_nothing(branch: Project) -> None:
    append(branch, "MEMORY.md", 2)
    before = branch.status()
    assert len(move_to_inbox(branch.workspace, dry_run=True)) == 1
    assert branch.status() == before


def test_on_the_default_branch_entries_are_where_they_belong(branch: Project) -> None:
    branch.checkout("main")
    append(branch, "MEMORY.md", 2)
    assert move_to_inbox(branch.workspace) == ()
    assert len(move_to_inbox(branch.workspace, "HEAD")) == 1


def test_unpushed_record_commits_of_the_default_branch_stay(
    branch: Project, tmp_path: Path
) -> None:
    branch.checkout("main")
    branch.git("clone", "-q", str(branch.path), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone", branch.clock)
    append(clone, "MEMORY.md", 2)
    clone.git("add", ".")
    clone.commit("Two")
    assert move_to_inbox(clone.workspace) == ()
    clone.branch("side")
    assert len(move_to_inbox(clone.workspace)) == 1


def test_a_file_that_nothing_would_be_folded_into_keeps_its_entries(branch: Project) -> None:
    append(branch, "projects/shop/.sessions/1/notes.md", 2)
    assert move_to_inbox(branch.workspace) == ()


def test_a_heading_that_is_typed_again_after_its_entry_was_removed_or_moved_is_a_new_entry(
    branch: Project,
) -> None:
    typed = "## Always run tox\n\nBecause CI does.\n"
    ids = set[str]()
    for message in ("Type it", "Type it again"):
        branch.write("MEMORY.md", branch.show("main", "MEMORY.md") + f"\n{typed}")
        assert len(adopt_by_hand(branch.workspace, date(2026, 11, 21))) == 1
        branch.git("add", ".")
        branch.commit(message)
        ids.add(branch.entries()[-1].id)
        branch.commit("Remove it", {"MEMORY.md": branch.show("main", "MEMORY.md")})
    branch.write("MEMORY.md", branch.show("main", "MEMORY.md") + f"\n{typed}")
    adopt_by_hand(branch.workspace, date(2026, 11, 21))
    (moved,) = move_to_inbox(branch.workspace)
    assert len({*ids, moved.entry_id}) == 3
    append(branch, "MEMORY.md", text=f"\n{typed}")
    adopt_by_hand(branch.workspace, date(2026, 11, 21))
    assert branch.check().is_ok


def test_without_anything_to_compare_with_a_base_must_be_named(branch: Project) -> None:
    branch.git("branch", "-m", "main", "trunk")
    with pytest.raises(UsageError) as caught:
        move_to_inbox(branch.workspace)
    assert caught.value.slug == "no-base"
    append(branch, "MEMORY.md", 2)
    assert len(move_to_inbox(branch.workspace, "trunk")) == 1


def test_a_base_with_another_history_is_no_base(branch: Project) -> None:
    branch.git("checkout", "-q", "--orphan", "elsewhere")
    branch.commit("Another start")
    with pytest.raises(UsageError, match="no commit in common"):
        move_to_inbox(branch.workspace)
