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
from typing import Any, BinaryIO, NamedTuple

from memory_ci.records.event import Actor, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    find_touched_paths,
    read_objects,
)
from memory_ci.sources.transcripts.prose import looks_program_written

INJECTED_BEGINNINGS = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "System: Please continue.",
    "<hook_context>",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
)
"""Beginnings of texts that Gemini CLI puts into a message of type user."""

SUMMARY = "<state_snapshot>"  # The history after /compress, as a message of type user.

ATTACHMENTS_BEGIN = "--- Content from referenced files ---"
"""After this line a message holds the files that it names with @: nobody typed them."""

CANCELLED = Regex(r"^\[Operation Cancelled\] Reason: (.*)", re.DOTALL)

BARE_DENIAL_REASONS = frozenset(
    {"user did not allow tool call", "user denied execution", "tool call cancelled by user", ""}
)
"""Reasons for a cancelled call that mean a bare no; any other reason is the person's own."""

ABORT_REASONS = frozenset(
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

PATH_ARGUMENTS = ("file_path", "absolute_path", "path")
MAX_PATH = 1_000  # Characters that are searched for the directory of the project.
EXIT_CODE = Regex(r"^Exit Code: (-?\d+)$", re.MULTILINE)
REWIND = "$rewind"


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is Gemini CLI's, in either form."""
    if header := raw.get_object(raw.decode(head.lstrip().partition(b"\n")[0])):
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
        log.read_header(raw.get_object(document.value))
        for message in raw.get_list(document.value, "messages"):
            log.records += 1
            line = document.find_line(raw.get_text(message, "id"))
            log.replay_message(line, raw.get_object(message))
    else:
        for record in read_objects(stream, log):
            log.replay(log.place.line, record)
    yield log.build()


class _Log(SessionBuilder):
    """The builder of a session from the replayed records of a file.

    Attributes:
        project: the SHA-256 of the project's directory.
        messages: line and last version of each message by its id, the first recorded first.
        recorded_ids: the ids of messages with a record of their own, not only in the list of a
            `$set.messages` record.
    """

    def __init__(self, agent: str, format_name: str, path: str) -> None:
        super().__init__(agent, format_name, path)
        self.project = ""
        self.messages: dict[str, tuple[int, dict[str, Any]]] = {}
        self.recorded_ids: set[str] = set()

    def replay(self, line: int, record: dict[str, Any]) -> None:
        """Apply one record of the JSONL form: a message, a rewind, a header or a patch of it."""
        if "$rewindTo" in record:
            self._rewind(line, raw.get_text(record, "$rewindTo"))
        elif isinstance(record.get("$set"), dict):
            self.read_header(record["$set"])
            for message in raw.get_list(record, "$set", "messages"):
                if uid := raw.get_text(message, "id"):
                    self.messages.setdefault(uid, (line, message))
        elif "sessionId" in record:
            self.read_header(record)
            for message in raw.get_list(record, "messages"):
                self.replay_message(line, raw.get_object(message))
        else:
            self.replay_message(line, record)

    def read_header(self, header: dict[str, Any]) -> None:
        """Read a header or a patch of it; most patches only move `lastUpdated`."""
        self.id = raw.get_text(header, "sessionId") or self.id
        self.project = raw.get_text(header, "projectHash") or self.project
        if header.get("kind") == "subagent":
            self.user_actor = "subagent"
            self.agent_actor = "subagent"

    def replay_message(self, line: int, message: dict[str, Any]) -> None:
        """Keep a message with a record of its own, instead of its earlier version if it has one."""
        if uid := raw.get_text(message, "id"):
            self.messages[uid] = (line, message)
            self.recorded_ids.add(uid)
        else:
            self.count_unknown("")

    def _rewind(self, line: int, uid: str) -> None:
        """Remove a message and all after it, which a person took back.

        In their place comes a message of our own type REWIND, from which `build` makes an
        interrupt. A rewind to a message that is not known counts as an unknown record.
        """
        if uid not in self.messages:
            self.count_unknown("$rewindTo")
            return
        ordered_ids = list(self.messages)
        for removed_id in ordered_ids[ordered_ids.index(uid) :]:
            del self.messages[removed_id]
        self.messages[f"{REWIND}:{line}"] = (line, {"type": REWIND})

    def build(self) -> Session:
        """Return the session of the replayed messages."""
        typed_ids = self._find_typed_ids()
        for uid, (line, message) in self.messages.items():
            message_type = message.get("type")
            self.place = Place(line, raw.get_time(message, "timestamp"))
            if message_type == "user":
                sender = self.user_actor if uid in typed_ids else "injected"
                self._add_user_message(uid, message, sender)
            elif message_type == "gemini":
                self._add_agent_message(uid, message)
            elif message_type == REWIND:
                self.add_event(self.user_actor, "interrupt", labels=(("via", "rewind"),))
            elif message_type in ("info", "warning", "error"):
                text = raw.get_joined_text(message, "content")
                is_compaction = "history compressed from" in text.lower()
                self.add_event("system", "compaction" if is_compaction else "text", text, uid=uid)
            else:
                self.count_unknown(message_type)
        return super().build()

    def _find_typed_ids(self) -> set[str]:
        """Return the ids of the messages of type user that a person may have typed.

        Gemini CLI writes a record for each message that a person sends. A message that only a
        `$set.messages` record has was made by the program. If no message of type user has a record
        of its own, this rule does not tell, and all are returned.
        """
        user_ids = {
            uid for uid, (_, message) in self.messages.items() if message.get("type") == "user"
        }
        recorded_ids = user_ids & self.recorded_ids
        return recorded_ids or user_ids

    def _add_user_message(self, uid: str, message: dict[str, Any], sender: Actor) -> None:
        """Add the parts of a message of type user: typed words, attached files, results of tools.

        The key `displayContent` has the text that the person saw in the prompt, if the model got
        another one.

        Args:
            uid: the id of the message.
            message: the message.
            sender: the actor of its texts, except for those that Gemini CLI is known to add.
        """
        content = message.get("content")
        if self._repeats_last_turn(message, sender):
            # A hook's words for the model, under the person's words for display.
            self.add_event("injected", "text", raw.get_joined_text(content), uid=uid)
            return

        user_texts = split_user_texts(raw.list_texts(message.get("displayContent") or content))
        for number, text in enumerate(user_texts.typed_texts):
            part_uid = f"{uid}:{number}" if number else uid
            is_added = text.lstrip().startswith(INJECTED_BEGINNINGS)
            if SUMMARY in text:
                self.add_event("injected", "compaction", text, uid=part_uid)
            elif is_added or looks_program_written(text):
                self.add_event("injected", "text", text, uid=part_uid)
            else:
                self.add_event(sender, "text", text, uid=part_uid)
        attached = user_texts.attached_text
        if attached:
            self.add_event("injected", "text", attached)
        for part in raw.get_list(content):
            if answer := raw.get_object(part, "functionResponse"):
                self._add_result(
                    answer, raw.get_text(answer, "id"), raw.get_text(answer, "name"), None
                )

    def _repeats_last_turn(self, message: dict[str, Any], sender: Actor) -> bool:
        """Return whether a message holds a hook's words, and only displays the person's last turn.

        Gemini CLI records such a message if a hook of AfterAgent makes the agent continue.
        """
        displayed = raw.get_joined_text(message, "displayContent").strip()
        if not displayed or displayed in raw.get_joined_text(message, "content").strip():
            return False
        for event in reversed(self.events):
            if event.actor == sender and event.kind == "text":
                return event.text.strip() == displayed
        return False

    def _add_agent_message(self, uid: str, message: dict[str, Any]) -> None:
        """Add the text of an agent's message without its thoughts, and its tool calls."""
        content = message.get("content")
        parts = raw.get_list(content)
        answer_parts = [part for part in parts if not raw.get_object(part).get("thought")]
        if text := raw.get_joined_text(answer_parts if parts else content):
            self.add_event(self.agent_actor, "text", text, uid=uid)
        for call in raw.get_list(message, "toolCalls"):
            self._add_call(raw.get_object(call))
        for part in parts:
            if call := raw.get_object(part, "functionCall"):
                self._add_call(call)

    def _add_call(self, call: dict[str, Any]) -> None:
        """Add a call, and its answer if the call has one.

        A call in a message of a `$set.messages` record has no `status`: its answer is another
        message.
        """
        uid = raw.get_text(call, "id")
        tool = raw.get_text(call, "name")
        arguments = call.get("args")
        root = find_root(raw.get_object(arguments), self.project)
        paths = find_touched_paths(arguments, *PATH_ARGUMENTS, root=root)
        self.add_call(self.agent_actor, raw.encode(arguments), uid, tool, paths)

        answer: dict[str, Any] = {}
        for part in raw.get_list(call, "result"):
            answer = raw.get_object(part, "functionResponse")
            if answer:
                break
        if call.get("status") == "cancelled":
            self._add_cancellation(answer, uid, tool)
        elif answer or "status" in call:
            self._add_result(answer, uid, tool, call.get("status"))

    def _add_cancellation(self, answer: dict[str, Any], uid: str, tool: str) -> None:
        """Add that a person interrupted or refused a call, with the reason that they typed."""
        match = CANCELLED.match(raw.get_text(answer, "response", "error"))
        reason = match[1].strip() if match else ""
        lowered_reason = reason.rstrip(".").lower()
        if lowered_reason in ABORT_REASONS:
            self.add_event(self.user_actor, "interrupt", uid=uid, tool=tool, ok=False)
            return
        typed_reason = "" if lowered_reason in BARE_DENIAL_REASONS else reason
        self.add_event(self.user_actor, "rejection", typed_reason, uid=uid, tool=tool, ok=False)

    def _add_result(self, answer: dict[str, Any], uid: str, tool: str, status: object) -> None:
        """Add the result of a call: its error, its output, or its whole answer as JSON."""
        response = raw.get_object(answer, "response")
        error = raw.get_text(response, "error")
        text = error or raw.get_text(response, "output")
        if not text and response:
            text = raw.encode(response)
        exit_code = EXIT_CODE.search(text)
        has_failed_exit = exit_code is not None and exit_code[1] != "0"
        is_failed = status == "error" or bool(error) or has_failed_exit
        self.add_event("tool", "tool_result", text, uid=uid, tool=tool, ok=not is_failed)


class UserTexts(NamedTuple):
    """The texts of a message that were typed, and the files that Gemini CLI added after them."""

    typed_texts: list[str]
    attached_text: str = ""


def split_user_texts(texts: list[str]) -> UserTexts:
    """Return the texts of a message, split at the line where Gemini CLI's additions begin."""
    typed_texts: list[str] = []
    for number, text in enumerate(texts):
        words, separator, attached = text.partition(ATTACHMENTS_BEGIN)
        if words.strip():
            typed_texts.append(words)
        if separator:
            attached_text = "\n".join([separator + attached, *texts[number + 1 :]])
            return UserTexts(typed_texts, attached_text)
    return UserTexts(typed_texts)


def find_root(arguments: dict[str, Any], project: str) -> str:
    """Return the directory of the project, which a transcript has only as its hash; "" if unknown.

    It is the directory with that hash among the parents of a path in the arguments of a tool.

    Args:
        arguments: the arguments of a tool.
        project: the SHA-256 of the directory, in hexadecimal.
    """
    for name in PATH_ARGUMENTS:
        path = PurePosixPath(raw.get_text(arguments, name)[:MAX_PATH])
        for parent in path.parents:
            digest = hashlib.sha256(str(parent).encode("utf-8", "replace")).hexdigest()
            if digest == project:
                return str(parent)
    return ""
