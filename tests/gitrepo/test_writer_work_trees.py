"""Tests of the commit writer with linked, bare, detached and removed work trees."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import Repository, find_repository
from tests.gitrepo.writing import MAIN, refused, series, state, write
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.usefixtures("scratch", "check_nothing_left_behind")


def test_a_branch_that_is_checked_out_in_another_work_tree_is_updated_there(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "memory")
    builder.write("MEMORY.md", "untracked, on another branch\n")
    before = state(builder)[1:]
    write(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/memory")
    assert (linked.path / "MEMORY.md").read_text() == "new\n"
    assert linked.git("status", "--porcelain") == ""
    assert state(builder)[1:] == before


def test_a_local_change_in_another_work_tree_stops_the_run(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "memory")
    linked.write("MEMORY.md", "mine\n")
    error = refused(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/memory")
    assert error.slug == "local-changes"
    assert str(linked.path) in error.message
    linked.write("MEMORY.md", "mine\n").unlink()


def test_a_write_may_start_from_a_linked_work_tree_and_from_a_removed_directory(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "memory")
    removed_tree = builder.worktree(tmp_path / "gone", "gone")
    subprocess.run(["rm", "-r", removed_tree.path], check=True)
    write(find_repository(linked.path), series({"MEMORY.md": b"m\n"}))
    write(find_repository(linked.path), series({"MEMORY.md": b"g\n"}), ref="refs/heads/gone")
    assert (builder.path / "MEMORY.md").read_text() == "m\n"
    assert builder.show("gone", "MEMORY.md") == "g\n"
    assert not (linked.path / "MEMORY.md").exists()


def test_a_bare_repository_is_written(builder: RepoBuilder, tmp_path: Path) -> None:
    bare = builder.bare(tmp_path / "bare.git")
    write(find_repository(bare.path, is_named=True), series({"a/MEMORY.md": b"m\n"}))
    assert bare.show("main", "a/MEMORY.md") == "m\n"
    assert not (bare.path / "index").exists()


def test_a_detached_work_tree_is_unchanged(builder: RepoBuilder, repo: Repository) -> None:
    builder.git("checkout", "-q", "--detach")
    before = state(builder)[1:]
    write(repo, series({"MEMORY.md": b"m\n"}))
    assert state(builder)[1:] == before


def test_writing_to_a_symbolic_branch_moves_its_target_and_updates_its_work_tree(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("symbolic-ref", "refs/heads/master", MAIN)
    tip = write(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/master")
    assert builder.sha(MAIN) == tip
    assert builder.git("symbolic-ref", "refs/heads/master") == MAIN
    assert (builder.path / "MEMORY.md").read_text() == "new\n"
    assert builder.git("status", "--porcelain") == ""


@pytest.mark.parametrize("inside", [".", "theirs", "ours"])
def test_a_new_directory_at_the_path_of_a_removed_work_tree_is_unchanged(
    builder: RepoBuilder, repo: Repository, tmp_path: Path, inside: str
) -> None:
    theirs = make_repo(tmp_path / "theirs")
    theirs.commit("Theirs", {"theirs.md": "t\n"})
    home = {
        ".": tmp_path / "linked",
        "theirs": theirs.path / "linked",
        "ours": builder.path / "linked",
    }[inside]
    linked = builder.worktree(home, "memory")
    shutil.rmtree(linked.path)
    linked.path.mkdir()
    before = state(theirs)
    tip = write(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/memory")
    assert builder.sha("memory") == tip
    assert list(linked.path.iterdir()) == []
    assert not (builder.path / "MEMORY.md").exists()
    assert builder.git("status", "--porcelain") == ""
    assert state(theirs) == before
