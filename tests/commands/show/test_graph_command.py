"""Tests of `memory-ci show --graph` as a user calls it."""

from __future__ import annotations

import json

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def pair(project: Project) -> Project:
    entry = make_entry(1, title="Send a key", relations=(f"supports {make_id(2)}",))
    two = make_entry(2, title="Charge once", relations=(f"contradicts {make_id(9)}",))
    project.write("MEMORY.md", "\n".join(map(format_entry, (entry, two))))
    return project


def test_a_tree_is_printed_for_the_start_of_an_id(pair: Project, run: Run) -> None:
    result = run("show", "--graph", "00000001")
    assert result.stdout == (
        "00000001 Send a key (procedural, project)\n"
        "└─ supports 1.00 → 00000002 Charge once (procedural, project)\n"
    )  # fmt: skip
    assert result.stderr.startswith("Note: Similar entries were found by words")


def test_json_has_the_nodes_and_edges_of_the_graph(pair: Project, run: Run) -> None:
    document = json.loads(run("show", "--graph", "00000001", "--json").stdout)
    assert document["center"] == make_id(1)
    assert document["edges"] == [
        {"source": make_id(1), "target": make_id(2), "kind": "supports", "weight": 1.0}
    ]
    assert [node["title"] for node in document["nodes"]] == ["Send a key", "Charge once"]


def test_an_unknown_id_is_an_error_with_a_hint(pair: Project, run: Run) -> None:
    result = run("show", "--graph", "ffff")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "[unknown-entry]" in result.stderr


def test_check_warns_of_a_relation_that_leads_nowhere_and_stays_green(
    pair: Project, run: Run
) -> None:
    result = run("check")
    assert result.exit_code == 0
    assert (
        f"warning: contradicts {make_id(9)}: no entry has this id [dangling-relation]"
        in result.stdout
    )


def test_check_of_a_range_fails_for_a_priority_that_an_agent_set(
    project: Project, run: Run
) -> None:
    start = project.commit("One", {"MEMORY.md": format_entry(make_entry(1))})
    text = format_entry(make_entry(1, priority="pin"))
    project.commit("Pin it\n\nMemory-Session: codex:4f", {"MEMORY.md": text})
    result = run("check", "--range", f"{start}..HEAD")
    assert result.exit_code == 1
    assert "MEMORY.md:1: priority pin was set by an agent in the session codex:4f" in result.stdout
    assert "[priority-by-machine]" in result.stdout
