"""Tests of the nudge, a reminder to update memory: when it is due, once a session, and never as a failure."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.commands.health.health import list_health_remarks
from memory_ci.memory.workspace import open_workspace
from memory_ci.sessions.nudge import (
    find_nudge,
    find_session_id,
    is_branch_pushed,
    nudge_agent,
    nudge_once,
)
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import TODAY, Project, make_project
from tests.repos import make_repo

LINE = "memory-ci: 3 or more commits since memory changed. What would the next job like to know? `memory-ci add` notes it."


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project that has just changed memory and configures the nudge after three commits."""
    project.commit("Configure", {".memory-ci.yaml": "nudge:\n  after: 3\n"})
    project.commit("Learn", {"MEMORY.md": format_entry(make_entry(1, title="Zebra crossing"))})
    return project


def commit_work(project: Project, count: int) -> None:
    for number in range(count):
        project.commit(f"Work {number}", {f"src/{project.clock.now:%H%M}.py": "x\n"})


def test_the_nudge_is_due_after_the_configured_number_of_commits(shop: Project) -> None:
    commit_work(shop, 2)
    assert find_nudge(shop.workspace) == ""
    commit_work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


def test_the_default_is_sixty_commits(project: Project) -> None:
    project.commit("Learn", {"MEMORY.md": format_entry(make_entry(1))})
    commit_work(project, 59)
    assert find_nudge(project.workspace) == ""
    commit_work(project, 1)
    assert "60 or more commits" in find_nudge(project.workspace)


def test_a_change_of_memory_resets_the_count(shop: Project) -> None:
    commit_work(shop, 3)
    shop.put_fragment(make_entry(2))
    assert find_nudge(shop.workspace) == ""


def test_commits_of_episodes_neither_count_nor_reset_the_count(shop: Project) -> None:
    commit_work(shop, 2)
    shop.commit("Note", {".memory/episodes/2026-11/pr-1.md": "---\n"})
    assert find_nudge(shop.workspace) == ""
    commit_work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


def test_commits_of_a_branch_count_and_its_merge_does_not(shop: Project) -> None:
    shop.branch("topic")
    commit_work(shop, 2)
    shop.merge_back("topic")
    assert find_nudge(shop.workspace) == ""


def branch_with_memory(shop: Project, at: datetime) -> None:
    """Make a branch whose only commit changes memory, and check out main again."""
    now = shop.clock.now
    shop.branch("topic")
    shop.at(at)
    shop.put_fragment(make_entry(3))
    shop.at(now).checkout("main")


@pytest.mark.parametrize("year", [2025, 2026, 2040])
def test_memory_of_a_branch_counts_as_changed_when_it_is_merged(shop: Project, year: int) -> None:
    branch_with_memory(shop, datetime(year, 1, 5, 9, 30, tzinfo=UTC))
    commit_work(shop, 4)
    shop.merge("topic")
    assert find_nudge(shop.workspace) == ""
    commit_work(shop, 2)
    assert find_nudge(shop.workspace) == ""
    commit_work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


def test_commits_of_a_merged_branch_count_after_the_last_change_of_memory(shop: Project) -> None:
    shop.branch("topic")
    commit_work(shop, 3)
    shop.checkout("main")
    shop.put_fragment(make_entry(3))
    assert find_nudge(shop.workspace) == ""
    shop.merge("topic")
    assert find_nudge(shop.workspace) == LINE


def test_a_merge_that_changes_memory_itself_resets_the_count(shop: Project) -> None:
    shop.branch("topic")
    commit_work(shop, 4)
    shop.checkout("main")
    shop.git("merge", "-q", "--no-ff", "--no-commit", "topic")
    shop.commit("Merge, and note", {"MEMORY.md": format_entry(make_entry(4, title="Okapi"))})
    assert find_nudge(shop.workspace) == ""


def test_a_tip_from_the_future_is_counted_like_any_other(shop: Project) -> None:
    now = shop.clock.now
    shop.at(datetime(2040, 1, 1, tzinfo=UTC))
    shop.put_fragment(make_entry(3))
    shop.at(now)
    commit_work(shop, 2)
    assert find_nudge(shop.workspace) == ""
    commit_work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


OID, ZEROS = "1" * 40, "0" * 40


