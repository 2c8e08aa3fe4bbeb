"""Tests of `export`: agreed rules of conduct in AGENTS.md, for agents without hooks."""

from __future__ import annotations

import pytest

from memory_ci.memory.agents_block import MAX_ENTRIES, export_block
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

RULE = "Add a line to CHANGELOG.md"


@pytest.mark.in_project
def test_a_rule_that_people_agreed_to_is_in_the_block(project: Project, run: Run) -> None:
    rule = ("--type", "directive", "--scope", "institutional", "--when", "before:commit")
    assert run("add", RULE, *rule).exit_code == 0
    project.git("add", ".memory")
    project.commit("Agree")
    assert run("record").exit_code == 0
    assert run("export", "--to", "agents-md").exit_code == 0
    assert f"- Before you commit: {RULE}." in (project.path / "AGENTS.md").read_text()


@pytest.mark.in_project
def test_a_request_that_nobody_agreed_to_is_not_in_the_block(project: Project, run: Run) -> None:
    rule = ("--type", "directive", "--scope", "institutional", "--when", "before:commit")
    assert run("add", RULE, *rule).exit_code == 0
    assert run("export", "--to", "agents-md").exit_code == 0
    assert not (project.path / "AGENTS.md").exists()


def test_a_rule_has_its_line_whatever_else_is_used_more(project: Project) -> None:
    norm = make_entry(90, title=RULE, body="", type="directive", when="before:push")
    entries = [make_entry(n, reinforcement_count=50) for n in range(1, MAX_ENTRIES + 5)]
    memory = "\n".join(map(format_entry, entries))
    project.commit("Remember", {"MEMORY.md": memory, "institutional.md": format_entry(norm)})
    first, *_ = export_block(project.workspace, None).lines[2:]
    assert first == f"- Before you push: {RULE}. [{norm.id[:8]}]"


@pytest.mark.parametrize(
    ("when", "beginning"),
    [
        ("start", ""),
        ("before:commit", "Before you commit: "),
        ("before:push", "Before you push: "),
        ("before:pull-request", "Before you open a pull request: "),
        ("before:edit src/**", "Before you edit `src/**`: "),
        ("before:command gh pr diff --stat", "Before you run `gh pr diff --stat`: "),
        ("after:failure make test", "When `make test` fails: "),
    ],
)
def test_a_line_begins_with_its_moment(project: Project, when: str, beginning: str) -> None:
    rule = make_entry(1, title=RULE, body="", when=when)
    project.commit("Agree", {"institutional.md": format_entry(rule)})
    assert export_block(project.workspace, None).lines[2:] == (
        f"- {beginning}{RULE}. [{rule.id[:8]}]",
    )
