"""The hooks of agents: put into settings as their owner wrote them, and taken out again to the byte."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.agents.text import render_asking_to_mark
from memory_ci.commands.setup.agents import AgentOptions, answers_for_user
from memory_ci.commands.setup.clients import AGENTS, Agent
from memory_ci.commands.setup.install import (
    install,
    install_for_user,
    uninstall,
    uninstall_for_user,
)
from memory_ci.commands.setup.json_settings import EMPTY, insert, remove
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.sources.agent_events import AGENT_NAMES as COMMAND_LINE
from tests.project import Project
from tests.repos import make_repo

NAMES = [agent.name for agent in AGENTS if agent.events]
EVERY = [agent.name for agent in AGENTS]
WRITTEN_AS_JSON = [agent.name for agent in AGENTS if agent.events and agent.hook_format != "plugin"]
FILES = {agent.name: agent.parts[0].file for agent in AGENTS}
EVENTS = {agent.name: [event.name for event in agent.events] for agent in AGENTS}

MINE = '{"hooks": [{"type": "command", "command": "mine"}]}'
SETTINGS = [
    "{}",
    '{"b": 1, "a": [1, 2]}',
    '{\n\t"b": 1,\n\t"a": [1,2]\n}\n',
    '{\r\n  "b": "\u00e9"\r\n}\r\n',
    '{"hooks": {}}',
    '{\n  "hooks": {"SessionEnd": [], "Stop": []},\n  "z": 0\n}',
    f'{{\n  "hooks": {{\n    "SessionEnd": [\n      {MINE}\n    ],\n    "Stop": [{MINE}, {MINE}]\n  }}\n}}\n',
]


def set_up(
    project: Project, name: str, python: str = sys.executable, *, dry_run: bool = False
) -> str:
    steps = install(project.workspace, python, with_hook=False, agents=[name], dry_run=dry_run)
    return next(step.result for step in steps if step.path == str(project.path / FILES[name]))


def groups(path: Path, name: str) -> list[dict[str, Any]]:
    """The hooks of the last event of an agent."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["hooks"][EVENTS[name][-1]]
    return found


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
        told = f" --event {event}" if name == "copilot" else ""
        assert f"hook agent --for {name}{told}; exit 0" in json.dumps(after["hooks"][event].pop())
    ours = dict.fromkeys(("hooks", "mcpServers", "permissions", "tools"))
    assert after | ours == before | ours
    assert after["hooks"] == {**{event: [] for event in EVENTS[name]}, **before.get("hooks", {})}
    assert [step.result for step in uninstall(project.workspace) if step.path == str(path)] == [
        "removed"
    ]
    assert path.read_bytes() == text.encode()


def settings_of_others() -> dict[str, list[str]]:
    """Texts with lists and servers of their owner's where ours go, in each file of JSON; and TOML."""
    odd = [
        '{"mcpServers": {"a": {"command": "x"}}, "servers": {}, "mcp": {}}',
        '{\n\t"permissions": {"allow": ["Bash(ls:*)"],\t"deny": []},\n\t"mcpServers":\t{ "a":1 }\n}',
        '{"permission": {"bash": {"*": "ask"}}, "tools": {"allowed": []}}\n\n',
        '{"permissions": {"allow": ["Bash(memory-ci add:*)", "Edit"]}, "tools": {"allowed": ["'
        'run_shell_command(memory-ci add)"]}}',
        '{"permission": "ask", "hooks": {"Stop": []}}',
        '{"permission": {"bash": "deny"}}',
    ]
    return {
        "json": [*SETTINGS, *odd],
        "toml": ["a = 1", 'a = 1\r\n[b]\r\nc = "\u00e9"\r\n', "# mine\n\n\n", "[mcp_servers.x]\n"],
        "md": ["", "# Ours\n", "# Ours", "\r\nOurs\r\n\r\n"],
    }


