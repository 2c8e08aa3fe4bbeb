"""Tests of `check --range`: entries whose cited code a change edits, moves or removes."""

from __future__ import annotations

import json

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_check_names_the_entries_that_a_range_touches_and_stays_green(
    run: Run, project: Project
) -> None:
    entry = make_entry(1, title="Keys are needed", cites=(f"src/client.py:1@{project.sha()[:12]}",))
    start = project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    sha = project.commit("Edit (#9)", {"src/client.py": "two\n"})
    result = run("check", "--range", f"{start}..")
    assert result.exit_code == 0
    assert result.stdout.startswith("src/client.py:1: warning: ")
    assert "[anchor-changed]" in result.stdout
    assert (
        f'changes here (edited in {sha[:7]}, #9): 00000001 "Keys are needed" at MEMORY.md:1'
        in result.stdout
    )
    document = json.loads(run("check", "--range", f"{start}..HEAD", "--json").stdout)
    assert (document["ok"], [finding["code"] for finding in document["findings"]]) == (
        True,
        ["anchor-changed"],
    )
    assert "anchor-changed" not in run("check").stdout
    assert run("check", "--range", "HEAD").exit_code == 2
