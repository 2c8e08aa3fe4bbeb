"""Gemini CLI: one JSON object (until 0.4x), or one record a line that is replayed into messages (since).

Facts from the public source (`chatRecordingService`) and from a file that version 0.61 wrote: a message is written in
full again whenever its tool calls change, so the last version of an id counts; `$set.messages` rewrites the model's
own history (start, resume, compression), shortens what was recorded, and adds messages that nobody typed; `$rewindTo`
takes back a message and all after it.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, EventKind, Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    read_objects,
    touched_paths,
)
from memory_ci.sources.transcripts.prose import is_envelope

# How text begins that Gemini CLI puts into a message of type user.
INJECTED = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "System: Please continue.",
    "<hook_context>",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
)

SUMMARY = "<state_snapshot>"  # What /compress leaves of the history, as a message of type user.
# After this line a message holds the files that it names with @: nobody typed them.
REFERENCED = "--- Content from referenced files ---"
CANCELLED = re.compile(r"^\[Operation Cancelled\] Reason: (.*)", re.DOTALL)
# Reasons that stand for a bare no; whatever else is given as a reason is the person's own.
DENIALS = frozenset(
    {"user did not allow tool call", "user denied execution", "tool call cancelled by user", ""}
)
# Reasons that stand for Escape or Ctrl-C while the agent worked.
ABORTS = frozenset(
    """operation cancelled|operation cancelled by user|user cancelled tool execution|user cancelled the operation|
    tool call cancelled|request cancelled|user cancelled operation""".replace("\n    ", "").split(
        "|"
    )
)

PATHS = ("file_path", "absolute_path", "path")
MAX_PATH = 1_000  # Characters that are looked through for the directory of the project.
EXIT_CODE = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
REWIND = "$rewind"


def sniff(head: bytes) -> bool:
    """True for the header of the JSONL form, and for the first keys of the single object."""
    if first := raw.fields(raw.decode(head.lstrip().partition(b"\n")[0])):
        return {"sessionId", "projectHash"} <= first.keys() and "uuid" not in first
    keys = (rb'"sessionId"\s*:\s*"', rb'"projectHash"\s*:\s*"', rb'"startTime"\s*:\s*"')
    return head.lstrip().startswith(b"{") and all(re.search(key, head[:4096]) for key in keys)


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file of either form; `stream` must be seekable. `Origin.line` is, in the JSONL form, the
    line of the message's last version; in the single object, the line where the message's id stands."""
    first = stream.readline(8)
    stream.seek(-len(first), io.SEEK_CUR)
    is_document = first.strip() == b"{"
    log = _Log("gemini", "gemini-json" if is_document else "gemini-jsonl", name)
    if is_document:
        document = Document(stream, log)
        log.header(raw.fields(document.value))
        for message in raw.items(document.value, "messages"):
            log.records += 1
            log.message(document.line_of(raw.text(message, "id")), raw.fields(message))
    else:
        for record in read_objects(stream, log):
            log.take(log.place.line, record)
    yield log.build()


