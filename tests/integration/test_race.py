"""Tests of concurrent record runs and people's commits in one repository: nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import IMPORTED_FROM, Project, make_project

pytestmark = pytest.mark.slow


def start(project: Project, *args: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": IMPORTED_FROM}
    command = [sys.executable, "-m", "memory_ci", *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=project.path, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def test_concurrent_runs_and_commits_lose_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    adds = [start(project, "add", f"Word{n} other{n} thing{n}") for n in range(6)]
    runs = [start(project, "record") for _ in range(3)]
    errors = [process.communicate()[1] for process in (*adds, *runs)]
    assert [process.returncode for process in adds] == [0] * 6
    assert sorted(process.returncode for process in runs)[0] == 0, "one of the runs wins"
    lost = [error for process, error in zip(runs, errors[6:], strict=True) if process.returncode]
    assert all(
        "[ref-moved]" in e or "[repository-busy]" in e or "[local-changes]" in e for e in lost
    ), lost
    project.git("add", ".memory")
    project.commit("Note what people wrote")
    project.record()
    titles = project.titles()
    assert {f"Word{n} other{n} thing{n}" for n in range(6)} <= titles
    assert len(titles) == 8
    assert project.status() == ""
    project.git("fsck", "--strict")
