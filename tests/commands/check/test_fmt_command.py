"""memory-ci fmt, as a user runs it."""

from __future__ import annotations

import json

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_check_names_the_files_changes_nothing_and_fails(project: Project, run: Run) -> None:
    text = format_entry(make_entry(1)).replace("importance: 0.5", "importance: .5")
    project.write("src/MEMORY.md", text)
    checked = run("fmt", "--check")
    assert (checked.exit_code, checked.stdout) == (1, "would format src/MEMORY.md\n")
    assert (project.path / "src/MEMORY.md").read_text() == text
    assert run("fmt", "--dry-run").exit_code == 0
    assert run("fmt").stdout == "formatted src/MEMORY.md\n"
    assert run("fmt", "--check").exit_code == 0
    assert json.loads(run("fmt", "--json").stdout) == {
        "schema_version": 1, "ok": True, "files": 3, "changed": [], "written": True
    }  # fmt: skip
