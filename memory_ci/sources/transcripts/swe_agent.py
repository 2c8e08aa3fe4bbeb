"""SWE-agent: a `.traj` file, one JSON object whose `history` is what the model saw, in both of its forms.

Nobody speaks in such a run: the system prompt, the demonstrations and the task (filled into a template) are injected,
and what stands under role user later is the output of a command (thought/action form; role tool in the other).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    as_dict,
    as_list,
    as_text,
    decode,
    joined_text,
    session_name,
    touched_paths,
)

FAILED = re.compile(
    r"Your proposed edit has introduced new syntax error|EXECUTION TIMED OUT|"
    r"The command '.*' (?:was cancelled because|has timed out)|Traceback \(most recent call last\):"
)
"""How output begins by which the tools of SWE-agent say that they failed; there are no exit codes in the file."""

TRAJECTORY = re.compile(rb'"(?:trajectory|history)"\s*:\s*\[')
STEP = re.compile(rb'"(?:observation|message_type|thought)"\s*:')


def sniff(head: bytes) -> bool:
    """True for an object that has a trajectory or a history of steps with thoughts and observations."""
    return (
        re.match(rb'\s*\{\s*"(?:environment|trajectory|history|info|replay_config)"', head) is not None
        and TRAJECTORY.search(head) is not None
        and STEP.search(head) is not None
    )


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file; `Origin.line` is the message's number in `history`, from 1: messages have no ids."""
    builder = SessionBuilder("swe-agent", session_name(name), "swe-agent-traj", name)
    has_begun = False
    for number, message in enumerate(as_list(as_dict(Document(stream, builder).value).get("history")), 1):
        builder.record()
        found = as_dict(message)
        has_begun = has_begun or (found.get("role") == "assistant" and not found.get("is_demo"))
        _add(builder, number, found, has_begun)
    yield builder.build()


def _add(builder: SessionBuilder, number: int, message: dict[str, Any], has_begun: bool) -> None:
    role, text = message.get("role"), joined_text(message.get("content"))
    if role not in ("system", "user", "tool", "assistant"):
        builder.unknown(as_text(role) or "untyped")
    elif role == "system" or message.get("is_demo") or not has_begun:
        builder.add("injected", "text", text, Place(number))
    elif role == "assistant":
        _add_step(builder, number, message, text)
    else:
        failed = FAILED.match(text.lstrip()) is not None
        builder.add("tool", "tool_result", text, Place(number), ok=False if failed else None)


def _add_step(builder: SessionBuilder, number: int, message: dict[str, Any], text: str) -> None:
    """A thought and the calls or the command that follow it."""
    if said := as_text(message.get("thought")).strip() or text.strip():
        builder.add("agent", "text", said, Place(number))
    functions = [as_dict(as_dict(call).get("function")) for call in as_list(message.get("tool_calls"))]
    for function in functions:
        given = as_text(function.get("arguments"))
        paths = touched_paths(decode(given.encode(errors="replace")), "path", "filename")
        builder.add("agent", "tool_call", given, Place(number), tool=as_text(function.get("name")) or None, paths=paths)
    command = as_text(message.get("action")).strip()
    if command and not functions:
        builder.add("agent", "tool_call", command, Place(number), tool=command.split()[0])
