"""Tests of `memory-ci show ID --why` as a user runs it."""

from __future__ import annotations

import json

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def zoo(project: Project) -> Project:
    project.commit("Zoo", {"MEMORY.md": format_entry(make_entry(1, title="Zebra\x1b[2J crossing"))})
    return project


def test_feedback_by_hand_is_shown(run: Run, zoo: Project) -> None:
    assert run("feedback", make_id(1), "confirmed", "--ref", "pr:1").exit_code == 0
    result = run("show", "--why", make_id(1)[:8])
    assert result.exit_code == 0
    assert "confirmed +0.200 -> 0.700" in result.stdout
    assert "pr:1" in result.stdout


def test_json_has_every_number(run: Run, zoo: Project) -> None:
    run("feedback", make_id(1), "rejected")
    data = json.loads(run("show", "--why", make_id(1), "--json").stdout)
    assert data["utility"] == pytest.approx(0.2)
    assert [name for name, _ in data["factors"]] == [
        "prominence",
        "age",
        "scope",
        "truth",
        "utility",
    ]


def test_a_title_moves_no_cursor(run: Run, zoo: Project) -> None:
    assert "\x1b" not in run("show", "--why", make_id(1)).stdout


@pytest.mark.parametrize(
    ("argv", "code"), [(["ffff"], 2), (["ffffffff"], 2), (["00000001", "--at", "nowhere"], 4)]
)
def test_an_entry_that_cannot_be_explained_has_its_exit_status(
    run: Run, zoo: Project, argv: list[str], code: int
) -> None:
    assert run("show", "--why", *argv).exit_code == code


@pytest.mark.parametrize(
    "command",
    [
        ("show", "--why"),
        ("show", "--lines"),
        ("show",),
    ],
)
def test_unreadable_files_are_reported_if_no_entry_is_found(
    run: Run, zoo: Project, command: tuple[str, ...]
) -> None:
    text = (zoo.path / "MEMORY.md").read_text()
    zoo.write("MEMORY.md", text.replace("last_reinforced:", "status: novel\nlast_reinforced:"))
    output = run(*command, make_id(1)).stderr
    assert "[unknown-entry]" in output
    (warning,) = run("list").stderr.splitlines()
    assert warning.startswith("Warning: MEMORY.md:")
    assert warning in output.splitlines()
