"""Reader of opencode: exports of `opencode export`, and `opencode.db`, which holds all sessions.

Facts from version 1.18.33. A message of the person has parts; those marked `synthetic` are of the
program or of a plugin, as ours is. Each event of a database has the number of its message in the
session as its line: a message that comes later does not change it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.regex import Regex
from memory_ci.sources.agent_events import PATCHED_FILE
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    make_relative_paths,
)
from memory_ci.sources.transcripts.prose import extract_typed_words

FIRST_KEY = Regex(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*"id"\s*:\s*"ses_')
IGNORED_TYPES = (
    "reasoning",
    "file",
    "step-start",
    "step-finish",
    "snapshot",
    "patch",
    "agent",
    "retry",
    "subtask",
)
"""Types of parts that hold no message, call or result."""

REFUSAL_ERROR = Regex(
    r"The user rejected permission to use this specific tool call"
    r"(?:\.|(?: with the following feedback: (.*)))",
    re.DOTALL,
)

OWN_TOOLS = (
    "bash",
    "edit",
    "write",
    "read",
    "glob",
    "grep",
    "list",
    "webfetch",
    "task",
    "apply_patch",
)
"""Tools of opencode itself, whose errors no other server words."""

SESSION_QUERY = "SELECT id, directory, parent_id FROM session ORDER BY time_created, id"
MESSAGE_QUERY = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
PART_QUERY = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"

PART_PREFIX = "prt"
MESSAGE_PREFIX = "msg"
"""Beginnings of the ids of parts and messages; an id with another one was masked, and is none."""


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is an exported session."""
    return bool(FIRST_KEY.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of an export.

    The line of an event is where the file has the id of its message.
    """
    reader = _Reader("opencode", "opencode-export", name)
    document = Document(stream, reader)
    info = raw.get_object(document.value, "info")
    reader.id = raw.get_text(info, "id") or reader.id
    numbered_messages = []
    for message in raw.get_list(document.value, "messages"):
        line = document.find_line(raw.get_text(message, "info", "id"))
        numbered_messages.append((line, message))
    yield reader.add_messages(info, numbered_messages)


def read_database(
    path: Path, name: str, roots: Sequence[Path] = (), session_id: str = ""
) -> Iterator[Session]:
    """Yield the sessions of opencode's database, the earliest first.

    Yield nothing if the database is of another program or cannot be read.

    Args:
        path: the database.
        name: the path that the sessions get.
        roots: work trees; if any, only sessions made in these are read.
        session_id: an id; if not empty, only this session is read.
    """
    with (
        suppress(sqlite3.Error, ValueError, OSError),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database,
    ):
        for row_id, directory, parent_id in database.execute(SESSION_QUERY).fetchall():
            if session_id not in ("", row_id):
                continue
            session_directory = Path(str(directory)).resolve()
            if roots and not any(session_directory.is_relative_to(root) for root in roots):
                continue
            reader = _Reader("opencode", "opencode-db", name, row_id)
            numbered_messages = enumerate(_iter_messages(database, row_id), 1)
            session_info = {"directory": directory, "parentID": parent_id}
            yield reader.add_messages(session_info, numbered_messages)


def _iter_messages(database: sqlite3.Connection, session_id: str) -> Iterator[dict[str, Any]]:
    """Yield the messages of a session in a database, in the form that they have in an export."""
    for message_id, data in database.execute(MESSAGE_QUERY, (session_id,)).fetchall():
        part_rows = database.execute(PART_QUERY, (message_id,))
        parts = [_decode_with_id(part_data, part_id) for part_id, part_data in part_rows]
        yield {"info": _decode_with_id(data, message_id), "parts": parts}


def _decode_with_id(data: object, uid: str) -> dict[str, Any]:
    return raw.get_object(raw.decode(str(data).encode())) | {"id": uid}


class _Reader(SessionBuilder):
    """The builder of one session, of an export or a database."""

    def add_messages(
        self, session: dict[str, Any], messages: Iterable[tuple[int, object]]
    ) -> Session:
        """Add messages, each with its line, and return the session.

        All messages of a session that another session started are a sub-agent's.
        """
        is_of_subagent = bool(raw.get_text(session, "parentID"))
        if is_of_subagent:
            self.user_actor = "subagent"
            self.agent_actor = "subagent"
        for line, message in messages:
            self.records += 1
            info = raw.get_object(message, "info")
            role = info.get("role")
            if role not in ("user", "assistant"):
                self.count_unknown(f"role {role}")
                continue
            self.place = Place(line, _parse_time(raw.get_value(info, "time", "created")))
            self.root = raw.get_text(info, "path", "root").rstrip("/") or raw.get_text(
                session, "directory"
            )

            actor = self.user_actor if role == "user" else self.agent_actor
            is_summary = info.get("summary") is True
            for value in raw.get_list(message, "parts"):
                part = raw.get_object(value)
                is_of_program = part.get("synthetic") is True or part.get("ignored") is True
                self._add_part(part, "injected" if is_of_program or is_summary else actor)
            if not is_of_subagent:
                self._add_interrupt(info)
        return self.build()

    def _add_interrupt(self, info: dict[str, Any]) -> None:
        """Add an interrupt by the person, if a message was aborted."""
        if raw.get_text(info, "error", "name") != "MessageAbortedError":
            return
        uid = raw.get_text(info, "id")
        event_uid = f"{uid}:aborted" if uid.startswith(MESSAGE_PREFIX) else ""
        self.add_event("human", "interrupt", uid=event_uid)

    def _add_part(self, part: dict[str, Any], actor: Actor) -> None:
        """Add a part of a message by its type: a text, a tool call or a compaction."""
        part_type = raw.get_text(part, "type")
        uid = raw.get_text(part, "id")
        if not uid.startswith(PART_PREFIX):
            uid = ""
        if part_type == "text":
            self._add_message_text(raw.get_text(part, "text"), actor, uid)
        elif part_type == "tool":
            self._add_tool(uid, raw.get_text(part, "tool"), raw.get_object(part, "state"))
        elif part_type == "compaction":
            self.add_event("injected", "compaction", uid=uid)
        elif part_type not in IGNORED_TYPES:
            self.count_unknown(part_type)

    def _add_message_text(self, text: str, actor: Actor, uid: str) -> None:
        """Add a text; of a person's text only the words that were typed, if any were."""
        if actor == "human":
            words = extract_typed_words(text)
            if words:
                self.add_text("human", words, uid)
                return
            actor = "injected"
        self.add_text(actor, text, uid)

    def _add_tool(self, uid: str, tool: str, state: dict[str, Any]) -> None:
        """Add a call of a tool, and its result or a person's refusal if the call has ended.

        Args:
            uid: the id of the part, "" if it has none.
            tool: the name of the tool.
            state: the state of the call, with its arguments and what came of it.
        """
        arguments = raw.get_object(state, "input")
        patched_paths = PATCHED_FILE.findall(raw.get_text(arguments, "patchText"))
        paths = make_relative_paths(
            [raw.get_text(arguments, "filePath"), *patched_paths], self.root
        )
        self.add_call(self.agent_actor, raw.encode(arguments), uid, tool, paths)

        status = state.get("status")
        if status == "completed":
            exit_code = raw.get_object(state, "metadata").get("exit")
            self._add_result(uid, tool, state, ok=exit_code in (None, 0))
        elif status == "error":
            # A tool of another server may word an error like a refusal; nobody asks about the
            # calls of a sub-agent.
            refusal = None
            if tool in OWN_TOOLS and self.agent_actor == "agent":
                refusal = REFUSAL_ERROR.fullmatch(raw.get_text(state, "error"))
            if refusal:
                reason = refusal[1] or ""
                self.add_event("human", "rejection", reason, uid=uid, tool=tool, paths=paths)
            else:
                self._add_result(uid, tool, state, ok=False)

    def _add_result(self, uid: str, tool: str, state: dict[str, Any], *, ok: bool) -> None:
        """Add the output of a tool, or its error if it has no output."""
        text = raw.get_text(state, "output") or raw.get_text(state, "error")
        self.add_event("tool", "tool_result", text, uid=uid, tool=tool, ok=ok)


def _parse_time(value: object) -> datetime | None:
    """Return the time of a number of milliseconds since the epoch, None for another value."""
    if not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
