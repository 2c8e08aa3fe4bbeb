"""The nudge: when it is time for it, that it comes once a session, and that it never stands in the way."""

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
    """A project that has just changed memory, and wants to hear of it after three commits."""
    project.commit("Configure", {".memory-ci.yaml": "nudge:\n  after: 3\n"})
    project.commit("Learn", {"MEMORY.md": format_entry(make_entry(1, title="Zebra crossing"))})
    return project


def work(project: Project, count: int) -> None:
    for number in range(count):
        project.commit(f"Work {number}", {f"src/{project.clock.now:%H%M}.py": "x\n"})


def test_it_is_time_after_so_many_commits_and_no_earlier(shop: Project) -> None:
    work(shop, 2)
    assert find_nudge(shop.workspace) == ""
    work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


def test_sixty_commits_are_enough_where_nothing_is_configured(project: Project) -> None:
    project.commit("Learn", {"MEMORY.md": format_entry(make_entry(1))})
    work(project, 59)
    assert find_nudge(project.workspace) == ""
    work(project, 1)
    assert "60 or more commits" in find_nudge(project.workspace)


def test_a_change_of_memory_begins_the_count_again(shop: Project) -> None:
    work(shop, 3)
    shop.put_fragment(make_entry(2))
    assert find_nudge(shop.workspace) == ""


def test_episodes_are_neither_work_nor_a_change_of_memory(shop: Project) -> None:
    work(shop, 2)
    shop.commit("Note", {".memory/episodes/2026-11/pr-1.md": "---\n"})
    assert find_nudge(shop.workspace) == ""
    work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


def test_commits_of_a_branch_count_and_its_merge_does_not(shop: Project) -> None:
    shop.branch("topic")
    work(shop, 2)
    shop.merge_back("topic")
    assert find_nudge(shop.workspace) == ""


def branch_with_memory(shop: Project, at: datetime) -> None:
    """A branch whose only commit changes memory; main is checked out again."""
    now = shop.clock.now
    shop.branch("topic")
    shop.at(at)
    shop.put_fragment(make_entry(3))
    shop.at(now).checkout("main")


@pytest.mark.parametrize("year", [2025, 2026, 2040])
def test_memory_that_a_branch_changed_long_ago_changes_when_it_is_merged(
    shop: Project, year: int
) -> None:
    branch_with_memory(shop, datetime(year, 1, 5, 9, 30, tzinfo=UTC))
    work(shop, 4)
    shop.merge("topic")
    assert find_nudge(shop.workspace) == ""
    work(shop, 2)
    assert find_nudge(shop.workspace) == ""
    work(shop, 1)
    assert find_nudge(shop.workspace) == LINE


def test_work_of_a_merged_branch_counts_from_the_last_change_of_memory_on(shop: Project) -> None:
    shop.branch("topic")
    work(shop, 3)
    shop.checkout("main")
    shop.put_fragment(make_entry(3))
    assert find_nudge(shop.workspace) == ""
    shop.merge("topic")
    assert find_nudge(shop.workspace) == LINE


def test_a_merge_that_changes_memory_itself_begins_the_count_again(shop: Project) -> None:
    shop.branch("topic")
    work(shop, 4)
    shop.checkout("main")
    shop.git("merge", "-q", "--no-ff", "--no-commit", "topic")
    shop.commit("Merge, and note", {"MEMORY.md": format_entry(make_entry(4, title="Okapi"))})
    assert find_nudge(shop.workspace) == ""


def test_a_tip_from_the_future_is_counted_like_any_other(shop: Project) -> None:
    now = shop.clock.now
    shop.at(datetime(2040, 1, 1, tzinfo=UTC))
    shop.put_fragment(make_entry(3))
    shop.at(now)
    work(shop, 2)
    assert find_nudge(shop.workspace) == ""
    work(shop, 1)
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
def test_only_a_push_of_commits_to_a_branch_is_one(
    updates: list[str], environment: dict[str, str], expected: bool
) -> None:
    assert is_branch_pushed([f"{update}\n".encode() for update in updates], environment) is expected


