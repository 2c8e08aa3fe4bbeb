"""`memory-ci hook agent`: what coding agents call at each event, without click: a prompt waits for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from memory_ci.cli.plain import Option, echo, now
from memory_ci.findings import printable

MAX_INPUT = 8 * 1024 * 1024  # Bytes read of an event; a prompt is what a person typed or pasted.
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


def run(agent: str, event: str, no_ask: bool, user: bool, asked: Mapping[str, Any] = {}) -> None:
    """Answer one event in the agent's dialect. Whatever goes wrong is said on standard error: the agent goes on.

    `asked` are options of `retrieve --hook`, the first form of this command.
    """
    from memory_ci.commands.agents.agent_hook import answer_hook

    try:
        data = sys.stdin.buffer.read(MAX_INPUT)
        if user:
            from memory_ci.commands.setup.agents import answers_for_user

            if not answers_for_user(data, agent):
                return
        echo(answer_hook(data, agent, event, now(), os.environ, not no_ask, asked))
    except Exception as error:  # noqa: BLE001 - an agent goes on without memory, but it must go on
        echo(f"memory-ci: nothing done: {printable(str(error))}\n", err=True)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `run`; None for another hook, which click reads."""
    return values if words == ("agent",) else None