@pytest.mark.parametrize("number", range(13))
def test_every_file_of_every_agent_is_byte_for_byte_as_before_without_us(
    project: Project, number: int
) -> None:
    shared = number % 2 == 1
    files = {(part.shared if shared else "") or part.file for one in AGENTS for part in one.parts}
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
    how = {"with_hook": False, "agents": EVERY, "is_shared": shared}
    install(project.workspace, "/an old/python", **how, is_asking=False)  # type: ignore[arg-type] # as named
    install(project.workspace, sys.executable, **how, is_mcp=False)  # type: ignore[arg-type] # as named
    there = [project.path / file for file in files if (project.path / file).exists()]
    assert not any(re.search(r'"mcp"\s*[],]', path.read_text()) for path in there)
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
def test_the_server_is_one_that_can_be_started(project: Project, agent: Agent) -> None:
    set_up(project, agent.name)
    (part,) = [part for part in agent.parts if part.name == "mcp"]
    text = (project.path / part.file).read_text()
    found = tomllib.loads(text) if part.form == "block" else json.loads(text)
    (server,) = [
        found[key]["memory-ci"]
        for key in ("mcpServers", "servers", "mcp", "mcp_servers")
        if key in found
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
    install(project.workspace, sys.executable, with_hook=False, agents=NAMES)
    for file in (".mcp.json", ".gemini/settings.json"):
        assert json.loads((project.path / file).read_text())["mcpServers"] == mine["mcpServers"]
    assert toml.read_text() == '[mcp_servers.memory-ci]\ncommand = "mine"\n'


def test_the_command_that_agents_are_asked_to_run_is_allowed_and_nothing_else(
    project: Project,
) -> None:
    install(project.workspace, sys.executable, with_hook=False, agents=NAMES)
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
    assert "memory-ci add " in render_asking_to_mark(True)


def test_settings_that_the_team_committed_are_not_this_clones_to_take_out(project: Project) -> None:
    install(project.workspace, sys.executable, with_hook=False, agents=NAMES, is_shared=True)
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


def excluded(project: Project, *, dry_run: bool = False) -> list[str]:
    steps = install(
        project.workspace, sys.executable, with_hook=False, agents=["claude-code"], dry_run=dry_run
    )
    return [step.result for step in steps if step.part == "exclude"]


@pytest.mark.parametrize("text", [None, "# mine\n*.swp\n", "*.swp"])
def test_git_passes_over_settings_with_a_path_of_this_machine_until_they_are_taken_out(
    project: Project, text: str | None
) -> None:
    place = project.path / ".git/info/exclude"
    place.unlink(missing_ok=True)
    if text is not None:
        project.write(".git/info/exclude", text)
    assert excluded(project) == ["written"]
    assert ".claude" not in project.status()
    assert excluded(project) == ["kept"]
    uninstall(project.workspace)
    assert (place.read_text() if place.exists() else None) == text


def test_git_passes_over_the_files_of_every_agent_that_was_installed_until_they_are_shared(
    project: Project,
) -> None:
    for name in ("codex", "cursor"):
        install(project.workspace, sys.executable, with_hook=False, agents=[name])
    assert project.status().split() == ["??", ".gitattributes"]
    install(project.workspace, sys.executable, with_hook=False, agents=["codex"], is_shared=True)
    assert (".codex/" in project.status(), ".cursor/" in project.status()) == (True, False)


def test_a_dry_run_excludes_nothing_and_says_that_it_would(project: Project) -> None:
    place = project.write(".git/info/exclude", "*.swp\n")
    assert excluded(project, dry_run=True) == ["written"]
    assert place.read_text() == "*.swp\n"


def test_settings_that_git_tracks_or_that_hold_no_path_are_not_excluded(project: Project) -> None:
    project.commit("Share", {FILES["claude-code"]: "{}\n"})
    assert excluded(project) == ["written"]
    assert FILES["claude-code"] not in (project.path / ".git/info/exclude").read_text()
    steps = install(
        project.workspace, sys.executable, with_hook=False, agents=["codex"], is_shared=True
    )
    assert [step.part for step in steps] == [
        "merge-driver",
        "attributes",
        "agent",
        "agent",
        "agent",
    ]


def test_what_the_team_shares_is_the_committed_file_and_holds_no_path_of_this_machine(
    project: Project,
) -> None:
    install(project.workspace, sys.executable, with_hook=False, agents=NAMES, is_shared=True)
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
    install(project.workspace, sys.executable, with_hook=False, agents=["codex"], is_reading=False)
    assert list(json.loads((project.path / FILES["codex"]).read_text())["hooks"]) == ["Stop"]
    set_up(project, "codex")
    assert list(json.loads((project.path / FILES["codex"]).read_text())["hooks"]) == EVENTS["codex"]


@pytest.mark.parametrize("name", NAMES)
def test_who_is_asked_nothing_has_no_hook_for_it_and_says_so_in_the_others(
    project: Project, name: str
) -> None:
    install(project.workspace, sys.executable, with_hook=False, agents=[name], is_asking=False)
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


def test_a_plugin_of_its_owner_is_not_replaced(project: Project) -> None:
    path = project.write(FILES["opencode"], "export const Mine = 1\n")
    with pytest.raises(UsageError) as caught:
        set_up(project, "opencode")
    assert caught.value.slug == "agent-settings"
    uninstall(project.workspace)
    assert path.read_text() == "export const Mine = 1\n"


def test_the_agents_of_the_command_line_are_those_that_can_be_hooked_into() -> None:
    assert list(COMMAND_LINE) == EVERY


def test_an_exclude_file_elsewhere_is_left_alone(project: Project, tmp_path: Path) -> None:
    place = project.write(".git/info/exclude", "")
    place.unlink()
    (tmp_path / "mine").write_text("*.swp\n")
    place.symlink_to(tmp_path / "mine")
    assert excluded(project) == []
    uninstall(project.workspace)
    assert (place.is_symlink(), (tmp_path / "mine").read_text()) == (True, "*.swp\n")


def test_what_its_owner_changed_meanwhile_stays(project: Project) -> None:
    path = project.write(".gemini/settings.json", '{"a": 1}')
    set_up(project, "gemini")
    settings = json.loads(path.read_text())
    settings["hooks"]["SessionEnd"].insert(0, json.loads(MINE))
    path.write_text(json.dumps(settings))
    uninstall(project.workspace)
    left = json.loads(path.read_text())
    assert left["hooks"].pop("SessionEnd") == [json.loads(MINE)]
    assert left == {
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


@pytest.mark.parametrize(
    "text", ['{"a": 1, // mine\n}', "[]", '{"hooks": []}', '{"hooks": {"SessionEnd": {}}}', "{"]
)
def test_settings_that_are_not_what_the_agent_reads_are_left_to_their_owner(
    project: Project, text: str
) -> None:
    path = project.write(FILES["gemini"], text)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "agent-settings"
    assert path.read_text() == text
    assert not (project.path / ".gitattributes").exists(), "refused before anything was written"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            '{"hooks":{"SessionEnd":"x"}}',
            "the value of `hooks.SessionEnd` must be a list",
            "Make it what the agent",
        ),
        ('{"hooks": 7}', "the value of `hooks` must be an object", "Make it what the agent"),
        ("[]", "the file must be an object", "Make it what the agent"),
        ('{"a": 1, // mine\n}', "is not the plain JSON", "Take comments out"),
    ],
)
def test_what_is_wrong_with_settings_is_named(
    project: Project, text: str, message: str, hint: str
) -> None:
    project.write(FILES["gemini"], text)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert message in caught.value.message
    assert caught.value.hint.startswith(hint)


