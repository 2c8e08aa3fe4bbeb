"""Tests of the range of history that a run reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memory_ci.commands.record import run
from memory_ci.commands.record.run import format_plan
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo import history_cache
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import DECIDED, Project
from tests.repos import make_repo


def test_a_lost_cursor_is_reported_and_the_remaining_work_is_not_counted_twice(
    project: Project,
) -> None:
    project.commit("Keep", {"MEMORY.md": format_entry(make_entry(7, title="Known before"))})
    project.commit(f"Use it\n\nMemory-Used: {make_id(7)}\n", {"a.txt": "a"})
    work = project.commit("Typo", {"b.txt": "b"})
    tip = project.record().tip
    assert project.plan().problems == ()
    project.git("reset", "-q", "--hard", work)
    project.git("commit", "-q", "--amend", "-m", "Mended")
    project.git("cherry-pick", f"{work}..{tip}")
    (problem,) = project.plan().problems
    assert problem.startswith(
        f"where the last run ended: its commit {project.sha()[:12]} names {work[:12]}, which the"
    )
    before = {entry.id: entry.reinforcement_count for entry in project.entries()}
    project.record()
    assert {entry.id: entry.reinforcement_count for entry in project.entries()} == before
    assert before[make_id(7)] == 1


def test_a_history_that_is_too_long_to_be_read_first_gives_the_same_plan(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.record()
    project.merge_work(DECIDED.format(name="mail"), "mail", 130)
    project.commit("Use it\n\n[Prompt 1]\nAlways sort imports.\n\n[End]\n", {"a.txt": "a"})
    project.commit("Plan", {"INTENT.md": "phase: prototype\n", ".specstory/history/a.md": "# a\n"})
    project.commit("Ship", {"INTENT.md": "phase: production\n", ".specstory/history/a.md": None})
    project.merge_work(DECIDED.format(name="bill"), "bill", 131)
    caches = project.path / ".git" / "memory-ci"

    shutil.rmtree(caches, ignore_errors=True)
    plan = format_plan(project.plan())
    monkeypatch.setattr(run, "MAX_COMMITS_READ_FIRST", 0)
    shutil.rmtree(caches, ignore_errors=True)
    assert format_plan(project.plan()) == plan
    monkeypatch.setattr(history_cache, "MAX_CHARS", 0)
    shutil.rmtree(caches, ignore_errors=True)
    assert format_plan(project.plan()) == plan
    assert b"bill" in plan


def test_a_forged_cursor_does_not_hide_changes(project: Project) -> None:
    project.commit(
        f"Innocent\n\nMemory-CI-Step: extract\nMemory-CI-Source: {project.sha()}\n", {"x.txt": "x"}
    )
    project.commit(f"Broken\n\nMemory-CI-Source: {'a' * 40}\n", {"y.txt": "y"})
    project.record()
    assert len(project.entries()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "never use dynamic typing in hot paths of C#",
        "# " + "word " * 40,
        ">>>>>>> " + "word " * 40,
        "--- id: x type: y " * 9,
    ],
)
def test_a_learning_that_cannot_be_written_does_not_stop_the_others(
    project: Project, text: str
) -> None:
    project.merge_work(f"feat: x\n\nLearning: {text}\n", "odd", 160)
    project.record()
    assert len(project.entries()) >= 2
    assert project.check().is_ok


def test_a_repository_without_commits_and_a_detached_head_are_clear_errors(
    project: Project, tmp_path: Path
) -> None:
    empty = make_repo(tmp_path / "empty")
    with pytest.raises(RepositoryError) as unborn:
        Project(empty.path).record()
    assert unborn.value.slug == "unborn-branch"
    project.git("checkout", "-q", "--detach")
    with pytest.raises(RepositoryError) as detached:
        project.record()
    assert detached.value.slug == "detached-head"
    assert "git checkout -B main" in detached.value.hint
    assert project.record(ref="main").subjects, "naming the branch helps"


def test_secrets_of_a_message_do_not_reach_memory(project: Project) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    project.merge_work(
        f"Learning: the deploy needs the token {key} because the runner has none.",
        "key",
        133,
        "d.py",
    )
    plan = project.plan()
    assert plan.counts.redactions
    assert key not in format_plan(plan).decode()
    project.record()
    assert key not in project.show("HEAD", "MEMORY.md")


def test_a_non_utf8_message_and_a_strange_path_do_not_stop_the_run(project: Project) -> None:
    project.commit(
        b"Caf\xe9\n\nLearning: tabs in a path are legal, so quote every path because shells split.\n",
        {'odd "name\t\n.txt': "x"},
    )
    project.record()
    assert any("tabs in a path" in title.lower() for title in project.titles())


@pytest.mark.first_run
def test_a_range_that_begins_after_the_last_run_reports_the_skipped_changes(
    project: Project,
) -> None:
    project.merge_work(
        "Learning: pages are cached for a minute because they are slow.", "pages", 150
    )
    since = project.sha()
    project.merge_work("Rename", "rename", 151)
    assert "no later run reads them" in " ".join(project.plan(since=since).problems)
    assert project.plan().problems == ()
