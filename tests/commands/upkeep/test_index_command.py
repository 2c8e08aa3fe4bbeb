"""Tests of `memory-ci index`: its output and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.memory.workspace import index_path
from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_verify_prints_only_the_differences_of_an_index(run: Run, project: Project) -> None:
    run("index")
    equal = run("index", "--verify")
    assert (equal.exit_code, equal.stdout) == (0, "")
    project.write("MEMORY.md", "Edited.\n")
    behind = run("index", "--verify")
    assert (behind.exit_code, behind.stdout[:12], "[index-differs]" in behind.stdout) == (
        1,
        "MEMORY.md:1:",
        True,
    )
    listed = run("index", "--verify", "--json")
    assert (listed.exit_code, json.loads(listed.stdout)[0]["path"]) == (1, "MEMORY.md")


def test_verify_of_a_truncated_index_is_a_finding_and_changes_nothing(
    run: Run, project: Project
) -> None:
    run("index")
    path = index_path(project.workspace)
    path.write_bytes(path.read_bytes()[:5000])
    assert run("index", "--verify").exit_code == 1
    assert path.stat().st_size == 5000
    assert run("index").stdout.startswith("rebuilt")
    assert run("index", "--verify").exit_code == 0


def test_a_file_that_was_written_is_proved_for_its_view(
    run: Run, project: Project, tmp_path: Path
) -> None:
    out = str(tmp_path / "out.db")
    project.write("MEMORY.md", "Edited.\n")
    run("index", "--db", out, "--at", "HEAD")
    assert run("index", "--verify", "--db", out, "--at", "HEAD").exit_code == 0
    assert run("index", "--verify", "--db", out).exit_code == 1, "the work tree is another"


@pytest.mark.parametrize(
    "args",
    [
        ("--key", "--verify"),
        ("--vectors", "--db", "x"),
    ],
)
def test_questions_that_exclude_each_other_are_refused(
    run: Run, project: Project, args: tuple[str, ...]
) -> None:
    assert run("index", *args).exit_code == 2


def test_a_built_index_is_named_in_one_line_relative_to_the_work_tree(
    run: Run, project: Project
) -> None:
    (line,) = run("index").stdout.splitlines()
    assert line.endswith("read; .git/memory-ci/index.db")
