"""Tests of the metrics of health: each fault of memory lowers its own metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.health.records import MetricName
from memory_ci.store.edits import format_entry
from tests.commands.health.measured_projects import (
    INJECTION,
    measure,
    metric,
    put,
    rewrite,
    serve_jobs,
    spoil,
)
from tests.make import make_entry, make_id
from tests.project import Project, copy_project, make_project

SPOILT = ["truth", "recency", "coverage", "coherence", "efficiency", "reachability"]


@pytest.fixture
def project(measured_template: Project, tmp_path: Path) -> Project:
    return copy_project(measured_template, tmp_path / "shop")


def test_unreadable_and_unsafe_places_are_named(project: Project) -> None:
    text = project.show("HEAD", "MEMORY.md")
    broken, unsafe = (
        "\n---\nid: 0f6f1f0e\ntype: [broken\n---\n# Hello\n",
        format_entry(make_entry(1, title="One", body=INJECTION)),
    )
    project.commit("Broken", {"MEMORY.md": text + broken, "institutional.md": unsafe})
    line = (text + broken).splitlines().index("type: [broken") + 1
    lost = f"2 places kept out of the index (MEMORY.md:{line}, institutional.md:1)"
    assert metric(measure(project), "coverage").basis.endswith(lost)
    assert metric(measure(project, profile="crewship"), "coverage").basis.endswith(
        lost.partition("index")[2]
    )


def test_norms_over_the_limit_are_named(project: Project) -> None:
    project.commit(
        "Norms", {"institutional.md": format_entry(make_entry(1, title="One", body="x" * 100))}
    )
    assert "norm" not in metric(measure(project), "efficiency").basis
    norms = [make_entry(n, title=f"Norm {n}", body="x" * 1500) for n in (1, 2, 3)]
    project.commit("More", {"institutional.md": "\n".join(map(format_entry, norms))})
    basis = metric(measure(project), "efficiency").basis
    assert f"; 1 norm over the 4000 characters that every job is given: {make_id(3)[:8]}" in basis


def test_a_fresh_repository_has_nothing_to_measure(tmp_path: Path) -> None:
    health = measure(make_project(tmp_path / "shop"))
    assert (health.score, health.band) == (None, None)
    assert {metric.value for metric in health.metrics} == {None}


def test_a_healthy_repository_is_green_and_whole(project: Project) -> None:
    serve_jobs(project, used=2)
    for number in (140, 141):
        project.merge_work(
            f"Retry a charge {number}", f"charge-{number}", number, f"src/{number}.py"
        )
    project.record()
    health = measure(project)
    assert (health.band, health.is_partial) == ("green", False)
    assert [metric.advice for metric in health.metrics] == [""] * 6


@pytest.mark.parametrize("way", SPOILT)
def test_one_fault_weakens_its_metric_and_no_other(project: Project, way: MetricName) -> None:
    spoil(project, way)
    weak = {
        metric.name: metric.advice
        for metric in measure(project).metrics
        if metric.value is not None and metric.value < metric.target
    }
    assert list(weak) == [way]
    assert "`" in weak[way]


def test_truth_is_the_share_of_entries_that_are_fresh_marked_withheld_and_not_compared(
    project: Project,
) -> None:
    sha = project.commit(
        "Write", {"src/pay.py": "def pay():\n    one()\n\n\ndef ship():\n    two()\n"}
    )[:12]
    rewrite(project, cites=())
    cites = {1: f"src/pay.py:1-2@{sha}", 2: f"src/pay.py:5-6@{sha}", 3: f"src/gateway.py@{sha}"}
    entries = [
        make_entry(n, title=f"gateway {n}", body=f"word{n}", cites=(cite,))
        for n, cite in cites.items()
    ]
    put(project, *entries)
    project.commit(
        "Edit",
        {
            "src/pay.py": "def pay():\n    other()\n\n\ndef ship():\n    two()\n",
            "src/gateway.py": None,
        },
    )
    truth = metric(measure(project), "truth")
    total = len(project.entries())
    shares = f"fresh {1 / total:.0%}, marked {1 / total:.0%}, withheld {1 / total:.0%}, "
    shares += f"not compared {(total - 3) / total:.0%}"
    assert (truth.value, truth.basis) == (150 / total, f"{shares} of {total} entries")
    assert set(truth.missing) == {make_id(1), make_id(3)}
    assert measure(project, profile="crewship").metrics[0].name == "freshness"


def test_several_faults_at_once_weaken_all_of_them(project: Project) -> None:
    for way in ("truth", "efficiency", "recency", "coherence", "coverage"):
        spoil(project, way)
    health = measure(project)
    weak = [
        metric.name
        for metric in health.metrics
        if metric.value is not None and metric.value < metric.target
    ]
    assert (len(weak), health.band) == (5, "red")
