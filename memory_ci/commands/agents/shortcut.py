"""The hook of coding agents without click, for speed: they run it at each event and wait for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from memory_ci.cli.plain import Option, echo, now
from memory_ci.commands.agents.due import is_quiet
from memory_ci.sources.agent_events import parse_event

MAX_INPUT = 8 * 1024 * 1024  # bytes of an event; a prompt is typed or pasted by a person
OPTIONS = (
    Option("--for agent", "Whose hooks these are.", default="claude-code", metavar="NAME"),
    Option("--no-ask", "Never ask the agent to note a person's corrections.", kind=bool),
    Option(
        "--user",
        "A hook in the home: silent without memory, or where the project has one.",
        kind=bool,
    ),
    Option("--plugin", "A hook of a plugin: silent where --user is, or with it.", kind=bool),
    Option(
        "--event event_name",
        "The event, where the input does not name it.",
        default="",
        metavar="NAME",
    ),
)


def run(agent: str, event_name: str, no_ask: bool, user: bool, plugin: bool) -> None:
    """Read an event of an agent from standard input, and print the answer in the agent's format.

    Errors are printed on standard error, so that the agent goes on.

    Args:
        agent: the name of the agent.
        event_name: the name of the event, "" if the input names it.
        no_ask: do not ask the agent for notes.
        user: the hook is in the home of the user.
        plugin: the hook is of a plugin, which leaves the event to any other hook.
    """
    try:
        data = sys.stdin.buffer.read(MAX_INPUT)
        event = parse_event(data, agent, os.environ, event_name)
        if event is None or is_quiet(event, Path(event.cwd or Path.cwd())):
            return
        if user or plugin:
            from memory_ci.commands.setup.precedence import answers_event

            if not answers_event(data, agent, is_plugin=plugin):
                return
        from memory_ci.commands.agents.agent_hook import answer_hook

        echo(answer_hook(event, now=now(), environ=os.environ, may_ask=not no_ask))
    except Exception as error:  # noqa: BLE001 - an agent must go on, even without memory
        from memory_ci.findings import printable

        echo(f"memory-ci: nothing done: {printable(str(error))}\n", err=True)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run`, None if click has to report an error."""
    return None if words else values
