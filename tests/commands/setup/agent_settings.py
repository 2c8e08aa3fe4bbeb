"""Helpers: the settings of agents before and after hooks are added."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from memory_ci.commands.setup.clients import AGENTS
from memory_ci.commands.setup.install import install
from tests.project import Project

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
    steps = install(project.workspace, python, with_hooks=False, agents=[name], dry_run=dry_run)
    return next(step.result for step in steps if step.path == str(project.path / FILES[name]))


def groups(path: Path, name: str) -> list[dict[str, Any]]:
    """Return the hooks of an agent's last event."""
    data: list[dict[str, Any]] = json.loads(path.read_text())["hooks"][EVENTS[name][-1]]
    return data


def settings_of_others() -> dict[str, list[str]]:
    """Yield texts of settings with lists and servers of the user where ours are added: JSON files, and TOML."""
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


def excluded(project: Project, *, dry_run: bool = False) -> list[str]:
    steps = install(
        project.workspace, sys.executable, with_hooks=False, agents=["claude-code"], dry_run=dry_run
    )
    return [step.result for step in steps if step.part == "exclude"]
