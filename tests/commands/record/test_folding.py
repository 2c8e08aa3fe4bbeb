"""Tests of the folding of old months of episodes, in repositories with irregular files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.memory.episode_files import FOLD_AFTER_DAYS, find_fold_day
from memory_ci.memory.episodes import load_episodes
from memory_ci.store.episodes import MAX_FILE_BYTES
from tests.project import TODAY, Project, copy_project, make_project

MONTH = ".memory/episodes/2026-01"
ALL = f"{MONTH}/_all.md"
HUGE = b"x" * (MAX_FILE_BYTES + 1)


@pytest.fixture(scope="module")
def folded_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("told") / "shop")
    for number in (150, 151, 152):
        project.merge_work(f"Charge {number}\n\nMemory-Holdout: ab12", f"b{number}", number)
    project.record(today=project.clock.now.date())
    project.git("reset", "-q", "--hard")
    project.commit("Later", {"later.txt": "x"})
    return project


@pytest.fixture
def folded_project(folded_template: Project, tmp_path: Path) -> Project:
    """Return a project with the episodes of a month in January, each in a file."""
    return copy_project(folded_template, tmp_path / "shop")


def put_link(project: Project, path: str) -> None:
    (project.path / path).symlink_to("../../../README.md")
    project.git("add", ".memory")
    project.commit("Link")


def paths(project: Project) -> list[str]:
    return project.git("ls-files", ".memory/episodes/2*").splitlines()


def ids(project: Project) -> list[str]:
    return sorted(episode.id for episode in load_episodes(project.workspace, "HEAD").records)


def test_an_old_month_is_folded_and_nothing_is_left_to_fold(folded_project: Project) -> None:
    before = ids(folded_project)
    plan = folded_project.plan()
    assert plan.fold_before is not None
    folded_project.record()
    folded_project.git("reset", "-q", "--hard")
    assert paths(folded_project) == [ALL]
    assert {*before} < {*ids(folded_project)}
    assert find_fold_day(folded_project.workspace.at("HEAD"), (), TODAY) is None


def test_an_unreadable_file_stays_and_the_rest_of_its_month_is_folded(
    folded_project: Project,
) -> None:
    folded_project.commit("Huge", {f"{MONTH}/huge.md": HUGE, f"{MONTH}/dir.md/x.txt": "x"})
    put_link(folded_project, f"{MONTH}/link.md")
    folded_project.record()
    folded_project.git("reset", "-q", "--hard")
    assert paths(folded_project) == [
        ALL,
        f"{MONTH}/dir.md/x.txt",
        f"{MONTH}/huge.md",
        f"{MONTH}/link.md",
    ]
    assert "pr-150" in ids(folded_project)


@pytest.mark.parametrize("kind", ["huge", "link", "directory"])
def test_where_the_file_of_the_month_is_in_the_way_nothing_of_it_is_folded_or_lost(
    folded_project: Project, kind: str
) -> None:
    if kind == "link":
        put_link(folded_project, ALL)
    else:
        folded_project.commit("In the way", {ALL if kind == "huge" else f"{ALL}/x.txt": HUGE})
    before = paths(folded_project)
    plan = folded_project.plan()
    assert plan.fold_before is None
    folded_project.record()
    folded_project.git("reset", "-q", "--hard")
    assert {*before} <= {*paths(folded_project)}
    assert {"pr-150", "pr-151", "pr-152"} <= {*ids(folded_project)}


def test_a_time_longer_than_the_calendar_is_never(
    folded_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.memory.episode_files.FOLD_AFTER_DAYS", 1_000_000)
    assert find_fold_day(folded_project.workspace.at("HEAD"), (), TODAY) is None


def test_a_month_is_folded_when_its_days_are_over_and_not_before(folded_project: Project) -> None:
    days = timedelta(days=FOLD_AFTER_DAYS)
    first = folded_project.clock.now.date().replace(month=2, day=1)
    assert find_fold_day(folded_project.workspace.at("HEAD"), (), first + days) == first
    assert (
        find_fold_day(folded_project.workspace.at("HEAD"), (), first + days - timedelta(days=1))
        is None
    )