@pytest.mark.parametrize(
    ("updates", "environment", "expected"),
    [
        ([f"refs/heads/main {OID} refs/heads/main {ZEROS}"], {}, True),
        (
            [f"refs/tags/v1 {OID} refs/tags/v1 {ZEROS}", f"HEAD {OID} refs/heads/main {OID}"],
            {},
            True,
        ),
        ([f"refs/tags/v1 {OID} refs/tags/v1 {ZEROS}"], {}, False),
        ([f"(delete) {ZEROS} refs/heads/main {OID}"], {}, False),
        ([f"refs/heads/main {OID} refs/memory-ci/x {ZEROS}"], {}, False),
        (["nonsense", ""], {}, False),
        ([], {}, False),
        ([], {"PRE_COMMIT_REMOTE_BRANCH": "refs/heads/main"}, True),
        ([], {"PRE_COMMIT_REMOTE_BRANCH": "refs/tags/v1"}, False),
    ],
)
def test_only_pushes_of_commits_to_branches_count(
    updates: list[str], environment: dict[str, str], expected: bool
) -> None:
    assert is_branch_pushed([f"{update}\n".encode() for update in updates], environment) is expected


def test_zero_disables_the_nudge(shop: Project) -> None:
    shop.write(".memory-ci.yaml", "nudge:\n  after: 0\n")
    commit_work(shop, 3)
    assert find_nudge(shop.workspace) == ""


# -- once a session


def test_each_session_is_nudged_once(shop: Project) -> None:
    commit_work(shop, 3)
    lines = [
        nudge_once(shop.workspace, session, TODAY)
        for session in ("one", "one", "two", "one", "two")
    ]
    assert lines == [LINE, "", LINE, "", ""]


def test_without_a_session_a_clone_is_nudged_once_a_day(shop: Project) -> None:
    commit_work(shop, 3)
    assert [nudge_once(shop.workspace, None, TODAY) for _ in range(2)] == [LINE, ""]
    commit_work(shop, 1)
    shop.git("worktree", "add", "-q", "../other")
    assert nudge_once(open_workspace(shop.path.parent / "other"), None, TODAY) == ""
    assert nudge_once(shop.workspace, None, TODAY + timedelta(days=1)) == LINE


def test_an_agents_hook_checks_once_a_session_and_a_later_push_still_nudges(
    shop: Project,
) -> None:
    commit_work(shop, 2)
    assert nudge_agent(shop.workspace, "one", TODAY) == ""
    commit_work(shop, 1)
    assert (
        nudge_agent(shop.workspace, "one", TODAY),
        nudge_once(shop.workspace, "one", TODAY),
    ) == ("", LINE)
    assert (nudge_agent(shop.workspace, None, TODAY), nudge_agent(shop.workspace, None, TODAY)) == (
        LINE,
        "",
    )


def test_the_mark_changes_no_status_and_contains_nothing_of_the_session(shop: Project) -> None:
    commit_work(shop, 3)
    nudge_once(shop.workspace, "one\n\x1b[31m", TODAY)
    assert shop.status() == ""
    assert (shop.path / ".git/memory-ci/nudged").read_text().strip().isalnum()


def test_the_session_is_recognised_by_the_agents_variables() -> None:
    assert find_session_id({"CLAUDE_CODE_SESSION_ID": "79e9becd-1"}) == "79e9becd-1"
    assert find_session_id({}) is None


# -- never in the way


@pytest.mark.skipif(
    os.name == "nt", reason="a directory that cannot be written is made with POSIX rights"
)
def test_no_nudge_if_the_mark_cannot_be_written(shop: Project) -> None:
    commit_work(shop, 3)
    (shop.path / ".git/memory-ci").mkdir(exist_ok=True)
    (shop.path / ".git/memory-ci/nudged").mkdir()
    assert nudge_once(shop.workspace, "one", TODAY) == ""


def test_no_nudge_on_an_unborn_branch(tmp_path: Path) -> None:
    project = Project(make_repo(tmp_path / "new").path)
    project.write("MEMORY.md", "# Memory\n")
    assert nudge_once(project.workspace, "one", TODAY) == ""


def test_no_nudge_in_a_shallow_clone(shop: Project, tmp_path: Path) -> None:
    commit_work(shop, 3)
    shop.git("clone", "-q", "--depth=4", f"file://{shop.path}", str(tmp_path / "shallow"))
    assert nudge_once(Project(tmp_path / "shallow").workspace, "one", TODAY) == ""


def test_no_nudge_without_memory(tmp_path: Path) -> None:
    project = Project(make_repo(tmp_path / "new").path)
    commit_work(project, 70)
    assert nudge_once(project.workspace, "one", TODAY) == ""


def test_a_jobs_page_shows_the_nudge_by_the_configuration_of_the_branch(tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    project.at(datetime(2026, 11, 10, tzinfo=UTC))
    project.commit(
        "Configure", {".memory-ci.yaml": "nudge:\n  after: 3\n", "MEMORY.md": "# Memory\n"}
    )
    commit_work(project, 3)
    assert list_health_remarks(project.workspace, "refs/heads/main", TODAY)[-1] == LINE
