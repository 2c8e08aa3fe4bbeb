"""Reader of the session files of GitHub Copilot CLI (`events.jsonl`), one event a line.

Facts from files that version 1.0.102 wrote. A hook's answer at the end of a turn comes back as a
message of the person; `content` was typed, and `transformedContent` is the text for the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import SessionBuilder, find_touched_paths, read_objects
from memory_ci.sources.transcripts.prose import looks_program_written

IGNORED_BEGINNINGS = (
    "hook.",
    "session.",
    "assistant.turn_",
    "assistant.reasoning",
    "permission.",
    "tool.user_requested",
)
"""Beginnings of types of events that hold no message, call or result."""


def sniff(head: bytes) -> bool:
    """Return whether a file's first line is the start of a session of Copilot CLI."""
    first = raw.get_object(raw.decode(head.partition(b"\n")[0]))
    producer = raw.get_text(first, "data", "producer")
    return first.get("type") == "session.start" and producer == "copilot-agent"


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of a file."""
    reader = _Reader("copilot", "copilot-events", name)
    for record in read_objects(stream, reader):
        reader.add_record(record)
    yield reader.build()


class _Reader(SessionBuilder):
    """The builder of the session of one file."""

    def add_record(self, record: dict[str, Any]) -> None:
        """Add one event of the file by its type: a message, a tool call, its result, an abort."""
        event_type = raw.get_text(record, "type")
        data = raw.get_object(record, "data")
        uid = raw.get_text(record, "id")
        text = raw.get_joined_text(data, "content")
        is_of_subagent = bool(raw.get_text(data, "parentToolCallId"))
        agent_actor: Actor = "subagent" if is_of_subagent else "agent"

        if event_type == "session.start":
            self._read_start(data)
        elif event_type == "user.message":
            user_actor: Actor = "subagent" if is_of_subagent else "human"
            is_injected = bool(raw.get_text(data, "source")) or looks_program_written(text)
            self.add_text("injected" if is_injected else user_actor, text, uid)
        elif event_type == "assistant.message":
            self.add_text(agent_actor, text, uid)
        elif event_type == "system.message":
            self.add_text("injected", text, uid)
        elif event_type == "tool.execution_start":
            self._add_call(agent_actor, data)
        elif event_type == "tool.execution_complete":
            self._add_result(data)
        elif event_type == "abort":
            self.add_event("human", "interrupt", uid=uid)
        elif not event_type.startswith(IGNORED_BEGINNINGS):
            self.count_unknown(event_type)

    def _read_start(self, data: dict[str, Any]) -> None:
        """Read the session's id, branch and directory."""
        self.id = raw.get_text(data, "sessionId") or self.id
        self.branch = raw.get_text(data, "context", "branch")
        self.root = raw.get_text(data, "context", "gitRoot") or raw.get_text(data, "context", "cwd")

    def _add_call(self, agent_actor: Actor, data: dict[str, Any]) -> None:
        arguments = data.get("arguments")
        paths = find_touched_paths(arguments, "path", root=self.root)
        uid = raw.get_text(data, "toolCallId")
        self.add_call(
            agent_actor, raw.encode(arguments), uid, raw.get_text(data, "toolName"), paths
        )

    def _add_result(self, data: dict[str, Any]) -> None:
        """Add the result or the error of a tool call; a shell that exits with 1 or more failed."""
        uid = raw.get_text(data, "toolCallId")
        answer = raw.get_object(data, "result") or raw.get_object(data, "error")
        text = raw.get_joined_text(answer, "content") or raw.get_text(answer, "message")
        exit_code = raw.get_object(data, "shellExecution").get("exitCode")
        ok = data.get("success") is not False and exit_code in (None, 0)
        self.add_event("tool", "tool_result", text, uid=uid, tool=self.tools.get(uid), ok=ok)
