"""SWE-agent: a `.traj` file, one JSON object whose `history` is what the model saw, in both of its forms.

Nobody speaks in such a run: the system prompt, the demonstrations and the task (filled into a template) are injected,
and what stands under role user later is the output of a command (thought/action form; role tool in the other).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Document, Place, SessionBuilder, touched_paths

# How output begins by which the tools of SWE-agent say that they failed; there are no exit codes in the file.
FAILED = re.compile(
    r"Your proposed edit has introduced new syntax error|EXECUTION TIMED OUT|"
    r"The command '.*' (?:was cancelled because|has timed out)|Traceback \(most recent call last\):"
)

FIRST = re.compile(rb'\s*\{\s*"(?:environment|trajectory|history|info|replay_config)"')
TRAJECTORY = re.compile(rb'"(?:trajectory|history)"\s*:\s*\[')
STEP = re.compile(rb'"(?:observation|message_type|thought)"\s*:')


def sniff(head: bytes) -> bool:
    """True for an object that has a trajectory or a history of steps with thoughts and observations."""
    return bool(FIRST.match(head) and TRAJECTORY.search(head) and STEP.search(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file; `Origin.line` is the message's number in `history`, from 1: messages have no ids."""
    builder = SessionBuilder("swe-agent", "swe-agent-traj", name)
    has_begun = False
    for number, message in enumerate(raw.items(Document(stream, builder).value, "history"), 1):
        builder.records += 1
        builder.place = Place(number)
        role, text = raw.value(message, "role"), raw.joined(message, "content")
        is_demo = bool(raw.value(message, "is_demo"))
        has_begun = has_begun or (role == "assistant" and not is_demo)
        if role not in ("system", "user", "tool", "assistant"):
            builder.unknown(role)
        elif role == "system" or is_demo or not has_begun:
            builder.add("injected", "text", text)
        elif role == "assistant":
            _add_step(builder, raw.fields(message), text)
        else:
            builder.add(
                "tool", "tool_result", text, ok=False if FAILED.match(text.lstrip()) else None
            )
    yield builder.build()


def _add_step(builder: SessionBuilder, message: dict[str, Any], text: str) -> None:
    """A thought and the calls or the command that follow it."""
    builder.say("agent", raw.text(message, "thought").strip() or text.strip())
    functions = [raw.fields(call, "function") for call in raw.items(message, "tool_calls")]
    for function in functions:
        given = raw.text(function, "arguments")
        paths = touched_paths(raw.decode(given.encode(errors="replace")), "path", "filename")
        builder.add(
            "agent", "tool_call", given, tool=raw.text(function, "name") or None, paths=paths
        )
    command = raw.text(message, "action").strip()
    if command and not functions:
        builder.add("agent", "tool_call", command, tool=command.split()[0])
