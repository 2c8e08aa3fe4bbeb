"""Tests of the directory that the MCP server of a plugin serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.setup.precedence import find_served_directory
from tests.commands.setup.agent_settings import set_up
from tests.project import Project
from tests.repos import make_repo

SESSION = "9f2931d5-82c1"
ENVIRON = {"COPILOT_AGENT_SESSION_ID": SESSION}


def put_session(directory: str) -> None:
    """Write the files that Copilot CLI writes at the start of a session."""
    folder = Path.home() / ".copilot/session-state" / SESSION
    folder.mkdir(parents=True)
    text = f"id: {SESSION}\ncwd: {directory}\ngit_root: /elsewhere\n"
    (folder / "workspace.yaml").write_text(text)


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_the_directory_of_the_process_is_served(
    project: Project, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.chdir(project.path)
    assert find_served_directory(agent, {}) == project.path


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_nothing_is_served_where_no_memory_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    for directory in (tmp_path, make_repo(tmp_path / "bare").path):
        monkeypatch.chdir(directory)
        assert find_served_directory(agent, {}) is None


@pytest.mark.parametrize(("agent", "is_served"), [("claude-code", False), ("codex", True)])
def test_beside_a_server_of_the_project_only_a_second_name_is_silent(
    project: Project, monkeypatch: pytest.MonkeyPatch, agent: str, is_served: bool
) -> None:
    set_up(project, agent)
    monkeypatch.chdir(project.path)
    assert (find_served_directory(agent, {}) is not None) is is_served


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_copilot_is_served_the_directory_of_its_session(project: Project, quote: str) -> None:
    put_session(f"{quote}{project.path}{quote}")
    assert find_served_directory("copilot", ENVIRON) == project.path


@pytest.mark.parametrize(
    "environ", [{}, ENVIRON, {"COPILOT_AGENT_SESSION_ID": "../../x"}], ids=["no", "unknown", "bad"]
)
def test_copilot_is_served_nothing_in_a_session_that_is_not_known(
    project: Project, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    monkeypatch.chdir(project.path)
    assert find_served_directory("copilot", environ) is None
