"""Reader of Gemini CLI's session files: one JSON object (until 0.4x), or one record a line (since).

The records are replayed into messages. Facts from the public source (`chatRecordingService`) and
from a file that version 0.61 wrote: a message is written in full again whenever its tool calls
change, so the last version of an id counts; `$set.messages` rewrites the model's own history
(start, resume, compression), shortens recorded messages, and adds messages that nobody typed;
`$rewindTo` takes back a message and all after it.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    read_objects,
    touched_paths,
)
from memory_ci.sources.transcripts.prose import is_envelope

INJECTED = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "System: Please continue.",
    "<hook_context>",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
)
"""Beginnings of texts that Gemini CLI puts into a message of type user."""

SUMMARY = "<state_snapshot>"  # The history after /compress, as a message of type user.

REFERENCED = "--- Content from referenced files ---"
"""After this line a message holds the files that it names with @: nobody typed them."""

CANCELLED = Regex(r"^\[Operation Cancelled\] Reason: (.*)", re.DOTALL)

DENIALS = frozenset(
    {"user did not allow tool call", "user denied execution", "tool call cancelled by user", ""}
)
"""Reasons for a cancelled call that mean a bare no; any other reason is the person's own."""

ABORTS = frozenset(
    {
        "operation cancelled",
        "operation cancelled by user",
        "user cancelled tool execution",
        "user cancelled the operation",
        "tool call cancelled",
        "request cancelled",
        "user cancelled operation",
    }
)
"""Reasons for a cancelled call that mean Escape or Ctrl-C while the agent worked."""

