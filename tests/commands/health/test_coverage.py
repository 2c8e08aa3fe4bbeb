"""Tests of coverage: the share of merged changes that were read."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memory_ci.commands.health.health import measure_health
from memory_ci.memory.episodes import save_episode_record
from tests.commands.health.measured_projects import (
    INJECTION,
    make_episode,
    measure,
    metric,
    put,
    spoil,
    value,
)
from tests.make import make_entry
from tests.project import Project, copy_project


@pytest.fixture
def project(measured_template: Project, tmp_path: Path) -> Project:
    return copy_project(measured_template, tmp_path / "shop")


def test_coverage_leaves_out_changes_of_memory_alone_of_bots_and_of_runs(project: Project) -> None:
    before = metric(measure(project), "coverage").basis
    put(project, make_entry(1, title="Zebra crossing"))
    project.commit("Bump zebra", {"zebra.lock": "1"}, author="dependabot[bot] <bot@example.com>")
    project.commit("Fold\n\nMemory-CI-Step: fold", {"src/own.py": "1"})
    assert metric(measure(project), "coverage").basis == before


def test_a_change_with_an_episode_counts_as_judged(project: Project) -> None:
    spoil(project, "coverage")
    before = value(project, "coverage")
    for number in range(140, 143):
        save_episode_record(project.workspace, make_episode(f"pr-{number}"))
    assert before is not None
    assert before < 50
    assert value(project, "coverage") == 100


def test_an_unsafe_entry_counts_against_coverage(project: Project) -> None:
    put(
        project,
        make_entry(1, title="Push", body=INJECTION),
        make_entry(2, title="Pull", body=INJECTION),
    )
    health = metric(measure(project), "coverage")
    assert health.value == 50
    assert "memory-ci check" in health.advice


def test_an_entry_that_cannot_be_read_counts_against_coverage(project: Project) -> None:
    project.commit("Break", {"web/MEMORY.md": "---\nid: 1\ntype: oops\n---\n## Broken\n"})
    assert (value(project, "coverage") or 100) < 100


def test_coverage_and_efficiency_have_no_value_without_recent_changes(project: Project) -> None:
    health = measure_health(project.workspace, date(2027, 8, 1))
    assert metric(health, "coverage").value is None
    assert metric(health, "efficiency").value is None
    assert health.is_partial


def test_a_topic_branch_is_measured_by_merged_changes(project: Project) -> None:
    before = metric(measure(project), "coverage").basis
    project.branch("topic")
    project.commit("Half done", {"src/half.py": "1"})
    assert metric(measure(project), "coverage").basis == before


def test_a_shallow_clone_names_the_metrics_it_cannot_measure(
    project: Project, tmp_path: Path
) -> None:
    project.git("clone", "-q", "--depth=1", f"file://{project.path}", str(tmp_path / "shallow"))
    health = measure(Project(tmp_path / "shallow"))
    assert "shallow" in metric(health, "coverage").basis
    assert (metric(health, "coverage").value, metric(health, "recency").value is None) == (
        None,
        False,
    )
