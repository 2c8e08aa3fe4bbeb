"""opencode: what `opencode export` writes, and `opencode.db`, where it keeps all sessions. Facts from version 1.18.33.

A message of the person has parts; those marked `synthetic` are of the program or of a plugin, as ours is. Each event
of a database has the number of its message in the session as its line: a message that comes later does not change it.
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
from memory_ci.sources.agent_events import PATCHED
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Document, Place, SessionBuilder, relative_paths
from memory_ci.sources.transcripts.prose import typed_words

FIRST = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*"id"\s*:\s*"ses_')
SILENT = (
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
REFUSED = re.compile(
    r"The user rejected permission to use this specific tool call(?:\.|(?: with the following feedback: (.*)))",
    re.DOTALL,
)
# Tools of opencode itself, whose errors no server words.
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
SESSIONS = "SELECT id, directory, parent_id FROM session ORDER BY time_created, id"
MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"


def sniff(head: bytes) -> bool:
    """Whether it begins as an exported session does."""
    return bool(FIRST.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of an export."""
    reader = _Reader("opencode", "opencode-export", name)
    document = Document(stream, reader)
    info = raw.fields(document.value, "info")
    reader.id = raw.text(info, "id") or reader.id
    messages = raw.items(document.value, "messages")
    yield reader.fill(
        info, ((document.line_of(raw.text(one, "info", "id")), one) for one in messages)
    )


def read_database(
    path: Path, name: str, roots: Sequence[Path] = (), own: str = ""
) -> Iterator[Session]:
    """The sessions of a database, the earliest first: those made in `roots`, and the one called `own`, where named. A
    database of another program, or one that cannot be read, has none."""
    with (
        suppress(sqlite3.Error, ValueError, OSError),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as found,
    ):
        for uid, directory, parent in found.execute(SESSIONS).fetchall():
            where = Path(str(directory)).resolve()
            if own in ("", uid) and (
                not roots or any(where.is_relative_to(root) for root in roots)
            ):
                reader = _Reader("opencode", "opencode-db", name, uid)
                messages = enumerate(_list_messages(found, uid), 1)
                yield reader.fill({"directory": directory, "parentID": parent}, messages)


def _list_messages(found: sqlite3.Connection, session: str) -> Iterator[dict[str, Any]]:
    """The messages as an export has them."""
    for uid, data in found.execute(MESSAGES, (session,)).fetchall():
        parts = [_identified(part, key) for key, part in found.execute(PARTS, (uid,))]
        yield {"info": _identified(data, uid), "parts": parts}


def _identified(data: object, uid: str) -> dict[str, Any]:
    return raw.fields(raw.decode(str(data).encode())) | {"id": uid}


PART_PREFIX, MESSAGE_PREFIX = "prt", "msg"
"""How ids of parts and of messages begin; one that does not was masked, and is no id."""


class _Reader(SessionBuilder):
    """One session, of an export or a database."""

    def fill(self, session: dict[str, Any], messages: Iterable[tuple[int, object]]) -> Session:
        """What was said and done. What stands in a session that another one began is of a sub-agent."""
        if is_inner := bool(raw.text(session, "parentID")):
            self.person = self.worker = "subagent"
        for line, message in messages:
            self.records += 1
            info = raw.fields(message, "info")
            uid, role = raw.text(info, "id"), info.get("role")
            if role not in ("user", "assistant"):
                self.unknown(f"role {role}")
                continue
            self.place = Place(line, _time(raw.value(info, "time", "created")))
            self.root = raw.text(info, "path", "root").rstrip("/") or raw.text(session, "directory")
            for part in map(raw.fields, raw.items(message, "parts")):
                marks = (part.get("synthetic"), part.get("ignored"), info.get("summary"))
                is_ours = any(mark is True for mark in marks)
                self._add_part(
                    part, "injected" if is_ours else self.person if role == "user" else self.worker
                )
            if raw.text(info, "error", "name") == "MessageAbortedError" and not is_inner:
                self.add(
                    "human",
                    "interrupt",
                    uid=f"{uid}:aborted" if uid.startswith(MESSAGE_PREFIX) else "",
                )
        return self.build()

    def _add_part(self, part: dict[str, Any], speaker: Actor) -> None:
        kind, key = raw.text(part, "type"), raw.text(part, "id")
        key = key if key.startswith(PART_PREFIX) else ""
        if kind == "text":
            text = raw.text(part, "text")
            if speaker == "human" and not (words := typed_words(text)):
                speaker = "injected"
            self.say(speaker, words if speaker == "human" else text, key)
        elif kind == "tool":
            self._add_tool(key, raw.text(part, "tool"), raw.fields(part, "state"))
        elif kind == "compaction":
            self.add("injected", "compaction", uid=key)
        elif kind not in SILENT:
            self.unknown(kind)

    def _add_tool(self, key: str, tool: str, state: dict[str, Any]) -> None:
        """The call, and its result or refusal, if it has one by now."""
        given, status, error = (
            raw.fields(state, "input"),
            state.get("status"),
            raw.text(state, "error"),
        )
        paths = relative_paths(
            [raw.text(given, "filePath"), *PATCHED.findall(raw.text(given, "patchText"))], self.root
        )
        self.call(self.worker, raw.encode(given), key, tool, paths)
        refused = REFUSED.fullmatch(error) if tool in OWN_TOOLS and self.worker == "agent" else None
        if status == "error" and refused:
            self.add("human", "rejection", refused[1] or "", uid=key, tool=tool, paths=paths)
        elif status in ("completed", "error"):
            ok = status == "completed" and raw.fields(state, "metadata").get("exit") in (None, 0)
            self.add(
                "tool", "tool_result", raw.text(state, "output") or error, uid=key, tool=tool, ok=ok
            )


def _time(value: object) -> datetime | None:
    """A time in milliseconds."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int | float) else None
    return None
