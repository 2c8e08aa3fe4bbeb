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
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    as_dict,
    as_list,
    as_text,
    decode,
    encode,
    joined_text,
    parse_time,
    read_objects,
    session_name,
    text_parts,
    touched_paths,
)

INJECTED = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "System: Please continue.",
    "<hook_context>",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
)
"""How text begins that Gemini CLI puts into a message of type user."""

SUMMARY = "<state_snapshot>"  # What /compress leaves of the history, as a message of type user.
REFERENCED = "--- Content from referenced files ---"
"""After this line a message holds the files that it names with @: nobody typed them."""

CANCELLED = re.compile(r"^\[Operation Cancelled\] Reason: (.*)", re.DOTALL)
DENIALS = frozenset({"user did not allow tool call", "user denied execution", "tool call cancelled by user", ""})
"""Reasons that stand for a bare no; whatever else is given as a reason is the person's own."""
ABORTS = frozenset(
    """operation cancelled|operation cancelled by user|user cancelled tool execution|user cancelled the operation|
    tool call cancelled|request cancelled|user cancelled operation""".replace("\n    ", "").split("|")
)
"""Reasons that stand for Escape or Ctrl-C while the agent worked."""

PATHS = ("file_path", "absolute_path", "path")
MAX_PATH = 1_000  # Characters that are looked through for the directory of the project.
EXIT_CODE = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)


def answer_of(result: object) -> dict[str, Any]:
    """The function response among the parts of a result."""
    found = (as_dict(as_dict(part).get("functionResponse")) for part in as_list(result))
    return next((answer for answer in found if answer), {})


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
    paths = (PurePosixPath(as_text(given.get(name))[:MAX_PATH]) for name in PATHS)
    above = (str(parent) for path in paths for parent in path.parents)
    return next((one for one in above if hashlib.sha256(one.encode("utf-8", "replace")).hexdigest() == project), "")


REWIND = "$rewind"


def sniff(head: bytes) -> bool:
    """True for the header of the JSONL form, and for the first keys of the single object."""
    first = as_dict(decode(head.lstrip().partition(b"\n")[0]))
    if first:
        return {"sessionId", "projectHash"} <= first.keys() and "uuid" not in first
    start = head[:4096]
    return head.lstrip().startswith(b"{") and all(
        re.search(rb'"' + key + rb'"\s*:\s*"', start) for key in (b"sessionId", b"projectHash", b"startTime")
    )


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file of either form; `stream` must be seekable.

    `Origin.line` is, in the JSONL form, the line of the message's last version; in the single object, the line where
    the message's id stands.
    """
    first = stream.readline(8)
    stream.seek(-len(first), io.SEEK_CUR)
    is_document = first.strip() == b"{"
    builder = SessionBuilder("gemini", session_name(name), "gemini-json" if is_document else "gemini-jsonl", name)
    log = _Log(builder)
    if is_document:
        _read_document(Document(stream, builder), log)
    else:
        for line, record in read_objects(stream, builder):
            log.take(line, record)
    yield log.build()


def _read_document(document: Document, log: _Log) -> None:
    found = as_dict(document.value)
    log.header(found)
    for message in as_list(found.get("messages")):
        log.builder.record()
        log.message(document.line_of(as_text(as_dict(message).get("id"))), message)


class _Log:
    """The records of a file, replayed: of each message the last version, in the order of their first."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.person: Actor = "human"
        self.agent: Actor = "agent"
        self.project = ""
        self.messages: dict[str, tuple[int, dict[str, Any]]] = {}
        self.recorded: set[str] = set()  # ids with a record of their own, not only in a rewritten history

    def take(self, line: int, record: dict[str, Any]) -> None:
        if "$rewindTo" in record:
            self._rewind(line, as_text(record["$rewindTo"]))
        elif isinstance(record.get("$set"), dict):
            self.header(record["$set"])
            for message in as_list(record["$set"].get("messages")):
                self._rewritten(line, message)
        elif "sessionId" in record:
            self.header(record)
            for message in as_list(record.get("messages")):
                self.message(line, message)
        else:
            self.message(line, record)

    def header(self, found: dict[str, Any]) -> None:
        """What a header or a patch says of the session; most patches only move `lastUpdated`."""
        self.builder.id = as_text(found.get("sessionId")) or self.builder.id
        self.project = as_text(found.get("projectHash")) or self.project
        if found.get("kind") == "subagent":
            self.person = self.agent = "subagent"

    def message(self, line: int, message: object) -> None:
        found = as_dict(message)
        if uid := as_text(found.get("id")):
            self.messages[uid] = (line, found)
            self.recorded.add(uid)
        else:
            self.builder.unknown("untyped")

    def _rewritten(self, line: int, message: object) -> None:
        found = as_dict(message)
        if uid := as_text(found.get("id")):
            self.messages.setdefault(uid, (line, found))

    def _rewind(self, line: int, uid: str) -> None:
        """What a person took back counts no more; that it was taken back does."""
        order = list(self.messages)
        if uid not in self.messages:
            self.builder.unknown("$rewindTo")
            return
        for later in order[order.index(uid) :]:
            del self.messages[later]
        self.messages[f"{REWIND}:{line}"] = (line, {"type": REWIND})

    def build(self) -> Session:
        users = {uid for uid, (_, message) in self.messages.items() if message.get("type") == "user"}
        typed = users & self.recorded or users
        for uid, (line, message) in self.messages.items():
            is_synthetic = uid in users - typed
            actor: Actor = "injected" if is_synthetic else self.person
            _Message(self.builder, uid, line, message, self.project).add(actor, self.agent)
        return self.builder.build()


