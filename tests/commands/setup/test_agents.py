"""Tests of agents' hooks: added to the settings as the user wrote them, and removed to the byte."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.agents.text import render_note_request
from memory_ci.commands.setup.clients import AGENTS, Agent
from memory_ci.commands.setup.install import install, uninstall
from memory_ci.commands.setup.json_settings import EMPTY_OBJECT, insert, remove
from memory_ci.sources.agent_events import AGENT_NAMES as COMMAND_LINE
from tests.commands.setup.agent_settings import (
    EVENTS,
    EVERY,
    FILES,
    MINE,
    NAMES,
    SETTINGS,
    WRITTEN_AS_JSON,
    groups,
    set_up,
    settings_of_others,
)
from tests.project import Project


@pytest.mark.parametrize("name", WRITTEN_AS_JSON)
@pytest.mark.parametrize("text", SETTINGS)
def test_settings_get_a_hook_for_each_event_and_are_byte_for_byte_as_before_without_them(
    project: Project, name: str, text: str
) -> None:
    path = project.write(FILES[name], text)
    before = json.loads(text)
    assert set_up(project, name) == "written"
    assert set_up(project, name) == "kept"
    after = json.loads(path.read_text())
    for event in EVENTS[name]:
        event_option = f" --event {event}" if name == "copilot" else ""
        assert f"hook agent --for {name}{event_option}; exit 0" in json.dumps(
            after["hooks"][event].pop()
        )
    ours = dict.fromkeys(("hooks", "mcpServers", "permissions", "tools"))
    assert after | ours == before | ours
    assert after["hooks"] == {**{event: [] for event in EVENTS[name]}, **before.get("hooks", {})}
    assert [step.result for step in uninstall(project.workspace) if step.path == str(path)] == [
        "removed"
    ]
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("number", range(13))
def test_every_file_of_every_agent_is_byte_for_byte_as_before_without_us(
    project: Project, number: int
) -> None:
    shared = number % 2 == 1
    files = {(part.shared if shared else "") or part.file for item in AGENTS for part in item.parts}
    before = {}
    for file in files:
        texts = settings_of_others().get(file.rpartition(".")[2])
        if texts is not None and (text := texts[number % len(texts)]):
            project.write(file, text)
            before[file] = text.encode()
    if shared:
        project.git("add", "-f", *before)
        project.commit("Settings of the team")
    state = project.status()
    how = {"with_hooks": False, "agents": EVERY, "is_shared": shared}
    install(project.workspace, "/an old/python", **how, asks_for_notes=False)  # type: ignore[arg-type] # as named
    install(project.workspace, sys.executable, **how, is_mcp=False)  # type: ignore[arg-type] # as named
    existing_files = [project.path / file for file in files if (project.path / file).exists()]
    assert not any(re.search(r'"mcp"\s*[],]', path.read_text()) for path in existing_files)
    steps = install(project.workspace, sys.executable, **how)  # type: ignore[arg-type] # as named
    assert {step.result for step in steps if step.part == "agent"} == {"written", "kept"}
    steps = install(project.workspace, sys.executable, **how)  # type: ignore[arg-type] # as named
    assert {step.result for step in steps if step.part == "agent"} == {"kept"}
    for file in files:
        assert (sys.executable in (project.path / file).read_text()) <= (
            not shared and file != "AGENTS.md"
        ), file
    uninstall(project.workspace)
    assert {
        file: (project.path / file).read_bytes() for file in files if (project.path / file).exists()
    } == before
    assert project.status() == state
    uninstall(project.workspace)
    assert {file: (project.path / file).read_bytes() for file in before} == before


@pytest.mark.parametrize("agent", AGENTS, ids=EVERY)
def test_the_configured_server_can_be_started(project: Project, agent: Agent) -> None:
    set_up(project, agent.name)
    (part,) = [part for part in agent.parts if part.name == "mcp"]
    text = (project.path / part.file).read_text()
    results = tomllib.loads(text) if part.form == "block" else json.loads(text)
    (server,) = [
        results[key]["memory-ci"]
        for key in ("mcpServers", "servers", "mcp", "mcp_servers")
        if key in results
    ]
    command = (
        server["command"]
        if isinstance(server["command"], list)
        else [server["command"], *server["args"]]
    )
    assert command[:5] == [sys.executable, "-P", "-m", "memory_ci", "mcp"]
    assert command[5:] in ([], ["--repo", "${workspaceFolder}"])


def test_a_server_and_a_permission_of_its_owner_stay(project: Project) -> None:
    mine = {"mcpServers": {"memory-ci": {"command": "mine"}}}
    for file in (".mcp.json", ".gemini/settings.json"):
        project.write(file, json.dumps(mine))
    toml = project.write(".codex/config.toml", '[mcp_servers.memory-ci]\ncommand = "mine"\n')
    install(project.workspace, sys.executable, with_hooks=False, agents=NAMES)
    for file in (".mcp.json", ".gemini/settings.json"):
        assert json.loads((project.path / file).read_text())["mcpServers"] == mine["mcpServers"]
    assert toml.read_text() == '[mcp_servers.memory-ci]\ncommand = "mine"\n'


def test_the_command_that_agents_are_asked_to_run_is_allowed_and_nothing_else(
    project: Project,
) -> None:
    install(project.workspace, sys.executable, with_hooks=False, agents=NAMES)
    settings = {
        name: json.loads((project.path / name).read_text())
        for name in (FILES["claude-code"], "opencode.json")
    }
    assert settings[FILES["claude-code"]]["permissions"] == {"allow": ["Bash(memory-ci add:*)"]}
    assert settings["opencode.json"]["permission"] == {"bash": {"memory-ci add *": "allow"}}
    gemini = json.loads((project.path / FILES["gemini"]).read_text())
    assert gemini["tools"] == {"allowed": ["run_shell_command(memory-ci add)"]}
    assert (
        'pattern = ["memory-ci", "add"], decision = "allow"'
        in (project.path / ".codex/rules/memory-ci.rules").read_text()
    )
    assert "memory-ci add " in render_note_request(True)


def test_settings_that_the_team_committed_are_not_this_clones_to_take_out(project: Project) -> None:
    install(project.workspace, sys.executable, with_hooks=False, agents=NAMES, is_shared=True)
    project.git("add", "-A")
    project.commit("Hooks for the team")
    (project.path / ".git/memory-ci/made").unlink()  # as in another clone
    uninstall(project.workspace)
    assert project.status().split() == ["D", ".gitattributes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_was_not_there_is_gone_again(project: Project, name: str) -> None:
    path = project.path / FILES[name]
    assert set_up(project, name, dry_run=True) == "written"
    assert not path.exists()
    set_up(project, name)
    assert f"hook agent --for {name}" in path.read_text() or "spawnSync" in path.read_text()
    assert set_up(project, name) == "kept"
    uninstall(project.workspace)
    assert not (project.path / Path(FILES[name]).parts[0]).exists()
    assert project.status() == ""


def test_shared_settings_are_committed_and_have_no_local_path(
    project: Project,
) -> None:
    install(project.workspace, sys.executable, with_hooks=False, agents=NAMES, is_shared=True)
    assert not (project.path / FILES["claude-code"]).exists()
    for name in (
        ".claude/settings.json",
        *(FILES[name] for name in NAMES if name != "claude-code"),
    ):
        assert sys.executable not in (project.path / name).read_text(), name
        assert name.partition("/")[0] in project.status()
    uninstall(project.workspace)
    assert project.status() == ""


def test_who_reads_no_memory_captures_alone(project: Project) -> None:
    install(
        project.workspace, sys.executable, with_hooks=False, agents=["codex"], serves_memory=False
    )
    assert list(json.loads((project.path / FILES["codex"]).read_text())["hooks"]) == ["Stop"]
    set_up(project, "codex")
    assert list(json.loads((project.path / FILES["codex"]).read_text())["hooks"]) == EVENTS["codex"]


@pytest.mark.parametrize("name", NAMES)
def test_who_is_asked_nothing_has_no_hook_for_it_and_says_so_in_the_others(
    project: Project, name: str
) -> None:
    install(
        project.workspace, sys.executable, with_hooks=False, agents=[name], asks_for_notes=False
    )
    text = (project.path / FILES[name]).read_text()
    assert "--no-ask" in text
    if name in WRITTEN_AS_JSON:
        assert text.count("--no-ask") == text.count("hook agent") == len(json.loads(text)["hooks"])
        assert not {"AfterAgent", "agentStop"} & json.loads(text)["hooks"].keys()
    set_up(project, name)
    assert "--no-ask" not in (project.path / FILES[name]).read_text()
    uninstall(project.workspace)
    assert not (project.path / FILES[name]).exists()


def test_hooks_of_the_first_version_are_replaced_and_taken_out(project: Project) -> None:
    path = project.path / FILES["gemini"]
    old = (
        "command -v memory-ci >/dev/null 2>&1 && memory-ci capture - --hook --agent gemini; exit 0"
    )
    entry = {"hooks": [{"type": "command", "command": old, "timeout": 60_000}]}
    project.write(FILES["gemini"], insert('{"a": 1}', ("hooks", "SessionEnd"), entry))
    set_up(project, "gemini")
    assert "capture - --hook" not in path.read_text()
    uninstall(project.workspace)
    assert path.read_text() == '{"a": 1}'


@pytest.mark.parametrize(("name", "number"), [("codex", 1), ("opencode", 0)])
def test_a_whole_file_of_version_0_2_is_replaced_and_taken_out(
    project: Project, name: str, number: int
) -> None:
    part = next(agent for agent in AGENTS if agent.name == name).parts[number]
    former_text = str(part.content).replace("memory-ci init --clone", "memory-ci install")
    assert former_text != part.content
    path = project.write(part.file, former_text)
    set_up(project, name)
    assert "memory-ci init --clone" in path.read_text()
    path.write_text(former_text)
    uninstall(project.workspace)
    assert not path.exists()


def test_the_command_line_offers_the_agents_with_hooks() -> None:
    assert list(COMMAND_LINE) == EVERY


def test_settings_that_the_user_changed_stay(project: Project) -> None:
    path = project.write(".gemini/settings.json", '{"a": 1}')
    set_up(project, "gemini")
    settings = json.loads(path.read_text())
    settings["hooks"]["SessionEnd"].insert(0, json.loads(MINE))
    path.write_text(json.dumps(settings))
    uninstall(project.workspace)
    data = json.loads(path.read_text())
    assert data["hooks"].pop("SessionEnd") == [json.loads(MINE)]
    assert data == {
        "a": 1,
        "hooks": {key: [] for key in EVENTS["gemini"][:-1]},
        "mcpServers": {},
        "tools": {"allowed": []},
    }, "what its owner wrote in one line stays"


def test_a_hook_that_calls_another_interpreter_is_replaced(project: Project) -> None:
    path = project.path / FILES["claude-code"]
    set_up(project, "claude-code", "/old venv/python")
    assert set_up(project, "claude-code") == "written"
    (group,) = groups(path, "claude-code")
    assert "/old venv" not in path.read_text()
    assert sys.executable in group["hooks"][0]["command"]


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_a_file_that_git_tracks_holds_no_path_of_this_machine(project: Project, name: str) -> None:
    set_up(project, name)
    assert sys.executable in (project.path / FILES[name]).read_text()
    uninstall(project.workspace)
    project.commit("Share", {FILES[name]: "{}\n"})
    set_up(project, name)
    assert sys.executable not in (project.path / FILES[name]).read_text()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OURS = {"ours": True}


@given(
    st.dictionaries(st.sampled_from(["a", "b"]), JSON, max_size=2),
    st.dictionaries(st.sampled_from(["x", "y"]), st.lists(JSON, max_size=2), max_size=2),
    st.sampled_from([None, 1, 2, "\t"]),
)
def test_taking_out_undoes_putting_in(
    rest: dict[str, Any], hooks: dict[str, Any], indent: int | str | None
) -> None:
    for whole in (rest, {**rest, "h": hooks}, {"h": hooks, **rest}):
        text = json.dumps(whole, indent=indent)
        longer = insert(text, ("h", "x"), OURS)
        assert json.loads(longer)["h"]["x"][-1] == OURS
        assert remove(longer, ("h", "x"), lambda value: bool(value == OURS)) == text


def test_a_hook_of_its_owner_that_calls_capture_too_stays(project: Project) -> None:
    path = project.path / FILES["codex"]
    set_up(project, "codex")
    settings = json.loads(path.read_text())
    (ours,) = settings["hooks"]["Stop"]
    mine = {"hooks": [{**ours["hooks"][0], "command": "notify; " + ours["hooks"][0]["command"]}]}
    settings["hooks"]["Stop"] += [mine, {**ours, "matcher": "x"}]
    path.write_text(json.dumps(settings))
    assert set_up(project, "codex") == "kept"
    uninstall(project.workspace)
    assert groups(path, "codex") == [mine, {**ours, "matcher": "x"}]


def test_settings_from_before_are_not_removed(project: Project) -> None:
    mine = project.write(FILES["gemini"], EMPTY_OBJECT)
    (project.path / ".codex").mkdir()
    for name in ("gemini", "codex"):
        set_up(project, name)
    uninstall(project.workspace)
    assert mine.read_text() == EMPTY_OBJECT
    assert list((project.path / ".codex").iterdir()) == []


def test_a_block_of_five_lines_is_kept_up_to_date_in_agents_md(project: Project) -> None:
    path = project.write("AGENTS.md", "# Ours\n\nUse make.\n")

    def write(**how: bool) -> str:
        install(project.workspace, sys.executable, with_hooks=False, agents=["agents-md"], **how)
        return path.read_text().removeprefix("# Ours\n\nUse make.\n\n")

    assert "--quote" not in write(asks_for_notes=False)
    assert len(write().splitlines()) == 5
    path.write_text(
        path.read_text().replace("Before work", "Before old work") + "\nMore of ours.\n"
    )
    text = write()
    assert (text.count("Before work"), text.count("memory-ci install: begin")) == (1, 1)
    assert text.endswith("<!-- memory-ci install: end -->\n\nMore of ours.\n")
    assert "AGENTS.md" in project.status()  # not excluded: it is for all
    uninstall(project.workspace)
    assert path.read_text() == "# Ours\n\nUse make.\n\nMore of ours.\n"
