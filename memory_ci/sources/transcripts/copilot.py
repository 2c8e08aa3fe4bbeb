"""GitHub Copilot CLI: `session-state/<id>/events.jsonl`, one event a line. Facts from files that version 1.0.102 wrote.

A hook's answer at the end of a turn comes back as a message of the person; `content` is what was typed, and
`transformedContent` what the model was given with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    as_dict,
    as_text,
    decode,
    encode,
    joined_text,
    parse_time,
    read_objects,
    session_name,
    touched_paths,
)

SILENT = ("hook.", "session.", "assistant.turn_", "assistant.reasoning", "permission.", "tool.user_requested")
"""How types of events begin that say nothing of what was said or done."""


def sniff(head: bytes) -> bool:
    """True for the event that begins a session, which names its producer."""
    first = as_dict(decode(head.partition(b"\n")[0]))
    return first.get("type") == "session.start" and as_dict(first.get("data")).get("producer") == "copilot-agent"


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file."""
    reader = _Reader(SessionBuilder("copilot", session_name(name), "copilot-events", name))
    for line, record in read_objects(stream, reader.builder):
        reader.take(Place(line, parse_time(record.get("timestamp"))), record)
    yield reader.builder.build()


class _Reader:
    """The events of one file; `root` is the directory of the session, and `tools` has the name of each call."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.root = ""
        self.tools: dict[str, str] = {}

    def take(self, place: Place, record: dict[str, Any]) -> None:
        kind, data, uid = as_text(record.get("type")), as_dict(record.get("data")), as_text(record.get("id"))
        is_inner = bool(as_text(data.get("parentToolCallId")))
        agent: Actor = "subagent" if is_inner else "agent"
        if kind == "session.start":
            context = as_dict(data.get("context"))
            self.builder.id = as_text(data.get("sessionId")) or self.builder.id
            self.builder.branch = as_text(context.get("branch"))
            self.root = as_text(context.get("gitRoot")) or as_text(context.get("cwd"))
        elif kind == "user.message":
            person: Actor = "injected" if as_text(data.get("source")) else "subagent" if is_inner else "human"
            self._say(person, data, place, uid)
        elif kind == "assistant.message":
            self._say(agent, data, place, uid)
        elif kind == "system.message":
            self._say("injected", data, place, uid)
        elif kind == "tool.execution_start":
            self._call(agent, data, place)
        elif kind == "tool.execution_complete":
            self._result(data, place)
        elif kind == "abort":
            self.builder.add("human", "interrupt", "", place, uid=uid)
        elif not kind.startswith(SILENT):
            self.builder.unknown(kind or "untyped")

    def _say(self, actor: Actor, data: dict[str, Any], place: Place, uid: str) -> None:
        if (text := joined_text(data.get("content"))).strip():
            self.builder.add(actor, "text", text, place, uid=uid)

    def _call(self, agent: Actor, data: dict[str, Any], place: Place) -> None:
        uid, tool, given = as_text(data.get("toolCallId")), as_text(data.get("toolName")), data.get("arguments")
        self.tools[uid] = tool
        paths = touched_paths(given, "path", root=self.root)
        call = uid and f"{uid}:call"
        self.builder.add(agent, "tool_call", encode(given), place, uid=call, tool=tool, paths=paths)

    def _result(self, data: dict[str, Any], place: Place) -> None:
        uid, shell = as_text(data.get("toolCallId")), as_dict(data.get("shellExecution"))
        told = as_dict(data.get("result")) or as_dict(data.get("error"))
        text = joined_text(told.get("content")) or as_text(told.get("message"))
        ok = data.get("success") is not False and shell.get("exitCode") in (None, 0)
        self.builder.add("tool", "tool_result", text, place, uid=uid, tool=self.tools.get(uid), ok=ok)