def test_a_link_that_came_with_a_branch_leads_nobody_out(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project.path / ".claude").symlink_to(tmp_path / "outside")
    with pytest.raises(RepositoryError) as caught:
        set_up(project, "claude-code")
    assert caught.value.slug == "outside-repository"
    assert list((tmp_path / "outside").iterdir()) == []


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


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"hooks": {"SessionEnd": [{"b": 1, "b": 1}]}}', "[" * 100_000]
)
def test_settings_that_readers_understand_differently_are_left_alone(
    project: Project, text: str
) -> None:
    path = project.write(FILES["gemini"], text)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "agent-settings"
    assert path.read_text() == text


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_settings_that_are_no_file_are_refused(
    project: Project, make: Callable[[Path], None]
) -> None:
    path = project.path / FILES["gemini"]
    path.parent.mkdir()
    make(path)
    with pytest.raises(RepositoryError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "not-a-file"


def test_settings_behind_a_link_are_not_replaced_by_a_file(
    project: Project, tmp_path: Path
) -> None:
    real = tmp_path / "settings.json"
    real.write_text("{}")
    path = project.path / FILES["gemini"]
    path.parent.mkdir()
    path.symlink_to(real)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "agent-settings"
    assert "symbolic link" in caught.value.message
    assert (path.is_symlink(), real.read_text()) == (True, "{}")


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


def test_what_was_there_before_is_not_removed(project: Project) -> None:
    mine = project.write(FILES["gemini"], EMPTY)
    (project.path / ".codex").mkdir()
    for name in ("gemini", "codex"):
        set_up(project, name)
    uninstall(project.workspace)
    assert mine.read_text() == EMPTY
    assert list((project.path / ".codex").iterdir()) == []


# -- AGENTS.md


def test_a_block_of_five_lines_is_kept_up_to_date_in_agents_md(project: Project) -> None:
    path = project.write("AGENTS.md", "# Ours\n\nUse make.\n")

    def write(**how: bool) -> str:
        install(project.workspace, sys.executable, with_hook=False, agents=["agents-md"], **how)
        return path.read_text().removeprefix("# Ours\n\nUse make.\n\n")

    assert "--quote" not in write(is_asking=False)
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


# -- settings in the home

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
    there = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "made"]
    assert {str(path.relative_to(tmp_path)): path.read_bytes() for path in there} == before


def told(project: Project, **more: str) -> bytes:
    return json.dumps({"cwd": str(project.path), **more}).encode()


def test_of_a_hook_in_the_home_and_one_of_the_project_one_answers(project: Project) -> None:
    assert answers_for_user(told(project), "codex")
    set_up(project, "codex")
    assert not answers_for_user(told(project), "codex")
    assert answers_for_user(told(project), "gemini")
    set_up(project, "opencode")
    assert not answers_for_user(told(project), "opencode")


def test_a_hook_in_the_home_is_silent_where_there_is_no_memory(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "bare")
    assert not answers_for_user(json.dumps({"cwd": str(tmp_path)}).encode(), "codex")
    assert not answers_for_user(json.dumps({"cwd": str(repo.path)}).encode(), "codex")


def test_a_project_in_the_home_and_the_home_do_not_take_each_others_hooks(project: Project) -> None:
    install(project.workspace, sys.executable, with_hook=False, agents=["codex"], is_shared=True)
    install_for_user(project.path, ["codex"], AgentOptions(sys.executable, "user"))
    both = (project.path / FILES["codex"]).read_text()
    assert (both.count("memory-ci hook agent --for codex;"), both.count("--user;")) == (4, 4)
    uninstall_for_user(project.path)
    left = (project.path / FILES["codex"]).read_text()
    assert (left.count("memory-ci hook agent --for codex;"), left.count("--user;")) == (4, 0)