PATHS = ("file_path", "absolute_path", "path")
MAX_PATH = 1_000  # Characters that are searched for the directory of the project.
EXIT_CODE = Regex(r"^Exit Code: (-?\d+)$", re.MULTILINE)
REWIND = "$rewind"


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is Gemini CLI's, in either form."""
    if header := raw.fields(raw.decode(head.lstrip().partition(b"\n")[0])):
        return {"sessionId", "projectHash"} <= header.keys() and "uuid" not in header
    keys = (rb'"sessionId"\s*:\s*"', rb'"projectHash"\s*:\s*"', rb'"startTime"\s*:\s*"')
    return head.lstrip().startswith(b"{") and all(re.search(key, head[:4096]) for key in keys)


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of a file of either form.

    In the JSONL form, the line of an event is that of the message's last version; in the single
    object, that of the message's id.

    Args:
        stream: the file, which must be seekable.
        name: the path that the session gets.
    """
    first = stream.readline(8)
    stream.seek(-len(first), io.SEEK_CUR)
    is_document = first.strip() == b"{"
    log = _Log("gemini", "gemini-json" if is_document else "gemini-jsonl", name)
    if is_document:
        document = Document(stream, log)
        log.read_header(raw.fields(document.value))
        for message in raw.items(document.value, "messages"):
            log.records += 1
            line = document.line_of(raw.text(message, "id"))
            log.replay_message(line, raw.fields(message))
    else:
        for record in read_objects(stream, log):
            log.replay(log.place.line, record)
    yield log.build()


class _Log(SessionBuilder):
    """The builder of a session from the replayed records of a file.

    Attributes:
        project: the SHA-256 of the project's directory.
        messages: line and last version of each message by its id, the first recorded first.
        recorded: the ids of messages with a record of their own, not only in a rewritten history.
    """

    def __init__(self, agent: str, format_name: str, path: str) -> None:
        super().__init__(agent, format_name, path)
        self.project = ""
        self.messages: dict[str, tuple[int, dict[str, Any]]] = {}
        self.recorded: set[str] = set()

    def replay(self, line: int, record: dict[str, Any]) -> None:
        """Apply one record of the JSONL form: a message, a rewind, a header or a patch of it."""
        if "$rewindTo" in record:
            self._rewind(line, raw.text(record, "$rewindTo"))
        elif isinstance(record.get("$set"), dict):
            self.read_header(record["$set"])
            for message in raw.items(record, "$set", "messages"):
                if uid := raw.text(message, "id"):
                    self.messages.setdefault(uid, (line, message))
        elif "sessionId" in record:
            self.read_header(record)
            for message in raw.items(record, "messages"):
                self.replay_message(line, raw.fields(message))
        else:
            self.replay_message(line, record)

    def read_header(self, header: dict[str, Any]) -> None:
        """Read a header or a patch of it; most patches only move `lastUpdated`."""
        self.id = raw.text(header, "sessionId") or self.id
        self.project = raw.text(header, "projectHash") or self.project
        if header.get("kind") == "subagent":
            self.person = "subagent"
            self.worker = "subagent"

    def replay_message(self, line: int, message: dict[str, Any]) -> None:
        """Keep a message with a record of its own, instead of its earlier version if it has one."""
        if uid := raw.text(message, "id"):
            self.messages[uid] = (line, message)
            self.recorded.add(uid)
        else:
            self.count_unknown("")

    def _rewind(self, line: int, uid: str) -> None:
        """Remove a message and all after it, which a person took back, and keep a mark for that."""
        if uid not in self.messages:
            self.count_unknown("$rewindTo")
            return
        order = list(self.messages)
        for later in order[order.index(uid) :]:
            del self.messages[later]
        self.messages[f"{REWIND}:{line}"] = (line, {"type": REWIND})

    def build(self) -> Session:
        """Return the session of the replayed messages."""
        typed = self._find_typed()
        for uid, (line, message) in self.messages.items():
            message_type = message.get("type")
            self.place = Place(line, raw.time(message, "timestamp"))
            if message_type == "user":
                self._add_user_message(uid, message, self.person if uid in typed else "injected")
            elif message_type == "gemini":
                self._add_agent_message(uid, message)
            elif message_type == REWIND:
                self.add_event(self.person, "interrupt", labels=(("via", "rewind"),))
            elif message_type in ("info", "warning", "error"):
                text = raw.joined(message, "content")
                is_compaction = "history compressed from" in text.lower()
                self.add_event("system", "compaction" if is_compaction else "text", text, uid=uid)
            else:
                self.count_unknown(message_type)
        return super().build()

    def _find_typed(self) -> set[str]:
        """Return the ids of the messages of type user that a person may have typed.

        A message without a record of its own, in a rewritten history only, is the program's. If
        none has a record of its own, each may be typed.
        """
        user_ids = {
            uid for uid, (_, message) in self.messages.items() if message.get("type") == "user"
        }
        recorded_ids = user_ids & self.recorded
        return recorded_ids or user_ids

    def _add_user_message(self, uid: str, message: dict[str, Any], person: Actor) -> None:
        """Add the parts of a message of type user: typed words, attached files, results of tools.

        The key `displayContent` has the text that the person saw in the prompt, if the model got
        another one.

        Args:
            uid: the id of the message.
            message: the message.
            person: the actor of the texts in it that Gemini CLI did not write itself.
        """
        content = message.get("content")
        if self._repeats_last_turn(message, person):
            self.add_event("injected", "text", raw.joined(content), uid=uid)
            return

        typed, attached = split_typed(raw.texts(message.get("displayContent") or content))
        for number, text in enumerate(typed):
            part_uid = f"{uid}:{number}" if number else uid
            is_injected = text.lstrip().startswith(INJECTED) or is_envelope(text)
            if SUMMARY in text:
                self.add_event("injected", "compaction", text, uid=part_uid)
            else:
                self.add_event("injected" if is_injected else person, "text", text, uid=part_uid)
        if attached:
            self.add_event("injected", "text", attached)
        for part in raw.items(content):
            if answer := raw.fields(part, "functionResponse"):
                self._add_result(answer, raw.text(answer, "id"), raw.text(answer, "name"), None)

    def _repeats_last_turn(self, message: dict[str, Any], person: Actor) -> bool:
        """Return whether a message holds a hook's words, and only displays the person's last turn.

        Gemini CLI records such a message if a hook of AfterAgent makes the agent continue.
        """
        displayed = raw.joined(message, "displayContent").strip()
        if not displayed or displayed in raw.joined(message, "content").strip():
            return False
        for event in reversed(self.events):
            if event.actor == person and event.kind == "text":
                return event.text.strip() == displayed
        return False

    def _add_agent_message(self, uid: str, message: dict[str, Any]) -> None:
        """Add the text of an agent's message without its thoughts, and its tool calls."""
        content = message.get("content")
        parts = raw.items(content)
        answer_parts = [part for part in parts if not raw.fields(part).get("thought")]
        if text := raw.joined(answer_parts if parts else content):
            self.add_event(self.worker, "text", text, uid=uid)
        for call in raw.items(message, "toolCalls"):
            self._add_call(raw.fields(call))
        for part in parts:
            if call := raw.fields(part, "functionCall"):
                self._add_call(call)

    def _add_call(self, call: dict[str, Any]) -> None:
        """Add a call and its answer; in a rewritten history the answer is a message of its own."""
        uid = raw.text(call, "id")
        tool = raw.text(call, "name")
        arguments = call.get("args")
        root = find_root(raw.fields(arguments), self.project)
        paths = touched_paths(arguments, *PATHS, root=root)
        self.add_call(self.worker, raw.encode(arguments), uid, tool, paths)

        answer: dict[str, Any] = {}
        for part in raw.items(call, "result"):
            answer = answer or raw.fields(part, "functionResponse")
        if call.get("status") == "cancelled":
            self._add_cancellation(answer, uid, tool)
        elif answer or "status" in call:
            self._add_result(answer, uid, tool, call.get("status"))

    def _add_cancellation(self, answer: dict[str, Any], uid: str, tool: str) -> None:
        """Add that a person interrupted or refused a call, with the reason that they typed."""
        match = CANCELLED.match(raw.text(answer, "response", "error"))
        reason = match[1].strip() if match else ""
        phrase = reason.rstrip(".").lower()
        if phrase in ABORTS:
            self.add_event(self.person, "interrupt", uid=uid, tool=tool, ok=False)
            return
        typed_reason = "" if phrase in DENIALS else reason
        self.add_event(self.person, "rejection", typed_reason, uid=uid, tool=tool, ok=False)

    def _add_result(self, answer: dict[str, Any], uid: str, tool: str, status: object) -> None:
        """Add the result of a call: its error, its output, or its whole answer as JSON."""
        response = raw.fields(answer, "response")
        error = raw.text(response, "error")
        text = error or raw.text(response, "output")
        if not text and response:
            text = raw.encode(response)
        exit_code = EXIT_CODE.search(text)
        has_failed_exit = exit_code is not None and exit_code[1] != "0"
        is_failed = status == "error" or bool(error) or has_failed_exit
        self.add_event("tool", "tool_result", text, uid=uid, tool=tool, ok=not is_failed)


def split_typed(texts: list[str]) -> tuple[list[str], str]:
    """Return the texts that were typed, and the files that Gemini CLI added after them, as text."""
    typed: list[str] = []
    for number, text in enumerate(texts):
        words, mark, attached = text.partition(REFERENCED)
        if words.strip():
            typed.append(words)
        if mark:
            return typed, "\n".join([mark + attached, *texts[number + 1 :]])
    return typed, ""


def find_root(arguments: dict[str, Any], project: str) -> str:
    """Return the directory of the project, which a transcript has only as its hash; "" if unknown.

    It is the directory with that hash among the parents of a path in the arguments of a tool.

    Args:
        arguments: the arguments of a tool.
        project: the SHA-256 of the directory, in hexadecimal.
    """
    for name in PATHS:
        path = PurePosixPath(raw.text(arguments, name)[:MAX_PATH])
        for parent in path.parents:
            digest = hashlib.sha256(str(parent).encode("utf-8", "replace")).hexdigest()
            if digest == project:
                return str(parent)
    return ""
