"""Tests of `memory-ci health` as a user calls it, and of health in other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def recorded(project: Project) -> Project:
    project.record()
    return project


def test_a_new_repository_has_nothing_to_measure(project: Project, run: Run) -> None:
    result = run("health")
    assert result.exit_code == 0
    assert result.stdout.startswith("Health of memory: there is nothing to measure\n")


def test_each_metric_has_a_line_and_each_weak_one_advice(recorded: Project, run: Run) -> None:
    lines = run("health").stdout.splitlines()
    assert [line.split()[0] for line in lines[3:9]] == [
        "truth", "recency", "coverage", "coherence", "efficiency", "reachability"
    ]  # fmt: skip
    assert lines[5].startswith("coverage                   n/a of 75  nothing was merged")
    assert " of 6 metrics reach their targets, " in lines[0]
    assert "of 100" not in lines[0]
    assert lines[10].startswith(
        "recency: Retire what no longer holds: `memory-ci upkeep retire --stale`"
    )


def test_json_holds_the_score_the_band_and_every_metric(recorded: Project, run: Run) -> None:
    health = json.loads(run("health", "--json").stdout)
    assert (health["profile"], health["commit"], health["is_partial"]) == ("git", None, True)
    assert [metric["weight"] for metric in health["metrics"]] == [15, 10, 25, 20, 15, 15]
    assert health["score"] is None
    assert any(metric["value"] is not None for metric in health["metrics"])


def test_a_revision_and_a_day_are_measured_as_they_were(recorded: Project, run: Run) -> None:
    by_name = json.loads(run("health", "--json", "--at", "HEAD").stdout)
    by_day = json.loads(run("health", "--json", "--at", "2026-01-05").stdout)
    assert by_name["today"] == "2026-11-21"
    assert (by_day["commit"], by_day["today"], by_day["score"]) == (
        recorded.sha(":/Merge pull"),
        "2026-01-05",
        None,
    )


def test_history_is_one_line_a_month(recorded: Project, run: Run) -> None:
    lines = run("health", "--history").stdout.splitlines()
    assert [line[:10] for line in lines[:2]] == ["2026-11-21", "2026-10-31"]
    assert len(json.loads(run("health", "--history", "--json").stdout)) == len(lines)


def test_one_moment_and_many_exclude_each_other(project: Project, run: Run) -> None:
    assert run("health", "--at", "HEAD", "--history").exit_code == 2


def test_an_unknown_revision_is_an_error_of_the_repository(project: Project, run: Run) -> None:
    result = run("health", "--at", "nowhere")
    assert (result.exit_code, "[unknown-revision]" in result.stderr) == (4, True)


def test_the_page_of_a_record_run_has_a_line_of_health(
    project: Project, run: Run, tmp_path: Path
) -> None:
    run("record", "--summary", str(tmp_path / "page.md"))
    page = (tmp_path / "page.md").read_text()
    assert page.count("\n- Health\\: ") == 1
    assert "with too few facts" in page


def test_the_page_of_a_ci_job_has_it_too(project: Project, run: Run, tmp_path: Path) -> None:
    assert run("ci", "--provider", "none", "--summary", str(tmp_path / "page.md")).exit_code == 0
    assert "\n- Health\\: " in (tmp_path / "page.md").read_text()
