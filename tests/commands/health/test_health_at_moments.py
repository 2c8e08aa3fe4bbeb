"""Tests of health on one day, over months, and on the page of the report."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memory_ci.commands.health.health import (
    find_branch_health,
    list_health_remarks,
    measure_history,
)
from memory_ci.store.edits import format_entry
from tests.commands.health.measured_projects import measure, metric, rewrite, spoil
from tests.make import make_entry
from tests.project import TODAY, Project, copy_project
from tests.repos import make_repo


@pytest.fixture
def project(measured_template: Project, tmp_path: Path) -> Project:
    return copy_project(measured_template, tmp_path / "shop")


def test_a_moment_is_measured_by_its_own_configuration(project: Project) -> None:
    project.commit("Configure", {".memory-ci.yaml": "prominence:\n  decay: linear\n"})
    rewrite(project, last_reinforced=date(2026, 1, 5))
    then = measure(project, at="HEAD")
    project.write(".memory-ci.yaml", "prominence:\n  decay: exp\nhealth:\n  profile: crewship\n")
    assert measure(project, at="HEAD") == then


def test_a_configuration_that_cannot_be_read_any_more_is_passed_over(project: Project) -> None:
    project.commit("Configure", {".memory-ci.yaml": "retrieve: 7\n"})
    project.write(".memory-ci.yaml", "retrieve: {max_chars: 100}\n")
    assert measure(project, at="HEAD").profile == "git"


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_health_can_be_measured_at_the_first_and_the_last_possible_day(
    project: Project, day: str
) -> None:
    assert measure(project, at=day).today.isoformat() == day


def test_the_same_commit_has_the_same_health_for_ever(project: Project) -> None:
    then = measure(project, at="HEAD")
    sha = project.sha()
    spoil(project, "coherence")
    spoil(project, "coverage")
    assert measure(project, at=sha) == then
    assert measure(project, at="HEAD") != then


def test_a_day_before_the_first_commit_has_no_memory(project: Project) -> None:
    health = measure(project, at="2020-01-01")
    assert (health.commit, health.score) == ("", None)


def test_nothing_is_written(project: Project) -> None:
    measure(project)
    assert project.status() == ""
    assert not (project.path / ".git/memory-ci/index.db").exists()


def test_history_has_a_line_a_month_as_far_as_commits_go(project: Project) -> None:
    past = measure_history(project.workspace, TODAY)
    assert [health.today.isoformat() for health in past[:3]] == [
        "2026-11-21",
        "2026-10-31",
        "2026-09-30",
    ]
    assert len(past) == 11
    assert metric(past[0], "recency").value is not None
    assert metric(past[-1], "recency").value is None


def test_history_ends_after_twelve_months(project: Project) -> None:
    assert len(measure_history(project.workspace, date(2028, 2, 29))) == 12


def test_an_unborn_branch_has_nothing_to_measure(tmp_path: Path) -> None:
    project = Project(make_repo(tmp_path / "new").path)
    assert measure(project).score is None
    project.write("MEMORY.md", format_entry(make_entry(1)))
    assert metric(measure(project), "coverage").value is None
    assert metric(measure(project), "recency").value is not None


def test_a_page_names_the_weakest_metric_and_no_score(project: Project) -> None:
    spoil(project, "coverage")
    (line,) = list_health_remarks(project.workspace, "refs/heads/main", TODAY)
    assert line.startswith("Health: ")
    assert "weakest coverage 25.0 of 75. Coverage: 1 of 4 merged changes" in line
    assert "of 100" not in line


def test_a_page_does_not_wait_for_a_memory_of_thousands(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(project.entries())
    monkeypatch.setattr("memory_ci.commands.health.health.MAX_ON_PAGE", count)
    assert find_branch_health(project.workspace, "refs/heads/main", TODAY) is not None
    monkeypatch.setattr("memory_ci.commands.health.health.MAX_ON_PAGE", count - 1)
    assert find_branch_health(project.workspace, "refs/heads/main", TODAY) is None


def test_a_page_about_a_missing_branch_has_no_health(project: Project) -> None:
    assert find_branch_health(project.workspace, "refs/heads/none", TODAY) is None
