"""Tests of `memory-ci record --push` as a job runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_record_pushes_and_says_where_it_went(project: Project, run: Run, tmp_path: Path) -> None:
    bare = project.bare(tmp_path / "shop.git")
    project.git("remote", "add", "origin", str(bare.path))
    result = run("record", "--push", "push")
    assert result.exit_code == 0
    assert (
        f"Published by push for main, now at {bare.sha('main')[:10]}:\n  memory: extract 2 learnings"
        in result.stdout
    )
    again = json.loads(run("record", "--push", "auto", "--json").stdout)
    assert again["applied"]["subjects"] == []
    assert again["published"]["mode"] == "push"
    assert again["published"]["tip"] == bare.sha("main")


def test_the_mode_of_the_configuration_holds_if_none_is_asked_for(
    project: Project, run: Run, tmp_path: Path
) -> None:
    project.commit("Propose", {".memory-ci.yaml": "publish:\n  mode: pr\n  branch: bot/memory\n"})
    bare = project.bare(tmp_path / "shop.git")
    project.git("remote", "add", "origin", str(bare.path))
    result = run("record")
    assert "Published by pr for main" in result.stdout
    assert "open its pull request by hand" in result.stdout
    assert (
        bare.git("log", "-1", "--format=%s", "bot/memory")
        == "memory: extract 2 learnings from #128"
    )
    assert run("record", "--push", "none").exit_code == 0
    assert project.git("log", "-1", "--format=%s") == "memory: extract 2 learnings from #128"


def test_push_does_not_go_with_dry_run(project: Project, run: Run) -> None:
    result = run("record", "--push", "auto", "--dry-run")
    assert result.exit_code == 2
    assert "--push does not go with --dry-run" in result.stderr


def test_without_a_remote_nothing_is_recorded(project: Project, run: Run) -> None:
    before = project.sha()
    result = run("record", "--push", "push")
    assert result.exit_code == 4
    assert "[no-remote]" in result.stderr
    assert project.sha() == before
