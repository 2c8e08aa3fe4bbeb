"""GitHub Copilot CLI: `session-state/<id>/events.jsonl`, one event a line. Facts from files that version 1.0.102 wrote.

A hook's answer at the end of a turn comes back as a message of the person; `content` is what was typed, and
`transformedContent` what the model was given with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import SessionBuilder, read_objects, touched_paths
from memory_ci.sources.transcripts.prose import is_envelope

# How types of events begin that say nothing of what was said or done.
SILENT = (
    "hook.",
    "session.",
    "assistant.turn_",
    "assistant.reasoning",
    "permission.",
    "tool.user_requested",
)


def sniff(head: bytes) -> bool:
    """True for the event that begins a session, which names its producer."""
    first = raw.fields(raw.decode(head.partition(b"\n")[0]))
    return (
        first.get("type") == "session.start"
        and raw.text(first, "data", "producer") == "copilot-agent"
    )


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file."""
    reader = _Reader("copilot", "copilot-events", name)
    for record in read_objects(stream, reader):
        reader.take(record)
    yield reader.build()


class _Reader(SessionBuilder):
    """The events of one file."""

    def take(self, record: dict[str, Any]) -> None:
        kind, data, uid = (
            raw.text(record, "type"),
            raw.fields(record, "data"),
            raw.text(record, "id"),
        )
        is_inner, said = bool(raw.text(data, "parentToolCallId")), raw.joined(data, "content")
        worker: Actor = "subagent" if is_inner else "agent"
        if kind == "session.start":
            self.id = raw.text(data, "sessionId") or self.id
            self.branch = raw.text(data, "context", "branch")
            self.root = raw.text(data, "context", "gitRoot") or raw.text(data, "context", "cwd")
        elif kind == "user.message":
            is_injected = bool(raw.text(data, "source")) or is_envelope(said)
            self.say("injected" if is_injected else "subagent" if is_inner else "human", said, uid)
        elif kind in ("assistant.message", "system.message"):
            self.say(worker if kind == "assistant.message" else "injected", said, uid)
        elif kind == "tool.execution_start":
            paths = touched_paths(given := data.get("arguments"), "path", root=self.root)
            self.call(
                worker,
                raw.encode(given),
                raw.text(data, "toolCallId"),
                raw.text(data, "toolName"),
                paths,
            )
        elif kind == "tool.execution_complete":
            self._result(data)
        elif kind == "abort":
            self.add("human", "interrupt", uid=uid)
        elif not kind.startswith(SILENT):
            self.unknown(kind)

    def _result(self, data: dict[str, Any]) -> None:
        uid, told = (
            raw.text(data, "toolCallId"),
            raw.fields(data, "result") or raw.fields(data, "error"),
        )
        text = raw.joined(told, "content") or raw.text(told, "message")
        ok = data.get("success") is not False and raw.fields(data, "shellExecution").get(
            "exitCode"
        ) in (None, 0)
        self.add("tool", "tool_result", text, uid=uid, tool=self.tools.get(uid), ok=ok)
