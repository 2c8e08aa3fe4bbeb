"""Tests of `resolve`: it merges the base into a branch without an installed merge driver."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memory_ci.commands.check.resolve import Resolution, resolve_branch
from memory_ci.errors import RepositoryError
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import Project


def append(project: Project, number: int) -> None:
    text = (project.path / "MEMORY.md").read_text()
    project.commit(f"Entry {number}", {"MEMORY.md": f"{text}\n{format_entry(make_entry(number))}"})


@pytest.fixture
def branch(project: Project) -> Project:
    """Check out a branch that conflicts with main for git, but not for the merge driver."""
    project.git("config", "user.name", "Ann")
    project.git("config", "user.email", "ann@example.com")
    project.branch("side")
    append(project, 2)
    project.checkout("main")
    append(project, 1)
    project.checkout("side")
    return project


def resolve(
    project: Project, branch: str | None = None, base: str | None = None, **options: bool
) -> Resolution:
    return resolve_branch(project.workspace, sys.executable, branch, base, **options)


def ids(project: Project, rev: str = "HEAD") -> list[str]:
    return [entry.id for entry in project.entries(rev=rev)]


def test_conflicts_of_git_are_merged_by_entries_and_no_driver_stays_installed(
    branch: Project,
) -> None:
    with pytest.raises(AssertionError):
        branch.git("merge", "main")
    branch.git("merge", "--abort")
    config = (branch.path / ".git" / "config").read_bytes()
    done = resolve(branch)
    assert (done.branch, done.base, done.after) == ("side", "main", branch.sha())
    assert ids(branch) == [make_id(1), make_id(2)]
    assert branch.git("log", "-1", "--format=%s|%p").startswith("Merge branch 'main' into side|")
    assert branch.status() == ""
    assert (branch.path / ".git" / "config").read_bytes() == config
    assert resolve(branch).before == branch.sha()


def test_attributes_that_the_user_has_everywhere_still_count(branch: Project, home: Path) -> None:
    (home / "attributes").write_text("notes.txt merge=union\n")
    branch.git("config", "core.attributesFile", "~/attributes")
    branch.commit("Ours", {"notes.txt": "ours\n"})
    branch.checkout("main")
    branch.commit("Theirs", {"notes.txt": "theirs\n"})
    branch.checkout("side")
    resolve(branch)
    assert set(branch.show("HEAD", "notes.txt").splitlines()) == {"ours", "theirs"}


def test_a_conflict_in_another_file_leaves_the_branch_as_it_was(branch: Project) -> None:
    branch.commit("Ours", {"notes.txt": "ours\n"})
    branch.checkout("main")
    branch.commit("Theirs", {"notes.txt": "theirs\n"})
    branch.checkout("side")
    before = branch.sha()
    for dry_run in (False, True):
        with pytest.raises(
            RepositoryError, match=r"conflict in notes\.txt; nothing was merged"
        ) as caught:
            resolve(branch, dry_run=dry_run)
        assert caught.value.slug == "merge-conflict"
    assert (branch.sha(), branch.status()) == (before, "")


def test_changes_that_are_not_committed_are_not_touched(branch: Project) -> None:
    branch.write("README.md", "changed\n")
    with pytest.raises(RepositoryError) as caught:
        resolve(branch)
    assert caught.value.slug == "local-changes"


def test_a_dry_run_merges_nothing_into_the_branch_and_runs_no_hook(
    branch: Project, tmp_path: Path
) -> None:
    for name in ("post-checkout", "pre-merge-commit", "post-merge"):
        branch.write(f".git/hooks/{name}", f"#!/bin/sh\ntouch {tmp_path}/{name}\n").chmod(0o755)
    before = branch.sha()
    assert resolve(branch, dry_run=True, push=True).pushed_to is None
    assert (branch.sha(), branch.status()) == (before, "")
    assert len(branch.git("worktree", "list").splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_a_branch_that_is_not_checked_out_is_merged_beside_the_work_tree(branch: Project) -> None:
    branch.checkout("main")
    branch.write("README.md", "changed\n")
    before = branch.sha()
    assert resolve(branch, "side", "main").after == branch.sha("side")
    assert ids(branch, "side") == [make_id(1), make_id(2)]
    assert (branch.sha(), branch.status()) == (before, " M README.md")
    assert len(branch.git("worktree", "list").splitlines()) == 1


def test_the_merged_branch_is_pushed_where_it_came_from(branch: Project, tmp_path: Path) -> None:
    bare = branch.bare(tmp_path / "hub.git")
    branch.git("remote", "add", "hub", str(bare.path))
    branch.git("fetch", "-q", "hub")
    branch.git("branch", "-q", "-u", "hub/side")
    done = resolve(branch, push=True)
    assert (done.base, done.pushed_to) == ("hub/main", "hub")
    assert bare.sha("side") == done.after


def test_a_detached_head_has_no_branch_to_merge_into(branch: Project) -> None:
    branch.checkout(branch.sha())
    with pytest.raises(RepositoryError) as caught:
        resolve(branch)
    assert caught.value.slug == "detached-head"
