"""The settings files of each coding agent, its events, and its formats of hooks and servers.

This module holds data alone; `agents` edits the files. docs/agents.md says where each format is
documented.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

PROGRAM = "memory-ci"
MODULE = ("-P", "-m", "memory_ci")
"""The arguments of a Python interpreter that start memory-ci."""

Place = Literal["file", "shared", "user"]
"""The owner of settings: this clone, the team (they are committed), the user (in the home)."""


class HookEvent(NamedTuple):
    """An event to hook into.

    Attributes:
        name: the agent's name of the event.
        tools: the tools whose calls raise the event, "" for all.
        serves_memory: the hook gives the agent memory at this event; otherwise it captures the
            session.
        asks_for_notes: the event is hooked only to ask the agent, at the end of a turn, for notes.
    """

    name: str
    tools: str = ""
    serves_memory: bool = True
    asks_for_notes: bool = False


class Server(NamedTuple):
    """The format of the MCP server in a settings file.

    Attributes:
        key: the member that holds all servers.
        leading: members before the command.
        trailing: members after the command.
        arguments: arguments of memory-ci after `mcp`.
        is_list: the command and its arguments are one list.
    """

    key: str = "mcpServers"
    leading: Mapping[str, Any] = {}
    trailing: Mapping[str, Any] = {}
    arguments: tuple[str, ...] = ()
    is_list: bool = False


class Permission(NamedTuple):
    """The format of the permission to run `memory-ci add` without a question.

    Attributes:
        keys: the path of the list of permissions, or of a member.
        value: the element of that list, or the value of that member.
        is_member_value: `keys` end with the name of a member.
    """

    keys: tuple[str, ...]
    value: str
    is_member_value: bool = False


PartName = Literal["hooks", "mcp", "allow", "text"]


class Part(msgspec.Struct, frozen=True):
    """A part of our settings for an agent, and the file that it goes into.

    Attributes:
        name: the kind of settings: `hooks` that call memory-ci, `mcp` for its MCP server, `allow`
            for the permission to run `memory-ci add`, `text` for instructions in a document.
        file: the file of this clone, relative to the top of the work tree.
        shared: the committed file, "" if it is the same.
        user: the file in the home, "" for none.
        form: JSON that is edited, a marked block of text, or a whole file of ours.
        content: the format of our settings, or their text.
    """

    name: PartName
    file: str
    shared: str = ""
    user: str = ""
    form: Literal["json", "block", "whole"] = "json"
    content: Server | Permission | str = ""

    def file_at(self, place: Place) -> str:
        """Return the file of a place, "" for none."""
        if place == "user":
            return self.user
        if place == "shared" and self.shared:
            return self.shared
        return self.file


class Agent(msgspec.Struct, frozen=True):
    """A coding agent and the format of its settings.

    Attributes:
        name: the name in options of the command line.
        parts: our parts in each of its files.
        events: the events to hook into.
        minute: one minute in the unit (seconds or milliseconds) that the agent's settings have
            for the time limit of a hook.
        hook_format: the shape of a hook in its settings.
    """

    name: str
    parts: tuple[Part, ...]
    events: tuple[HookEvent, ...] = ()
    minute: int = 60
    hook_format: Literal["groups", "copilot", "cursor", "plugin"] = "groups"


PLUGIN_TEXT = Path(__file__).with_name("opencode.js").read_text("utf-8")
READING_TEXT = """\
This repository keeps what was learned here (MEMORY.md; institutional.md always holds).
Before work: `memory-ci retrieve "WHAT YOU ARE ASKED"`. \
Before you change a file: `memory-ci retrieve --about PATH`."""
ASKING_TEXT = """\
When a person corrects you and it will hold next month: \
`memory-ci add "RULE" --body "WHY" --quote "THEIR WORDS"`."""
"""The text for AGENTS.md: five lines, with the two that mark the block."""

CODEX_RULES = """# memory-ci init --clone --agent codex: this file is replaced by the next install.
prefix_rule(pattern = ["memory-ci", "add"], decision = "allow")
"""

STOP_EVENT = HookEvent("Stop", asks_for_notes=True)
END_EVENT = HookEvent("SessionEnd", serves_memory=False)
START_EVENTS = (HookEvent("SessionStart"), HookEvent("UserPromptSubmit"))
CLAUDE_FILES = (".claude/settings.local.json", ".claude/settings.json", ".claude/settings.json")
GEMINI_FILES = (".gemini/settings.json", "", ".gemini/settings.json")
OPENCODE_PLUGIN = ".opencode/plugins/memory-ci.js"
OPENCODE_PERMISSION = Permission(
    ("permission", "bash", "memory-ci add *"), "allow", is_member_value=True
)
WORKSPACE_ARGUMENTS = ("--repo", "${workspaceFolder}")
AGENTS = (
    Agent(
        "claude-code",
        (
            Part("hooks", *CLAUDE_FILES),
            Part(
                "allow",
                *CLAUDE_FILES,
                content=Permission(("permissions", "allow"), "Bash(memory-ci add:*)"),
            ),
            Part("mcp", ".mcp.json", content=Server(leading={"type": "stdio"})),
        ),
        (
            *START_EVENTS,
            HookEvent("PreToolUse", "Bash|Edit|Write|MultiEdit|NotebookEdit"),
            HookEvent("PostToolUse", "Read|Edit|Write|MultiEdit|NotebookEdit"),
            HookEvent("PostToolUseFailure", "Bash"),
            STOP_EVENT,
            END_EVENT,
        ),
    ),
    Agent(
        "codex",
        (
            Part("hooks", ".codex/hooks.json", user=".codex/hooks.json"),
            Part(
                "allow",
                ".codex/rules/memory-ci.rules",
                "",
                ".codex/rules/memory-ci.rules",
                "whole",
                CODEX_RULES,
            ),
            Part("mcp", ".codex/config.toml", form="block", content="[mcp_servers.memory-ci]"),
        ),
        # Stop is raised after each turn; older versions have no event for the end.
        (
            *START_EVENTS,
            HookEvent("PreToolUse"),
            HookEvent("PostToolUse"),
            HookEvent("Stop", serves_memory=False),
        ),
    ),
    Agent(
        "gemini",
        (
            Part("hooks", *GEMINI_FILES),
            Part(
                "allow",
                *GEMINI_FILES,
                content=Permission(("tools", "allowed"), "run_shell_command(memory-ci add)"),
            ),
            Part("mcp", GEMINI_FILES[0], content=Server()),
        ),
        (
            START_EVENTS[0],
            HookEvent("BeforeAgent"),
            HookEvent(
                "AfterTool", "read_file|read_many_files|replace|write_file|run_shell_command"
            ),
            HookEvent("AfterAgent", asks_for_notes=True),
            END_EVENT,
        ),
        60_000,
    ),
    Agent(
        "copilot",
        (
            Part("hooks", ".github/hooks/memory-ci.json", user=".copilot/hooks/memory-ci.json"),
            Part(
                "mcp",
                ".github/mcp.json",
                content=Server(leading={"type": "local"}, trailing={"tools": ["*"]}),
            ),
        ),
        (
            HookEvent("sessionStart"),
            HookEvent("userPromptSubmitted"),
            HookEvent("preToolUse"),
            HookEvent("agentStop", asks_for_notes=True),
        ),
        hook_format="copilot",
    ),
    Agent(
        "opencode",
        (
            Part(
                "hooks",
                OPENCODE_PLUGIN,
                user=f".config/{OPENCODE_PLUGIN[1:]}",
                form="whole",
                content=PLUGIN_TEXT,
            ),
            Part(
                "allow",
                "opencode.json",
                user=".config/opencode/opencode.json",
                content=OPENCODE_PERMISSION,
            ),
            Part(
                "mcp",
                "opencode.json",
                content=Server("mcp", {"type": "local"}, {"enabled": True}, is_list=True),
            ),
        ),
        (HookEvent("chat.message"),),
        hook_format="plugin",
    ),
    Agent(
        "vscode",
        (
            Part("hooks", ".github/hooks/memory-ci-vscode.json"),
            Part(
                "mcp",
                ".vscode/mcp.json",
                content=Server("servers", {"type": "stdio"}, arguments=WORKSPACE_ARGUMENTS),
            ),
        ),
        (*START_EVENTS, HookEvent("PreToolUse"), HookEvent("PostToolUse")),
    ),
    Agent(
        "cursor",
        (
            Part("hooks", ".cursor/hooks.json", user=".cursor/hooks.json"),
            Part("mcp", ".cursor/mcp.json", content=Server(arguments=WORKSPACE_ARGUMENTS)),
        ),
        # `stop` is raised after each turn; closing a window may raise no event.
        (
            HookEvent("sessionStart"),
            HookEvent("postToolUse"),
            HookEvent("stop", serves_memory=False),
            HookEvent("sessionEnd", serves_memory=False),
        ),
        hook_format="cursor",
    ),
    # Any agent that reads AGENTS.md and has no hooks of ours.
    Agent(
        "agents-md",
        (
            Part("text", "AGENTS.md", form="block"),
            Part("mcp", ".mcp.json", content=Server(leading={"type": "stdio"})),
        ),
    ),
)
