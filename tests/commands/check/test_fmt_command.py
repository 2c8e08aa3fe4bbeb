"""Tests of `memory-ci check --fix` as a user runs it."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Run
from tests.make import format_all_keys, make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_check_names_the_files_changes_nothing_and_fails(project: Project, run: Run) -> None:
    text = format_all_keys(make_entry(1)).replace("importance: 0.5", "importance: .5")
    project.write("src/MEMORY.md", text)
    checked = run("check", "--fix", "--dry-run")
    assert (checked.exit_code, checked.stdout) == (1, "would format src/MEMORY.md\n")
    assert (project.path / "src/MEMORY.md").read_text() == text
    assert run("check", "--fix").stdout == "formatted src/MEMORY.md\n"
    assert run("check", "--fix", "--dry-run").exit_code == 0
    assert json.loads(run("check", "--fix", "--json").stdout)["formatted"] == []


def test_with_paths_only_these_files_are_formatted(project: Project, run: Run) -> None:
    text = format_all_keys(make_entry(1)).replace("importance: 0.5", "importance: .5")
    other_text = format_all_keys(make_entry(2)).replace("importance: 0.5", "importance: .5")
    project.write("src/MEMORY.md", text)
    project.write("MEMORY.md", other_text)
    fixed = json.loads(run("check", "--fix", "src/MEMORY.md", "--json").stdout)
    assert fixed["formatted"] == ["src/MEMORY.md"]
    assert (project.path / "MEMORY.md").read_text() == other_text
