"""Tests of the commit writer: local changes, merges and busy work trees stop it before it writes."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from memory_ci.gitrepo.repo import Repository
from tests.gitrepo.writing import refused, series, write
from tests.repos import RepoBuilder

pytestmark = pytest.mark.usefixtures("scratch", "check_nothing_left_behind")


def test_other_staged_modified_and_untracked_files_are_unchanged(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit(
        "Files",
        {"staged.md": "old\n", "both.md": "old\n", "modified.md": "old\n", "removed.md": "r\n"},
    )
    builder.write("staged.md", "staged\n")
    builder.write("both.md", "staged\n")
    builder.write("added.md", "added\n")
    builder.git("add", "staged.md", "both.md", "added.md")
    builder.git("rm", "-q", "--cached", "removed.md")
    builder.write("both.md", "and modified\n")
    builder.write("modified.md", "modified\n")
    builder.write("a/untracked.md", "untracked\n")
    status = builder.git("status", "--porcelain=v2", "--untracked-files=all")
    write(repo, series({"a/MEMORY.md": b"new\n", "README.md": b"changed\n"}))
    assert builder.git("status", "--porcelain=v2", "--untracked-files=all") == status
    assert (builder.path / "a/MEMORY.md").read_text() == "new\n"
    assert builder.git("cat-file", "blob", ":both.md") == "staged"
    assert (builder.path / "both.md").read_text() == "and modified\n"
    assert "staged.md" not in builder.git("show", "--name-only", "--format=", "main")


def modify(builder: RepoBuilder) -> None:
    builder.write("MEMORY.md", "mine\n")


def stage(builder: RepoBuilder) -> None:
    modify(builder)
    builder.git("add", "MEMORY.md")


def stage_and_change_back(builder: RepoBuilder) -> None:
    stage(builder)
    builder.write("MEMORY.md", "memory\n")


def delete(builder: RepoBuilder) -> None:
    (builder.path / "MEMORY.md").unlink()


def forget(builder: RepoBuilder) -> None:
    builder.git("rm", "-q", "--cached", "MEMORY.md")


def hide_a_change(builder: RepoBuilder) -> None:
    builder.git("update-index", "--assume-unchanged", "MEMORY.md")
    modify(builder)


def skip_a_change(builder: RepoBuilder) -> None:
    builder.git("update-index", "--skip-worktree", "MEMORY.md")
    modify(builder)


def make_executable(builder: RepoBuilder) -> None:
    (builder.path / "MEMORY.md").chmod(0o755)


def link(builder: RepoBuilder) -> None:
    delete(builder)
    (builder.path / "MEMORY.md").symlink_to("README.md")


LOCAL_CHANGES = (
    modify,
    stage,
    stage_and_change_back,
    delete,
    forget,
    hide_a_change,
    skip_a_change,
    make_executable,
    link,
)


@pytest.mark.parametrize("change", LOCAL_CHANGES)
@pytest.mark.parametrize("data", [b"new\n", None])
def test_a_local_change_of_a_file_to_be_written_stops_the_run_first(
    builder: RepoBuilder,
    repo: Repository,
    change: Callable[[RepoBuilder], None],
    data: bytes | None,
) -> None:
    builder.commit("Memory", {"MEMORY.md": "memory\n"})
    change(builder)
    objects = builder.git("count-objects", "-v")
    error = refused(repo, series({"other.md": b"x\n", "MEMORY.md": data}))
    assert error.slug == "local-changes"
    assert error.message.endswith("would be overwritten: MEMORY.md")
    assert builder.git("count-objects", "-v") == objects


def test_an_equal_file_behind_a_link_stops_the_run_first(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Memory", {"docs/MEMORY.md": "memory\n"})
    (builder.path / "docs").rename(builder.path / "moved")
    (builder.path / "docs").symlink_to("moved")
    error = refused(repo, series({"docs/MEMORY.md": b"new\n"}))
    assert error.slug == "local-changes"


def test_an_unmerged_file_or_a_merge_in_progress_stops_the_run(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("Theirs", {"MEMORY.md": "theirs\n"})
    builder.checkout("main")
    builder.commit("Ours", {"MEMORY.md": "ours\n"})
    with pytest.raises(AssertionError):
        builder.merge("topic")
    assert refused(repo, series({"other.md": b"x\n"})).slug == "repository-busy"
    (builder.path / ".git" / "MERGE_HEAD").unlink()
    assert refused(repo, series({"MEMORY.md": b"x\n"})).slug == "local-changes"


IN_THE_WAY = {
    "an untracked file": ("a/MEMORY.md", None),
    "an ignored file": ("ignored/MEMORY.md", None),
    "a file in the place of a directory": ("a", None),
    "a link in the place of a directory": ("a", "elsewhere"),
    "a dangling link in the place of the file": ("a/MEMORY.md", "nowhere"),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_a_path_that_blocks_a_new_file_stops_the_run_first(
    builder: RepoBuilder, repo: Repository, case: str
) -> None:
    builder.commit("Ignore", {".gitignore": "ignored/\n", "elsewhere/x": "x\n"})
    path, target = IN_THE_WAY[case]
    (builder.path / path).parent.mkdir(exist_ok=True)
    if target:
        (builder.path / path).symlink_to(target)
    else:
        builder.write(path, "in the way\n")
    error = refused(repo, series({"a/MEMORY.md": b"new\n", "ignored/MEMORY.md": b"new\n"}))
    assert error.slug == "local-changes"
    assert os.path.lexists(builder.path / path)
    assert not (builder.path / "elsewhere" / "MEMORY.md").exists()


def test_many_local_changes_are_not_all_named(builder: RepoBuilder, repo: Repository) -> None:
    files = {f"f{number:02}.md": b"x" for number in range(12)}
    for path in files:
        builder.write(path, "mine")
    assert refused(repo, series(files)).message.endswith("f08.md, f09.md and 2 more")


def start_rebase(builder: RepoBuilder) -> None:
    builder.branch("base", "HEAD~1")
    builder.commit("Base", {"README.md": "theirs\n"})
    builder.checkout("main")
    with pytest.raises(AssertionError):
        builder.git("rebase", "base")


def start_cherry_pick(builder: RepoBuilder) -> None:
    builder.branch("other", "HEAD~1")
    builder.commit("Other", {"README.md": "theirs\n"})
    builder.checkout("main")
    with pytest.raises(AssertionError):
        builder.git("cherry-pick", "other")


def lock_index(builder: RepoBuilder) -> None:
    (builder.path / ".git" / "index.lock").touch()


@pytest.mark.parametrize("start", [start_rebase, start_cherry_pick, lock_index])
def test_a_busy_work_tree_stops_the_run_first(
    builder: RepoBuilder, repo: Repository, start: Callable[[RepoBuilder], None]
) -> None:
    builder.commit("Change", {"README.md": "ours\n"})
    start(builder)
    assert refused(repo, series({"MEMORY.md": b"x\n"})).slug == "repository-busy"
    (builder.path / ".git" / "index.lock").unlink(missing_ok=True)
