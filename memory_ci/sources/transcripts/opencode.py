"""opencode: what `opencode export` writes, and `opencode.db`, where it keeps all sessions. Facts from version 1.18.33.

A message of the person has parts; those marked `synthetic` are of the program or of a plugin, as ours is. Each event
of a database has the number of its message in the session as its line: a message that comes later does not change it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.sources.agent_events import PATCHED
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    as_dict,
    as_list,
    as_text,
    decode,
    encode,
    relative_paths,
    session_name,
)

FIRST = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*"id"\s*:\s*"ses_')
SILENT = ("reasoning", "file", "step-start", "step-finish", "snapshot", "patch", "agent", "retry", "subtask")
REFUSED = re.compile(
    r"The user rejected permission to use this specific tool call(?:\.|(?: with the following feedback: (.*)))",
    re.DOTALL,
)
OWN_TOOLS = ("bash", "edit", "write", "read", "glob", "grep", "list", "webfetch", "task", "apply_patch")
"""Tools of opencode itself, whose errors no server words."""

SESSIONS = "SELECT id, directory, parent_id FROM session ORDER BY time_created, id"
MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"


def sniff(head: bytes) -> bool:
    """Whether it begins as an exported session does."""
    return bool(FIRST.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of an export."""
    builder = SessionBuilder("opencode", session_name(name), "opencode-export", name)
    document = Document(stream, builder)
    told = as_dict(document.value)
    info = as_dict(told.get("info"))
    builder.id = as_text(info.get("id")) or builder.id
    _fill(builder, info, map(as_dict, as_list(told.get("messages"))), document.line_of)
    yield builder.build()


def read_database(path: Path, name: str, roots: Sequence[Path] = (), own: str = "") -> Iterator[Session]:
    """The sessions of a database, the earliest first: those made in `roots`, and the one called `own`, where named.

    A database of another program, or one that cannot be read, has none.
    """
    with (
        suppress(sqlite3.Error, ValueError, OSError),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as found,
    ):
        for uid, directory, parent in found.execute(SESSIONS).fetchall():
            where = Path(str(directory)).resolve()
            if own in ("", uid) and (not roots or any(where.is_relative_to(root) for root in roots)):
                builder = SessionBuilder("opencode", uid, "opencode-db", name)
                numbers: dict[str | int, int] = {}
                messages = _list_messages(found, uid, numbers)
                _fill(builder, {"directory": directory, "parentID": parent}, messages, numbers.__getitem__)
                yield builder.build()


def _list_messages(found: sqlite3.Connection, session: str, numbers: dict[str | int, int]) -> Iterator[dict[str, Any]]:
    """The messages as an export has them; their numbers, from 1, are added to `numbers`."""
    for number, (uid, data) in enumerate(found.execute(MESSAGES, (session,)).fetchall(), 1):
        numbers[uid] = number
        parts = [{**as_dict(decode(str(part).encode())), "id": key} for key, part in found.execute(PARTS, (uid,))]
        yield {"info": {**as_dict(decode(str(data).encode())), "id": uid}, "parts": parts}


def _fill(
    builder: SessionBuilder,
    session: dict[str, Any],
    messages: Iterable[dict[str, Any]],
    line_of: Callable[[str | int], int],
) -> None:
    """Add what was said and done. What stands in a session that another one began is of a sub-agent."""
    is_inner = bool(as_text(session.get("parentID")))
    for message in messages:
        builder.record()
        info = as_dict(message.get("info"))
        uid, role, at = as_text(info.get("id")), info.get("role"), _time(as_dict(info.get("time")).get("created"))
        if role not in ("user", "assistant"):
            builder.unknown(f"role {role}")
            continue
        place = Place(line_of(uid), at)
        speaker: Actor = "subagent" if is_inner else "human" if role == "user" else "agent"
        root = as_text(as_dict(info.get("path")).get("root")).rstrip("/") or as_text(session.get("directory"))
        for part in map(as_dict, as_list(message.get("parts"))):
            kind, key, text = as_text(part.get("type")), as_text(part.get("id")), as_text(part.get("text"))
            is_ours = part.get("synthetic") is True or part.get("ignored") is True or info.get("summary") is True
            if kind == "text" and text.strip():
                builder.add("injected" if is_ours else speaker, "text", text, place, uid=key)
            elif kind == "tool":
                _add_tool(builder, "subagent" if is_inner else "agent", part, place, root)
            elif kind == "compaction":
                builder.add("injected", "compaction", "", place, uid=key)
            elif kind not in ("text", *SILENT):
                builder.unknown(kind or "untyped")
        if as_dict(info.get("error")).get("name") == "MessageAbortedError" and not is_inner:
            builder.add("human", "interrupt", "", place, uid=uid and f"{uid}:aborted")


def _add_tool(builder: SessionBuilder, agent: Actor, part: dict[str, Any], place: Place, root: str) -> None:
    """The call, and its result or refusal, if it has one by now."""
    key, tool, state = as_text(part.get("id")), as_text(part.get("tool")), as_dict(part.get("state"))
    given, status = as_dict(state.get("input")), state.get("status")
    named = [as_text(given.get("filePath")), *PATCHED.findall(as_text(given.get("patchText")))]
    paths = relative_paths(named, root)
    builder.add(agent, "tool_call", encode(given), place, uid=key and f"{key}:call", tool=tool, paths=paths)
    metadata, error = as_dict(state.get("metadata")), as_text(state.get("error"))
    if status == "error" and agent == "agent" and tool in OWN_TOOLS and (refused := REFUSED.fullmatch(error)):
        builder.add("human", "rejection", refused[1] or "", place, uid=key, tool=tool, paths=paths)
    elif status in ("completed", "error"):
        ok = status == "completed" and metadata.get("exit") in (None, 0)
        builder.add("tool", "tool_result", as_text(state.get("output")) or error, place, uid=key, tool=tool, ok=ok)


def _time(value: object) -> datetime | None:
    """A time in milliseconds."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int | float) else None
    return None