class _Message:
    """One message on its way to events."""

    def __init__(self, builder: SessionBuilder, uid: str, line: int, message: dict[str, Any], project: str) -> None:
        self.builder, self.uid, self.found, self.project = builder, uid, message, project
        self.place = Place(line, parse_time(message.get("timestamp")))

    def add(self, person: Actor, agent: Actor) -> None:
        kind = self.found.get("type")
        if kind == "user":
            self._user(person)
        elif kind == "gemini":
            self._agent(person, agent)
        elif kind == REWIND:
            self.builder.add(person, "interrupt", "", self.place, labels=(("via", "rewind"),))
        elif kind in ("info", "warning", "error"):
            self._notice()
        else:
            self.builder.unknown(as_text(kind) or "untyped")

    def _user(self, person: Actor) -> None:
        """`displayContent` is what the person saw in the prompt, where it differs from what the model got."""
        content = self.found.get("content")
        if self._is_retry(person):
            self.builder.add("injected", "text", joined_text(content), self.place, uid=self.uid)
            return
        typed, rest = split_typed(text_parts(self.found.get("displayContent") or content))
        for number, text in enumerate(typed):
            self._typed(person, text, f"{self.uid}:{number}" if number else self.uid)
        if rest:
            self.builder.add("injected", "text", rest, self.place)
        for part in as_list(content):
            if answer := as_dict(as_dict(part).get("functionResponse")):
                self._result(answer, as_text(answer.get("name")), None)

    def _is_retry(self, person: Actor) -> bool:
        """Whether the model got a hook's words (a denied AfterAgent), shown as the person's last turn once more."""
        shown, given = (joined_text(self.found.get(key)).strip() for key in ("displayContent", "content"))
        said = (event for event in reversed(self.builder.events) if (event.actor, event.kind) == (person, "text"))
        last = next(said, None)
        return bool(shown) and last is not None and last.text.strip() == shown and shown not in given

    def _typed(self, person: Actor, text: str, uid: str) -> None:
        if SUMMARY in text:
            self.builder.add("injected", "compaction", text, self.place, uid=uid)
        else:
            actor: Actor = "injected" if text.lstrip().startswith(INJECTED) else person
            self.builder.add(actor, "text", text, self.place, uid=uid)

    def _notice(self) -> None:
        text = joined_text(self.found.get("content"))
        is_compaction = "history compressed from" in text.lower()
        kind: EventKind = "compaction" if is_compaction else "text"
        self.builder.add("system", kind, text, self.place, uid=self.uid)

    def _agent(self, person: Actor, agent: Actor) -> None:
        content = self.found.get("content")
        parts = as_list(content)
        spoken = [part for part in parts if not as_dict(part).get("thought")]
        if text := joined_text(spoken if parts else content):
            self.builder.add(agent, "text", text, self.place, uid=self.uid)
        for call in as_list(self.found.get("toolCalls")):
            self._call(as_dict(call), person, agent)
        for part in parts:
            if call := as_dict(as_dict(part).get("functionCall")):
                self._call(call, person, agent)

    def _call(self, call: dict[str, Any], person: Actor, agent: Actor) -> None:
        """A call and its answer; in a rewritten history the answer stands in a message of its own."""
        uid, tool = as_text(call.get("id")), as_text(call.get("name"))
        self.builder.add(
            agent,
            "tool_call",
            encode(call.get("args")),
            self.place,
            uid=uid and f"{uid}:call",
            tool=tool,
            paths=touched_paths(call.get("args"), *PATHS, root=find_root(as_dict(call.get("args")), self.project)),
        )
        if call.get("status") == "cancelled":
            self._cancelled(call, person, uid, tool)
        elif (answer := answer_of(call.get("result"))) or "status" in call:
            self._result(answer | {"id": uid}, tool, call.get("status"))

    def _cancelled(self, call: dict[str, Any], person: Actor, uid: str, tool: str) -> None:
        error = as_text(as_dict(answer_of(call.get("result")).get("response")).get("error"))
        found = CANCELLED.match(error)
        reason = found[1].strip() if found else ""
        bare = reason.rstrip(".").lower()
        kind: EventKind = "interrupt" if bare in ABORTS else "rejection"
        text = "" if bare in ABORTS | DENIALS else reason
        self.builder.add(person, kind, text, self.place, uid=uid, tool=tool, ok=False)

    def _result(self, answer: dict[str, Any], tool: str, status: object) -> None:
        response = as_dict(answer.get("response"))
        error = as_text(response.get("error"))
        text = error or as_text(response.get("output")) or (encode(response) if response else "")
        exit_code = EXIT_CODE.search(text)
        failed = status == "error" or bool(error) or (exit_code is not None and exit_code[1] != "0")
        self.builder.add(
            "tool", "tool_result", text, self.place, uid=as_text(answer.get("id")), tool=tool, ok=not failed
        )
