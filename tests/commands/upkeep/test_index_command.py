"""`memory-ci index`: what it prints, and its exit status."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from memory_ci.memory.workspace import index_path
from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_verify_says_nothing_of_an_equal_index_and_names_what_differs(
    run: Run, project: Project
) -> None:
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
    assert run("index", "--verify", "--db", out, "--staged").exit_code == 0, "nothing is staged"
    assert run("index", "--verify", "--db", out).exit_code == 1, "the work tree is another"


def test_the_stage_has_a_key_and_bytes_of_its_own(
    run: Run, project: Project, tmp_path: Path
) -> None:
    def written(*view: str) -> str:
        run("index", "--db", str(tmp_path / "out.db"), *view)
        return hashlib.sha256((tmp_path / "out.db").read_bytes()).hexdigest()

    assert written("--staged") == written("--at", "HEAD")
    project.write("MEMORY.md", "Edited.\n")
    project.git("add", "MEMORY.md")
    assert written("--staged") == written() != written("--at", "HEAD")
    assert run("index", "--key", "--staged").stdout != run("index", "--key").stdout


def test_stats_count_the_index_as_text_and_as_json(run: Run, project: Project) -> None:
    project.record()
    shown = run("index", "--stats").stdout
    counts = json.loads(run("index", "--stats", "--json").stdout)
    assert f"{counts['entries']} " in shown.splitlines()[0]
    assert f"scopes: project {counts['scopes']['project']}" in shown
    assert "vectors: none" in shown
    assert f"schema {counts['schema']}, SQLite {counts['sqlite']}" in shown


@pytest.mark.parametrize(
    "args",
    [
        ("--key", "--verify"),
        ("--verify", "--stats"),
        ("--staged", "--at", "HEAD"),
        ("--stats", "--db", "x"),
    ],
)
def test_questions_that_exclude_each_other_are_refused(
    run: Run, project: Project, args: tuple[str, ...]
) -> None:
    assert run("index", *args).exit_code == 2
