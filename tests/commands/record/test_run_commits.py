"""Tests of the commits of a run, and the work trees and repositories that it writes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.memory.apply import apply_plan
from tests.make import make_entry
from tests.project import MARKED, NOW, TODAY, Project
from tests.repos import make_repo


def test_the_commit_message_names_the_step_and_the_last_read_commit(project: Project) -> None:
    covered = project.sha()
    project.record()
    trailers = project.git("log", "-1", "--format=%(trailers:only,unfold)")
    steps = ["Memory-CI-Step: extract", "Memory-CI-Step: read"]
    assert trailers.strip().splitlines() == [*steps, f"Memory-CI-Source: {covered}"]
    assert project.git("log", "-1", "--format=%an|%cn") == "memory-ci|memory-ci"


@pytest.mark.parametrize("target", ["team:linked", "project"])
def test_a_link_is_never_replaced_by_a_file(project: Project, target: str) -> None:
    project.git("rm", "-q", "MEMORY.md")
    (project.path / "MEMORY.md").symlink_to("docs/memory.md")
    (project.path / "linked").symlink_to("src")
    project.git("add", ".")
    project.commit("Link")
    project.put_fragment(make_entry(1, scope=target))
    with pytest.raises(MemoryCIError) as raised:  # the learnings of #128 have no file to go to
        project.record()
    assert raised.value.slug == "no-scope-file"
    assert project.git("ls-tree", "HEAD", "MEMORY.md").startswith("120000")
    assert (project.path / "MEMORY.md").is_symlink()


def test_a_configuration_of_the_work_tree_that_cannot_be_read_is_named(project: Project) -> None:
    workspace = project.workspace
    project.write(".memory-ci.yaml", "publish: 3\n")
    (finding,) = plan_record(workspace, RecordOptions(), TODAY, lambda *_: None).findings
    assert (finding.path, finding.code, finding.level) == (
        ".memory-ci.yaml",
        "bad-config",
        "notice",
    )
    assert "that of the commit holds" in finding.message


def test_changes_of_the_user_in_other_files_are_left_alone(project: Project) -> None:
    project.write("README.md", "edited\n")
    project.write("new.txt", "staged\n")
    project.git("add", "new.txt")
    project.record()
    assert project.status().splitlines() == [" M README.md", "A  new.txt"]
    assert project.show("HEAD", "README.md") == "Shop\n"


def test_an_edited_memory_file_stops_the_run_before_it_commits(project: Project) -> None:
    project.write("MEMORY.md", "my notes\n")
    start = project.sha()
    with pytest.raises(RepositoryError) as raised:
        project.record()
    assert raised.value.slug == "local-changes"
    assert "MEMORY.md" in raised.value.message
    assert project.sha() == start
    assert (project.path / "MEMORY.md").read_text() == "my notes\n"


def test_a_broken_entry_stays_where_it_is_and_the_run_goes_on(project: Project) -> None:
    broken = "# Memory\n\n---\nid: 1\ntype: oops\n---\n## Broken\n"
    project.commit("Break an entry", {"MEMORY.md": broken})
    plan = project.plan()
    assert {finding.code for finding in plan.findings} >= {"bad-value", "missing-field"}
    project.record()
    assert project.show("HEAD", "MEMORY.md").startswith(broken)
    assert len(project.entries()) == 2


def test_a_bare_repository_records_on_its_branch(project: Project, tmp_path: Path) -> None:
    bare = project.bare(tmp_path / "shop.git")
    served = Project(bare.path, bare.clock)
    served.record()
    assert len(served.entries(rev="main")) == 2


def test_a_linked_work_tree_that_has_the_branch_follows(project: Project, tmp_path: Path) -> None:
    project.branch("elsewhere")
    linked = project.worktree(tmp_path / "linked", "main")
    project.record(ref="main")
    assert "retried a POST" in (linked.path / "MEMORY.md").read_text()
    assert linked.git("status", "--porcelain") == ""
    assert project.git("rev-parse", "--abbrev-ref", "HEAD") == "elsewhere"
    assert project.status() == ""


def test_a_branch_that_moved_while_we_planned_is_not_overwritten(project: Project) -> None:
    plan = project.plan()
    moved = project.commit("Meanwhile", {"x.txt": "x"})
    with pytest.raises(RepositoryError) as raised:
        apply_plan(project.workspace, plan, NOW)
    assert raised.value.slug == "ref-moved"
    assert project.sha() == moved


def test_a_shallow_clone_is_an_error_that_names_the_remedy(
    project: Project, tmp_path: Path
) -> None:
    project.git("clone", "-q", "--depth", "1", f"file://{project.path}", str(tmp_path / "shallow"))
    with pytest.raises(RepositoryError) as raised:
        Project(tmp_path / "shallow").record()
    assert raised.value.slug == "shallow-clone"
    assert "fetch-depth: 0" in raised.value.hint


def test_without_an_init_commit_the_first_run_takes_the_whole_history(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "old")
    project = Project(repo.path, repo.clock)
    project.commit(MARKED, {"src/client.py": "x"})
    project.record()
    assert len(project.entries()) == 2
