"""The formats of our hooks and MCP server in the settings of coding agents.

Values that an earlier version wrote, or for another interpreter, are recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory_ci.commands.setup.clients import MODULE, PROGRAM, Agent, HookEvent, Part, Place, Server

SILENT_AND = " >/dev/null 2>&1 && "
"""In sh, after a command: print nothing, and go on only if the command succeeds."""

MODULE_CALL = f" {' '.join(MODULE)}"
"""The arguments after an interpreter in a call of memory-ci: ` -P -m memory_ci`."""

NO_ASK_FLAG = " --no-ask"
USER_FLAG = " --user"


def choose_user_flag(place: Place) -> str:
    """Return the option, after a blank, of hooks in the home; "" for hooks elsewhere."""
    return USER_FLAG if place == "user" else ""


def hook_marks(agent: Agent) -> tuple[str, str]:
    """Return the words by which our hooks are recognised: of this version, and of version 0.1."""
    return f"hook agent --for {agent.name}", f"capture - --hook --agent {agent.name}"


def has_mark(agent: Agent, text: str) -> bool:
    """Return whether a text may hold hooks of ours, or be a file of ours."""
    if any(mark in text for mark in hook_marks(agent)):
        return True
    return any(text.startswith(first_words(part)) for part in agent.parts if part.form == "whole")


def first_words(part: Part) -> tuple[str, str]:
    """Return how a file that is all ours begins: of this version, and of version 0.2."""
    first_words = str(part.content).partition(":")[0]
    return first_words, first_words.replace("memory-ci init --clone", "memory-ci install")


def format_hook(agent: Agent, event: HookEvent, call: str, flags: str) -> dict[str, Any]:
    """Return a hook in the format of an agent's settings.

    Its command does nothing, and succeeds, where memory-ci is not installed.

    Args:
        agent: the agent.
        event: the event that calls the hook.
        call: the start of the shell command: the program, with `-P -m memory_ci` for Python.
        flags: options of `memory-ci hook agent`, each after a blank: ` --user --no-ask`.

    Returns:
        The JSON value. Its command is, for the program `memory-ci` and Claude Code,
        `command -v memory-ci >/dev/null 2>&1 && memory-ci hook agent --for claude-code; exit 0`.
    """
    subcommand, _old_subcommand = hook_marks(agent)
    program = call.removesuffix(MODULE_CALL)
    command = f"command -v {program}{SILENT_AND}{call} {subcommand}{flags}; exit 0"
    if agent.hook_format == "copilot":  # Copilot does not pass the name of the event.
        command = command.replace("; exit", f" --event {event.name}; exit")
        return {"type": "command", "bash": command, "timeoutSec": agent.minute}
    if agent.hook_format == "cursor":
        return {"command": command}
    tools = {"matcher": event.tools} if event.tools else {}
    return {**tools, "hooks": [{"type": "command", "command": command, "timeout": agent.minute}]}


def is_our_hook(
    agent: Agent,
    event: HookEvent,
    user_flag: str,
    value: Any,  # noqa: ANN401 - any JSON
) -> bool:
    """Return whether a JSON value is a hook that `init` wrote, for any interpreter.

    The interpreter, or program, is read from the command of the hook. The value is ours if it
    equals the hook that would be written for this interpreter now, or in version 0.1. A hook that
    its user edited equals neither.

    Args:
        agent: the agent.
        event: the event that calls the hook.
        user_flag: the option of hooks in the home, "" for other hooks.
        value: the value from the settings of the agent.
    """
    _subcommand, old_subcommand = hook_marks(agent)
    try:
        hook = value["hooks"][0] if agent.hook_format == "groups" else value
        command = hook.get("command") or hook["bash"]
        program, _, _ = command.removeprefix("command -v ").partition(SILENT_AND)
        has_old_end = command.endswith(f"{old_subcommand}; exit 0")
    except (AttributeError, IndexError, KeyError, TypeError):
        return False  # The value is no hook.

    for call in (program, f"{program}{MODULE_CALL}"):
        for ask_flag in ("", NO_ASK_FLAG):
            if value == format_hook(agent, event, call, user_flag + ask_flag):
                return True

    is_old_command = has_old_end and command.startswith("command -v ")
    old_hook = {"type": "command", "command": command, "timeout": agent.minute}
    return is_old_command and bool(value == {"hooks": [old_hook]})


def format_server(server: Server, program: Sequence[str]) -> dict[str, Any]:
    """Return the MCP server as a value of JSON settings; `program` starts memory-ci."""
    words = [*program, "mcp", *server.arguments]
    command = {"command": words} if server.is_list else {"command": words[0], "args": words[1:]}
    return {**server.leading, **command, **server.trailing}


def is_our_server(server: Server, value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value of settings is a server that we wrote, for any interpreter.

    A server that its owner changed is not ours.
    """
    try:
        python = value["command"][0] if server.is_list else value["command"]
    except (AttributeError, IndexError, KeyError, TypeError):
        return False
    programs = ([PROGRAM], [python, *MODULE])
    return any(value == format_server(server, program) for program in programs)
