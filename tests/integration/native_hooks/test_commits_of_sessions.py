"""Tests of native hooks in commits of agents' sessions: trailers and printed lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_ci.sessions.active_session import AGENT_BY_VARIABLE, SESSION_VARIABLE
from memory_ci.sessions.moments import TimedLine, save_timed_lines
from memory_ci.sessions.served_ids import record_served
from memory_ci.sessions.session_note import list_activities
from tests.integration.git_in_background import run_git
from tests.integration.native_hooks.hooked import count_starts
from tests.make import make_id
from tests.processes import CAN_ADOPT, Background
from tests.project import NOW, Project

pytestmark = pytest.mark.skipif(
    not CAN_ADOPT, reason="no way to wait for what goes on in the background"
)


def test_served_entries_are_named_in_the_next_commit_only(
    project: Project, background: Background, tmp_path: Path
) -> None:
    record_served(project.workspace, [make_id(1)], NOW)
    starts = count_starts(
        project, tmp_path, background, "commit src/client.py -m x", "commit --allow-empty -m y"
    )
    assert starts == ["prepare-commit-msg"]
    assert make_id(1) in project.git("log", "-1", "--format=%B", "HEAD^")


def test_each_work_tree_names_its_own_served_entries(project: Project, tmp_path: Path) -> None:
    linked = Project(project.worktree(tmp_path / "linked", "side").path)
    record_served(linked.workspace, [make_id(2)], NOW)
    run_git(project.path, "commit --allow-empty -m x")
    run_git(linked.path, "commit --allow-empty -m x")
    assert make_id(2) not in project.git("log", "-1", "--format=%B")
    assert make_id(2) in linked.git("log", "-1", "--format=%B")


def test_a_merge_commit_names_no_served_entries(project: Project) -> None:
    project.git("stash", "-q")
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, "merge --no-edit beside").status == 0
    assert make_id(1) not in project.git("log", "-1", "--format=%B")


@pytest.mark.parametrize("merge", ["cherry-pick beside", "revert --no-edit HEAD"])
def test_every_way_to_commit_names_the_served_entries(project: Project, merge: str) -> None:
    project.git("stash", "-q")
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, merge).status == 0
    assert make_id(1) in project.git("log", "-1", "--format=%B")


DUE = "memory-ci: before you commit: Run the linter (id 00000001)"


def put_due_line(project: Project) -> None:
    save_timed_lines(
        project.workspace.repo.common_dir, [TimedLine(make_id(1), "before:commit", DUE)]
    )


@pytest.mark.parametrize("variable", [SESSION_VARIABLE, *AGENT_BY_VARIABLE])
def test_a_commit_of_an_agents_session_names_it_and_prints_a_due_line(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "codex:s1" if variable == SESSION_VARIABLE else "s1")
    put_due_line(project)
    assert DUE in run_git(project.path, "commit --allow-empty -m x").printed
    assert ":s1" in project.git("log", "-1", "--format=%(trailers:key=Memory-Session,valueonly)")


def test_a_line_printed_by_the_git_hook_counts_as_served_and_is_not_printed_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SESSION_VARIABLE, "codex:s1")
    put_due_line(project)
    assert DUE in run_git(project.path, "commit --allow-empty -m x").printed
    (sign,) = list_activities(project.workspace, "s1")
    assert (sign.key, sign.served) == ("codex:s1", (make_id(1),))
    assert DUE not in run_git(project.path, "commit --allow-empty -m y").printed


def test_a_commit_in_a_linked_work_tree_prints_due_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SESSION_VARIABLE, "codex:s1")
    put_due_line(project)
    project.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    assert DUE in run_git(tmp_path / "tree", "commit --allow-empty -m x").printed


def test_a_commit_of_a_person_starts_no_interpreter_for_due_lines(
    project: Project, background: Background, tmp_path: Path
) -> None:
    put_due_line(project)
    assert count_starts(project, tmp_path, background, "commit --allow-empty -m x") == []


def test_the_hook_does_not_wait_for_a_pipe_in_place_of_the_table(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SESSION_VARIABLE, "codex:s1")
    folder = project.path / ".git/memory-ci"
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "moments.json")
    assert run_git(project.path, "commit --allow-empty -m x").status == 0