class _Log(SessionBuilder):
    """The records of a file, replayed: of each message the last version, in the order of their first. `recorded` are
    ids with a record of their own, not only in a rewritten history."""

    def __init__(self, agent: str, format_name: str, path: str) -> None:
        super().__init__(agent, format_name, path)
        self.project = ""
        self.messages: dict[str, tuple[int, dict[str, Any]]] = {}
        self.recorded: set[str] = set()

    def take(self, line: int, record: dict[str, Any]) -> None:
        if "$rewindTo" in record:
            self._rewind(line, raw.text(record, "$rewindTo"))
        elif isinstance(record.get("$set"), dict):
            self.header(record["$set"])
            for message in raw.items(record, "$set", "messages"):
                if uid := raw.text(message, "id"):
                    self.messages.setdefault(uid, (line, message))
        elif "sessionId" in record:
            self.header(record)
            for message in raw.items(record, "messages"):
                self.message(line, raw.fields(message))
        else:
            self.message(line, record)

    def header(self, found: dict[str, Any]) -> None:
        """What a header or a patch says of the session; most patches only move `lastUpdated`."""
        self.id = raw.text(found, "sessionId") or self.id
        self.project = raw.text(found, "projectHash") or self.project
        if found.get("kind") == "subagent":
            self.person = self.worker = "subagent"

    def message(self, line: int, message: dict[str, Any]) -> None:
        """A message with a record of its own."""
        if uid := raw.text(message, "id"):
            self.messages[uid] = (line, message)
            self.recorded.add(uid)
        else:
            self.unknown("")

    def _rewind(self, line: int, uid: str) -> None:
        """What a person took back counts no more; that it was taken back does."""
        order = list(self.messages)
        if uid not in self.messages:
            self.unknown("$rewindTo")
            return
        for later in order[order.index(uid) :]:
            del self.messages[later]
        self.messages[f"{REWIND}:{line}"] = (line, {"type": REWIND})

    def build(self) -> Session:
        users = {
            uid for uid, (_, message) in self.messages.items() if message.get("type") == "user"
        }
        synthetic = users - (users & self.recorded or users)
        for uid, (line, message) in self.messages.items():
            kind, self.place = message.get("type"), Place(line, raw.time(message, "timestamp"))
            if kind == "user":
                self._user(uid, message, "injected" if uid in synthetic else self.person)
            elif kind == "gemini":
                self._agent(uid, message)
            elif kind == REWIND:
                self.add(self.person, "interrupt", labels=(("via", "rewind"),))
            elif kind in ("info", "warning", "error"):
                text = raw.joined(message, "content")
                is_compaction = "history compressed from" in text.lower()
                self.add("system", "compaction" if is_compaction else "text", text, uid=uid)
            else:
                self.unknown(kind)
        return super().build()

    def _user(self, uid: str, message: dict[str, Any], person: Actor) -> None:
        """`displayContent` is what the person saw in the prompt, where it differs from what the model got."""
        content = message.get("content")
        shown, given = (raw.joined(message, key).strip() for key in ("displayContent", "content"))
        said = (
            event.text
            for event in reversed(self.events)
            if (event.actor, event.kind) == (person, "text")
        )
        if shown and shown not in given and next(said, "").strip() == shown:
            # the model got a hook's words (a denied AfterAgent), shown as the person's last turn once more
            self.add("injected", "text", raw.joined(content), uid=uid)
            return
        typed, rest = split_typed(raw.texts(message.get("displayContent") or content))
        for number, text in enumerate(typed):
            own = f"{uid}:{number}" if number else uid
            is_ours = text.lstrip().startswith(INJECTED) or is_envelope(text)
            if SUMMARY in text:
                self.add("injected", "compaction", text, uid=own)
            else:
                self.add("injected" if is_ours else person, "text", text, uid=own)
        if rest:
            self.add("injected", "text", rest)
        for part in raw.items(content):
            if answer := raw.fields(part, "functionResponse"):
                self._result(answer, raw.text(answer, "id"), raw.text(answer, "name"), None)

    def _agent(self, uid: str, message: dict[str, Any]) -> None:
        content = message.get("content")
        parts = raw.items(content)
        spoken = [part for part in parts if not raw.fields(part).get("thought")]
        if text := raw.joined(spoken if parts else content):
            self.add(self.worker, "text", text, uid=uid)
        for call in (
            *raw.items(message, "toolCalls"),
            *filter(None, (raw.fields(part, "functionCall") for part in parts)),
        ):
            self._call(raw.fields(call))

    def _call(self, call: dict[str, Any]) -> None:
        """A call and its answer; in a rewritten history the answer stands in a message of its own."""
        uid, tool, given = raw.text(call, "id"), raw.text(call, "name"), call.get("args")
        paths = touched_paths(given, *PATHS, root=find_root(raw.fields(given), self.project))
        self.call(self.worker, raw.encode(given), uid, tool, paths)
        found = (raw.fields(part, "functionResponse") for part in raw.items(call, "result"))
        answer = next((one for one in found if one), {})
        if call.get("status") == "cancelled":
            told = CANCELLED.match(raw.text(answer, "response", "error"))
            reason = told[1].strip() if told else ""
            bare = reason.rstrip(".").lower()
            kind: EventKind = "interrupt" if bare in ABORTS else "rejection"
            text = "" if bare in ABORTS | DENIALS else reason
            self.add(self.person, kind, text, uid=uid, tool=tool, ok=False)
        elif answer or "status" in call:
            self._result(answer, uid, tool, call.get("status"))

    def _result(self, answer: dict[str, Any], uid: str, tool: str, status: object) -> None:
        response = raw.fields(answer, "response")
        error = raw.text(response, "error")
        text = error or raw.text(response, "output") or (raw.encode(response) if response else "")
        exit_code = EXIT_CODE.search(text)
        failed = status == "error" or bool(error) or (exit_code is not None and exit_code[1] != "0")
        self.add("tool", "tool_result", text, uid=uid, tool=tool, ok=not failed)


def split_typed(texts: list[str]) -> tuple[list[str], str]:
    """What was typed, and the files that the command line added after it."""
    typed: list[str] = []
    for number, text in enumerate(texts):
        words, mark, rest = text.partition(REFERENCED)
        if words.strip():
            typed.append(words)
        if mark:
            return typed, "\n".join([mark + rest, *texts[number + 1 :]])
    return typed, ""


def find_root(given: dict[str, Any], project: str) -> str:
    """The directory of the project, above a path that a tool was given: a header names its SHA-256 alone."""
    paths = (PurePosixPath(raw.text(given, name)[:MAX_PATH]) for name in PATHS)
    above = (str(parent) for path in paths for parent in path.parents)
    return next(
        (
            one
            for one in above
            if hashlib.sha256(one.encode("utf-8", "replace")).hexdigest() == project
        ),
        "",
    )
