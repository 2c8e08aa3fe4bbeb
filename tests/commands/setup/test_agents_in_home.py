"""Tests of agents' hooks in the settings of the home directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from memory_ci.commands.setup.agents import AgentOptions
from memory_ci.commands.setup.clients import AGENTS
from memory_ci.commands.setup.install import install, install_for_user, uninstall_for_user
from memory_ci.commands.setup.precedence import answers_event
from tests.commands.setup.agent_settings import FILES, NAMES, set_up, settings_of_others
from tests.project import Project
from tests.repos import make_repo

USERS = sorted({part.user for agent in AGENTS for part in agent.parts if part.user})


@pytest.mark.parametrize("number", range(13))
def test_settings_in_the_home_are_byte_for_byte_as_before_without_us(
    tmp_path: Path, number: int
) -> None:
    texts = settings_of_others()["json"]
    before = {file: texts[number % len(texts)].encode() for file in USERS if file.endswith(".json")}
    for file, text in before.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(text)
    wish = AgentOptions(sys.executable, "user", is_mcp=False)
    assert "written" in {step.result for step in install_for_user(tmp_path, NAMES, wish)}
    assert {step.result for step in install_for_user(tmp_path, NAMES, wish)} == {"kept"}
    calls = [(tmp_path / file).read_text() for file in USERS]
    assert all("--user" in text for text in calls if "hook agent" in text or "spawnSync" in text)
    uninstall_for_user(tmp_path)
    existing_files = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.name != "made"
    ]
    assert {str(path.relative_to(tmp_path)): path.read_bytes() for path in existing_files} == before


def make_hook_input(project: Project, **more: str) -> bytes:
    return json.dumps({"cwd": str(project.path), **more}).encode()


def test_of_a_hook_in_the_home_and_one_of_the_project_one_answers(project: Project) -> None:
    assert answers_event(make_hook_input(project), "codex")
    set_up(project, "codex")
    assert not answers_event(make_hook_input(project), "codex")
    assert answers_event(make_hook_input(project), "gemini")
    set_up(project, "opencode")
    assert not answers_event(make_hook_input(project), "opencode")


def test_a_hook_in_the_home_is_silent_where_there_is_no_memory(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "bare")
    assert not answers_event(json.dumps({"cwd": str(tmp_path)}).encode(), "codex")
    assert not answers_event(json.dumps({"cwd": str(repo.path)}).encode(), "codex")


def test_a_project_in_the_home_and_the_home_do_not_take_each_others_hooks(project: Project) -> None:
    install(project.workspace, sys.executable, with_hooks=False, agents=["codex"], is_shared=True)
    install_for_user(project.path, ["codex"], AgentOptions(sys.executable, "user"))
    both = (project.path / FILES["codex"]).read_text()
    assert (both.count("memory-ci hook agent --for codex;"), both.count("--user;")) == (5, 5)
    uninstall_for_user(project.path)
    remaining_text = (project.path / FILES["codex"]).read_text()
    assert (
        remaining_text.count("memory-ci hook agent --for codex;"),
        remaining_text.count("--user;"),
    ) == (
        5,
        0,
    )
