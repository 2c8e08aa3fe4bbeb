"""`memory-ci hook agent` without click: coding agents call it at each event, and a prompt waits."""

from __future__ import annotations

import os
import sys
from typing import Any

from memory_ci.cli.plain import Option, echo, now
from memory_ci.findings import printable

MAX_INPUT = 8 * 1024 * 1024  # bytes of an event; a prompt is typed or pasted by a person
OPTIONS = (
    Option("--for agent", "Whose hooks these are.", default="claude-code", metavar="NAME"),
    Option("--no-ask", "Never ask the agent to note what a person taught it.", kind=bool),
    Option(
        "--user",
        "A hook in the home: silent without memory, or where the project has one.",
        kind=bool,
    ),
    Option("--event", "The event, where the input does not name it.", default="", metavar="NAME"),
)


def run(agent: str, event: str, no_ask: bool, user: bool) -> None:
    """Answer an event in the format of an agent.

    Errors are printed on standard error, so that the agent goes on.

    Args:
        agent: the name of the agent.
        event: the name of the event, "" if the input names it.
        no_ask: do not ask the agent for notes.
        user: the hook is in the home of the user.
    """
    from memory_ci.commands.agents.agent_hook import answer_hook

    try:
        data = sys.stdin.buffer.read(MAX_INPUT)
        if user:
            from memory_ci.commands.setup.agents import answers_for_user

            if not answers_for_user(data, agent):
                return
        echo(answer_hook(data, agent, event, now=now(), environ=os.environ, asks=not no_ask))
    except Exception as error:  # noqa: BLE001 - an agent must go on, even without memory
        echo(f"memory-ci: nothing done: {printable(str(error))}\n", err=True)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run`, None for a hook whose command line click parses."""
    return values if words == ("agent",) else None
