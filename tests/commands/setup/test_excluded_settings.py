"""Tests of settings with a path of this machine, and of git's list of excluded files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memory_ci.commands.setup.install import install, uninstall
from tests.commands.setup.agent_settings import FILES, excluded
from tests.project import Project


@pytest.mark.parametrize("text", [None, "# mine\n*.swp\n", "*.swp"])
def test_git_passes_over_settings_with_a_path_of_this_machine_until_they_are_taken_out(
    project: Project, text: str | None
) -> None:
    place = project.path / ".git/info/exclude"
    place.unlink(missing_ok=True)
    if text is not None:
        project.write(".git/info/exclude", text)
    assert excluded(project) == ["written"]
    assert ".claude" not in project.status()
    assert excluded(project) == ["kept"]
    uninstall(project.workspace)
    assert (place.read_text() if place.exists() else None) == text


def test_git_passes_over_the_files_of_every_agent_that_was_installed_until_they_are_shared(
    project: Project,
) -> None:
    for name in ("codex", "cursor"):
        install(project.workspace, sys.executable, with_hooks=False, agents=[name])
    assert project.status().split() == ["??", ".gitattributes"]
    install(project.workspace, sys.executable, with_hooks=False, agents=["codex"], is_shared=True)
    assert (".codex/" in project.status(), ".cursor/" in project.status()) == (True, False)


def test_a_dry_run_excludes_nothing_and_says_that_it_would(project: Project) -> None:
    place = project.write(".git/info/exclude", "*.swp\n")
    assert excluded(project, dry_run=True) == ["written"]
    assert place.read_text() == "*.swp\n"


def test_settings_that_git_tracks_or_that_hold_no_path_are_not_excluded(project: Project) -> None:
    project.commit("Share", {FILES["claude-code"]: "{}\n"})
    assert excluded(project) == ["written"]
    assert FILES["claude-code"] not in (project.path / ".git/info/exclude").read_text()
    steps = install(
        project.workspace, sys.executable, with_hooks=False, agents=["codex"], is_shared=True
    )
    assert [step.part for step in steps] == [
        "merge-driver",
        "attributes",
        "agent",
        "agent",
        "agent",
    ]


def test_an_exclude_file_elsewhere_is_left_alone(project: Project, tmp_path: Path) -> None:
    place = project.write(".git/info/exclude", "")
    place.unlink()
    (tmp_path / "mine").write_text("*.swp\n")
    place.symlink_to(tmp_path / "mine")
    assert excluded(project) == []
    uninstall(project.workspace)
    assert (place.is_symlink(), (tmp_path / "mine").read_text()) == (True, "*.swp\n")
