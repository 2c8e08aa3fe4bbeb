"""What each coding agent reads: which files, at which events, and how they write a hook, a server, a permission.

Data alone: `agents` puts it into files and takes it out again. Where each is documented: docs/agents.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

PROGRAM = "memory-ci"
MODULE = ("-P", "-m", "memory_ci")


class HookEvent(NamedTuple):
    """An event to hook into, and the tools that it is asked for ("" for all). `is_reading`: memory is read at it;
    `is_asking`: it is there for the question alone that ends a turn."""

    name: str
    tools: str = ""
    is_reading: bool = True
    is_asking: bool = False


class Server(NamedTuple):
    """How the MCP server stands in a file: under `key`, with these members around the command. `is_list`: the command
    and its arguments are one list."""

    key: str = "mcpServers"
    first: Mapping[str, Any] = {}
    last: Mapping[str, Any] = {}
    arguments: tuple[str, ...] = ()
    is_list: bool = False


class Permission(NamedTuple):
    """How the command that agents are asked to run stands in a list of what needs no question. The value is an element
    of the list under `keys`, or, where the last of them is a member's name, that member's."""

    keys: tuple[str, ...]
    value: str
    is_member: bool = False


PartName = Literal["hooks", "mcp", "allow", "text"]


class Part(msgspec.Struct, frozen=True):
    """A part of ours and the file that it goes into, from the top of the work tree. `shared` is the file that is
    committed, where that is another; `user` is that of the home, "" for none."""

    name: PartName
    file: str
    shared: str = ""
    user: str = ""
    form: Literal["json", "block", "whole"] = "json"
    content: Server | Permission | str = ""


class Agent(msgspec.Struct, frozen=True):
    """An agent, its events, a minute in the unit of its time limits, how it writes a hook, and its files."""

    name: str
    parts: tuple[Part, ...]
    events: tuple[HookEvent, ...] = ()
    minute: int = 60
    hook: Literal["groups", "copilot", "cursor", "plugin"] = "groups"


PLUGIN = Path(__file__).with_name("opencode.js").read_text("utf-8")
READ = """\
This repository keeps what was learned here (MEMORY.md; institutional.md always holds).
Before work: `memory-ci retrieve "WHAT YOU ARE ASKED"`. Before you change a file: `memory-ci retrieve --about PATH`."""
ASK = """\
When a person corrects you and it will hold next month: `memory-ci add "RULE" --body "WHY" --quote "THEIR WORDS"`."""
"""What AGENTS.md is told: with the lines around it five."""

RULES = """# memory-ci install --agent codex: this file is replaced by the next install.
prefix_rule(pattern = ["memory-ci", "add"], decision = "allow")
"""

STOP = HookEvent("Stop", is_asking=True)
END = HookEvent("SessionEnd", is_reading=False)
STARTS = (HookEvent("SessionStart"), HookEvent("UserPromptSubmit"))
CLAUDE = (".claude/settings.local.json", ".claude/settings.json", ".claude/settings.json")
GEMINI = (".gemini/settings.json", "", ".gemini/settings.json")
OPENCODE = ".opencode/plugins/memory-ci.js"
ADD_MAY_RUN = Permission(("permission", "bash", "memory-ci add *"), "allow", is_member=True)
HERE = ("--repo", "${workspaceFolder}")
AGENTS = (
    Agent(
        "claude-code",
        (
            Part("hooks", *CLAUDE),
            Part(
                "allow",
                *CLAUDE,
                content=Permission(("permissions", "allow"), "Bash(memory-ci add:*)"),
            ),
            Part("mcp", ".mcp.json", content=Server(first={"type": "stdio"})),
        ),
        (*STARTS, HookEvent("PostToolUse", "Read|Edit|Write|MultiEdit|NotebookEdit"), STOP, END),
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
                RULES,
            ),
            Part("mcp", ".codex/config.toml", form="block", content="[mcp_servers.memory-ci]"),
        ),
        # Stop is after each turn: older versions have no event for the end.
        (*STARTS, HookEvent("PostToolUse"), HookEvent("Stop", is_reading=False)),
    ),
    Agent(
        "gemini",
        (
            Part("hooks", *GEMINI),
            Part(
                "allow",
                *GEMINI,
                content=Permission(("tools", "allowed"), "run_shell_command(memory-ci add)"),
            ),
            Part("mcp", GEMINI[0], content=Server()),
        ),
        (
            STARTS[0],
            HookEvent("BeforeAgent"),
            HookEvent("AfterTool", "read_file|read_many_files|replace|write_file"),
            HookEvent("AfterAgent", is_asking=True),
            END,
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
                content=Server(first={"type": "local"}, last={"tools": ["*"]}),
            ),
        ),
        (
            HookEvent("sessionStart"),
            HookEvent("userPromptSubmitted"),
            HookEvent("preToolUse"),
            HookEvent("agentStop", is_asking=True),
        ),
        hook="copilot",
    ),
    Agent(
        "opencode",
        (
            Part("hooks", OPENCODE, user=f".config/{OPENCODE[1:]}", form="whole", content=PLUGIN),
            Part(
                "allow", "opencode.json", user=".config/opencode/opencode.json", content=ADD_MAY_RUN
            ),
            Part(
                "mcp",
                "opencode.json",
                content=Server("mcp", {"type": "local"}, {"enabled": True}, is_list=True),
            ),
        ),
        (HookEvent("chat.message"),),
        hook="plugin",
    ),
    Agent(
        "vscode",
        (
            Part("hooks", ".github/hooks/memory-ci-vscode.json"),
            Part(
                "mcp",
                ".vscode/mcp.json",
                content=Server("servers", {"type": "stdio"}, arguments=HERE),
            ),
        ),
        (*STARTS, HookEvent("PostToolUse")),
    ),
    Agent(
        "cursor",
        (
            Part("hooks", ".cursor/hooks.json", user=".cursor/hooks.json"),
            Part("mcp", ".cursor/mcp.json", content=Server(arguments=HERE)),
        ),
        # `stop` is after each turn: of a window that is closed nothing else may be heard.
        (
            HookEvent("sessionStart"),
            HookEvent("postToolUse"),
            HookEvent("stop", is_reading=False),
            HookEvent("sessionEnd", is_reading=False),
        ),
        hook="cursor",
    ),
    # For any agent that reads this file, and has no hooks of ours.
    Agent(
        "agents-md",
        (
            Part("text", "AGENTS.md", form="block"),
            Part("mcp", ".mcp.json", content=Server(first={"type": "stdio"})),
        ),
    ),
)
