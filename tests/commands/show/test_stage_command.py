"""Tests of `memory-ci health --stage` as a user runs it."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_stage_names_the_stage_its_start_and_its_source(project: Project, run: Run) -> None:
    sha = project.commit("Start building", {"INTENT.md": "# Intent\n\nStage: build\n"})
    assert (
        run("health", "--stage").stdout
        == f"INTENT.md:3: implementation since {sha[:7]} (2026-01-05)\n"
    )
    assert json.loads(run("health", "--stage", "--json").stdout) == [
        {
            "project": "",
            "path": "INTENT.md",
            "line": 3,
            "stage": "implementation",
            "since": sha,
            "is_clear": True,
        }
    ]


def test_stage_reports_an_unclear_or_missing_stage(project: Project, run: Run) -> None:
    assert "no INTENT.md" in run("health", "--stage").stderr
    sha = project.commit("Start building", {"INTENT.md": "Stage: build\n"})
    project.commit("Muddle", {"INTENT.md": "Stage: build or test\n"})
    assert run("health", "--stage").stdout == (
        f"INTENT.md: states no stage clearly; implementation since {sha[:7]} (2026-01-05), the last that it did\n"
    )
    assert run("health", "--stage", "--at", "HEAD~1").stdout.startswith(
        "INTENT.md:1: implementation"
    )