def test_zero_is_never(shop: Project) -> None:
    shop.write(".memory-ci.yaml", "nudge:\n  after: 0\n")
    work(shop, 3)
    assert find_nudge(shop.workspace) == ""


# -- once a session


def test_a_session_is_told_once_and_another_one_again(shop: Project) -> None:
    work(shop, 3)
    told = [
        nudge_once(shop.workspace, session, TODAY)
        for session in ("one", "one", "two", "one", "two")
    ]
    assert told == [LINE, "", LINE, "", ""]


def test_without_a_session_a_clone_is_told_once_a_day(shop: Project) -> None:
    work(shop, 3)
    assert [nudge_once(shop.workspace, None, TODAY) for _ in range(2)] == [LINE, ""]
    work(shop, 1)
    shop.git("worktree", "add", "-q", "../other")
    assert nudge_once(open_workspace(shop.path.parent / "other"), None, TODAY) == ""
    assert nudge_once(shop.workspace, None, TODAY + timedelta(days=1)) == LINE


def test_an_agent_s_hook_asks_once_a_session_and_a_push_of_that_session_still_tells(
    shop: Project,
) -> None:
    work(shop, 2)
    assert nudge_agent(shop.workspace, "one", TODAY) == ""
    work(shop, 1)
    assert (
        nudge_agent(shop.workspace, "one", TODAY),
        nudge_once(shop.workspace, "one", TODAY),
    ) == ("", LINE)
    assert (nudge_agent(shop.workspace, None, TODAY), nudge_agent(shop.workspace, None, TODAY)) == (
        LINE,
        "",
    )


def test_the_mark_dirties_nothing_and_holds_no_word_of_a_session(shop: Project) -> None:
    work(shop, 3)
    nudge_once(shop.workspace, "one\n\x1b[31m", TODAY)
    assert shop.status() == ""
    assert (shop.path / ".git/memory-ci/nudged").read_text().strip().isalnum()


def test_the_same_session_is_known_by_its_agent_s_environment() -> None:
    assert find_session_id({"CLAUDE_CODE_SESSION_ID": "79e9becd-1"}) == "79e9becd-1"
    assert find_session_id({}) is None


# -- never in the way


@pytest.mark.skipif(
    os.name == "nt", reason="a directory that cannot be written is made with POSIX rights"
)
def test_where_the_mark_cannot_be_kept_nothing_is_said(shop: Project) -> None:
    work(shop, 3)
    (shop.path / ".git/memory-ci").mkdir(exist_ok=True)
    (shop.path / ".git/memory-ci/nudged").mkdir()
    assert nudge_once(shop.workspace, "one", TODAY) == ""


def test_an_unborn_branch_is_silent(tmp_path: Path) -> None:
    project = Project(make_repo(tmp_path / "new").path)
    project.write("MEMORY.md", "# Memory\n")
    assert nudge_once(project.workspace, "one", TODAY) == ""


def test_a_shallow_clone_is_silent(shop: Project, tmp_path: Path) -> None:
    work(shop, 3)
    shop.git("clone", "-q", "--depth=4", f"file://{shop.path}", str(tmp_path / "shallow"))
    assert nudge_once(Project(tmp_path / "shallow").workspace, "one", TODAY) == ""


def test_where_nobody_keeps_memory_it_is_silent(tmp_path: Path) -> None:
    project = Project(make_repo(tmp_path / "new").path)
    work(project, 70)
    assert nudge_once(project.workspace, "one", TODAY) == ""


def test_a_job_s_page_says_it_by_the_configuration_of_the_branch(tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    project.at(datetime(2026, 11, 10, tzinfo=UTC))
    project.commit(
        "Configure", {".memory-ci.yaml": "nudge:\n  after: 3\n", "MEMORY.md": "# Memory\n"}
    )
    work(project, 3)
    assert list_health_remarks(project.workspace, "refs/heads/main", TODAY)[-1] == LINE
