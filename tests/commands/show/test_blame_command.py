"""Tests of `memory-ci show --blame`, and of the way from an entry to its lines."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project

KEYED = "def post(url, key):\n    return send(url, key)\n"


@pytest.fixture
def blamed_project(project: Project, run: Run) -> Project:
    """Return a project with two recorded entries; the next change was served both, used one, and edits the file."""
    assert run("record", "--engine", "rules").exit_code == 0
    first, second = (entry.id for entry in project.entries())
    project.branch("key")
    text = f"Memory-Retrieved: {first}, {second}\nMemory-Used: {second}"
    project.commit(f"Send the key\n\n{text}", {"src/client.py": f"retry\n{KEYED}"})
    project.merge_back("key", message="Merge pull request #140 from ada/key\n\nSend the key")
    assert run("record", "--engine", "rules").exit_code == 0
    return project


def test_each_line_names_its_change_with_served_and_learned_entries(
    blamed_project: Project, run: Run
) -> None:
    result = run("show", "--blame", "src/client.py", "--json")
    assert result.exit_code == 0, result.stderr
    taught, sent = json.loads(result.stdout)
    first, second = (entry.id for entry in blamed_project.entries())
    assert (taught["first"], taught["last"], taught["number"]) == (1, 1, 128)
    assert {item["id"] for item in taught["learned"]} == {first, second}
    assert (sent["first"], sent["last"], sent["number"], sent["learned"]) == (2, 3, 140, [])
    assert [(item["id"], item["is_used"]) for item in sent["served"]] == [
        (first, False),
        (second, True),
    ]


def test_a_range_of_lines_and_uncommitted_lines(blamed_project: Project, run: Run) -> None:
    blamed_project.write("src/client.py", f"retry\nnew\n{KEYED}")
    output = run("show", "--blame", "src/client.py:2-3").stdout
    assert "src/client.py:2  not committed" in output
    assert "src/client.py:3  " in output
    assert "#140" in output
    assert "(used)" in output
    assert "src/client.py:1" not in output


def test_an_entry_lists_the_lines_of_the_work_that_taught_it(
    blamed_project: Project, run: Run
) -> None:
    entry = blamed_project.entries()[0]
    assert run("show", "--lines", entry.id[:8]).stdout.startswith("src/client.py:1  ")
    blamed_project.commit("Rewrite", {"src/client.py": "other\n"})
    assert run("show", "--lines", entry.id[:8]).stdout.startswith("No current line of code")


@pytest.mark.parametrize("place", ["src/none.py", "src", "src/client.py:x-y"])
def test_a_path_that_is_no_file_is_refused(blamed_project: Project, run: Run, place: str) -> None:
    result = run("show", "--blame", place)
    assert result.exit_code == 2
    assert "[unknown-cite]" in result.stderr
