"""Tests of the plugin's manifests, hooks and skill: they agree with each other and with `init`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from memory_ci import __version__
from memory_ci.commands.agents.shortcut import OPTIONS
from memory_ci.commands.root import main
from memory_ci.commands.setup.clients import AGENTS, Agent
from tests.command_line import Run

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugin"
MANIFESTS = {
    "claude-code": ".claude-plugin/plugin.json",
    "codex": ".codex-plugin/plugin.json",
    "copilot": "plugin.json",
}
HOOKS = {
    "claude-code": "hooks/hooks.json",
    "codex": "hooks/codex.json",
    "copilot": "hooks/copilot.json",
}
"""The files of hooks. Claude Code finds its file by the name; other manifests contain the path."""

SKILL = PLUGIN / "skills/memory-ci/SKILL.md"
COMMAND = re.compile(r"`memory-ci ([a-z]+)([^`]*)`")


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def manifest_of(agent: str) -> dict[str, Any]:
    return read(PLUGIN / MANIFESTS[agent])


def find_agent(name: str) -> Agent:
    return next(agent for agent in AGENTS if agent.name == name)


def list_hooks(name: str) -> list[tuple[str, str, str, int]]:
    """Return the event, the tools, the command and the time limit of each hook."""
    hooks = []
    for event, entries in read(PLUGIN / HOOKS[name])["hooks"].items():
        for entry in entries:
            for hook in entry.get("hooks", [entry]):
                command = hook.get("command") or hook["bash"]
                limit = hook.get("timeout") or hook["timeoutSec"]
                hooks.append((event, entry.get("matcher", ""), command, limit))
    return hooks


def test_the_marketplace_names_the_folder_of_the_plugin() -> None:
    marketplace = read(ROOT / ".claude-plugin/marketplace.json")
    [entry] = marketplace["plugins"]
    assert entry["name"] == marketplace["name"] == "memory-ci"
    assert ROOT / entry["source"] == PLUGIN
    assert "version" not in entry, "the manifests say it"


@pytest.mark.parametrize("agent", MANIFESTS)
def test_a_manifest_has_the_version_of_the_package(agent: str) -> None:
    assert manifest_of(agent)["version"] == __version__


@pytest.mark.parametrize("agent", MANIFESTS)
def test_the_manifests_differ_only_in_where_parts_are(agent: str) -> None:
    def shared(manifest: dict[str, Any]) -> dict[str, Any]:
        return {
            key: value
            for key, value in manifest.items()
            if key not in ("hooks", "skills", "mcpServers")
        }

    assert shared(manifest_of(agent)) == shared(manifest_of("claude-code"))


@pytest.mark.parametrize("agent", ["codex", "copilot"])
def test_a_manifest_names_files_that_exist(agent: str) -> None:
    manifest = manifest_of(agent)
    assert PLUGIN / manifest["hooks"] == PLUGIN / HOOKS[agent]
    assert (PLUGIN / manifest["hooks"]).is_file()
    assert (PLUGIN / manifest["skills"]).is_dir()


@pytest.mark.parametrize("agent", MANIFESTS)
def test_the_events_and_their_tools_are_those_of_init(agent: str) -> None:
    hooks = [(event, tools) for event, tools, _, _ in list_hooks(agent)]
    assert hooks == [(event.name, event.tools) for event in find_agent(agent).events]


@pytest.mark.parametrize("agent", MANIFESTS)
def test_a_hook_calls_the_launcher_for_its_agent_and_event(agent: str) -> None:
    for event, _, command, limit in list_hooks(agent):
        assert re.fullmatch(rf'sh "\$\S*PLUGIN_ROOT}}?/launch\.sh" {agent} {event}', command)
        assert limit == find_agent(agent).minute
    assert (PLUGIN / "launch.sh").is_file()


def test_hooks_have_a_windows_command_if_the_format_has_one() -> None:
    call = "memory-ci hook agent --for {} --plugin"
    for groups in read(PLUGIN / HOOKS["codex"])["hooks"].values():
        assert groups[0]["hooks"][0]["commandWindows"].startswith(call.format("codex"))
    for event, hooks in read(PLUGIN / HOOKS["copilot"])["hooks"].items():
        assert hooks[0]["powershell"].startswith(f"{call.format('copilot')} --event {event};")


@pytest.mark.parametrize("agent", MANIFESTS)
def test_the_server_is_started_by_a_command_that_exists(agent: str) -> None:
    [(name, server)] = manifest_of(agent)["mcpServers"].items()
    assert (name, server["command"]) == ("memory-ci", "memory-ci")
    verb, *options = server["args"]
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    assert command.make_context(verb, options).params["plugin"] == agent


def test_the_hook_command_has_the_options_that_the_launcher_passes() -> None:
    launcher = (PLUGIN / "launch.sh").read_text()
    [arguments] = re.findall(r"hook agent (--.+)", launcher)
    options = {option.names.split()[0] for option in OPTIONS}
    assert set(re.findall(r"--[a-z]+", arguments)) <= options


def test_the_skill_has_the_name_of_its_folder_and_states_when_to_use_it() -> None:
    head = SKILL.read_text().split("---\n")[1]
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == SKILL.parent.name
    assert "Use when" in fields["description"]
    assert len(fields["description"]) < 500


def test_the_skill_lets_no_agent_answer_a_review() -> None:
    [allowed] = re.findall(r"^allowed-tools: (.+)$", SKILL.read_text(), re.MULTILINE)
    assert re.findall(r"memory-ci (\w+)", allowed) == ["add", "retrieve"]


def test_the_commands_of_the_skill_exist(run: Run) -> None:
    commands = COMMAND.findall(SKILL.read_text())
    assert {verb for verb, _ in commands} == {"add", "retrieve", "review", "feedback"}
    for verb, arguments in commands:
        help_text = run(verb, "--help").stdout
        assert all(option in help_text for option in re.findall(r"--[a-z]+", arguments))
