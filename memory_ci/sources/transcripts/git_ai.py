"""git-ai: authorship notes (`authorship/3.x`) under `refs/notes/ai`, which may hold the prompts behind a commit.

A note is a list of files and line ranges, a line `---`, and a JSON object. Messages of type user are not all a
person's: older versions wrote Claude's tool results so, and skills and commands still come so. A turn is a person's
where it stands after the agent has spoken, not while a tool works; Cursor's always are, without what Cursor wraps
around them. As results could forge a reason for a rejection, it is not taken from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import (
    MAX_DOCUMENT,
    Place,
    SessionBuilder,
    as_dict,
    as_list,
    as_text,
    decode,
    encode,
    parse_time,
    session_name,
    touched_paths,
)
from memory_ci.sources.transcripts.claude_record import INTERRUPT, REJECTED
from memory_ci.sources.transcripts.prose import add_turn, typed_words

FORMAT = "git-ai-note"
NOTE = re.compile(rb'\A(?:[^\s\n][^\n]*\n(?:  \S+ [\d,-]+\n)+)*---\n\s*\{\s*"schema_version"\s*:\s*"authorship/3\.')
DIVIDER = re.compile(rb"^---\n", re.MULTILINE)
MESSAGE = re.compile(rb'^ {10}"type": ', re.MULTILINE)
"""Where git-ai's own indentation puts the type of a message; no text of a message can begin a line."""

QUERY_START, QUERY_END = "<user_query>", "</user_query>"
"""Around what a person typed, at the end of what Cursor sends: files, images and web pages stand before it."""

WRAPPED = re.compile(r"^(?:<[a-z]+_[a-z_]+>|\[Image\])$", re.MULTILINE)
"""A line that only Cursor writes: without a query at its end, nothing of such a message is known to be typed."""

TOOLS = {"claude": "claude-code"}
"""The names that the readers of the agents' own files use, so that a session is known again."""

WARM_UP = "Warmup"  # What Claude Code sends by itself to have a sub-agent ready.
FILES = ("file_path", "path", "notebook_path")


def sniff(head: bytes) -> bool:
    """Whether a note starts with `head`: nothing but files and line ranges stand before its JSON."""
    return bool(NOTE.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The sessions of a note, one a prompt record; `Origin.line` is the line of the message."""
    data = stream.read(MAX_DOCUMENT + 1)
    divider = DIVIDER.search(data)
    note = decode(data[divider.end() :]) if divider and len(data) <= MAX_DOCUMENT else None
    if not isinstance(note, dict):
        broken = SessionBuilder("git-ai", session_name(name), FORMAT, name)
        broken.bad_line()
        yield broken.build()
        return
    lines = _message_lines(data)
    for key, prompt in as_dict(note.get("prompts")).items():
        yield _session(key, as_dict(prompt), name, lines)


def _message_lines(data: bytes) -> Iterator[int]:
    """The line of each message in order, from 1; the last one found for a note that is not laid out as git-ai does."""
    line, at = 1, 0
    for found in MESSAGE.finditer(data):
        line, at = line + data.count(b"\n", at, found.start()), found.start()
        yield line
    while True:
        yield line


def _session(key: str, prompt: dict[str, Any], name: str, lines: Iterator[int]) -> Session:
    agent = as_dict(prompt.get("agent_id"))
    tool = as_text(agent.get("tool"))
    reader = _Reader(SessionBuilder(TOOLS.get(tool, tool or "git-ai"), as_text(agent.get("id")) or key, FORMAT, name))
    for message in as_list(prompt.get("messages")):
        reader.builder.record()
        if isinstance(message, dict):
            reader.take(next(lines), message)
        else:
            reader.builder.bad_line()
    return reader.builder.build()


class _Reader:
    """One prompt record while it is read: whose turn it is."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.open_calls = 0
        self.is_working = False
        self.stopped_at: datetime | None = None
        self.wrapped_at: tuple[datetime | None] | None = None

    def take(self, line: int, message: dict[str, Any]) -> None:
        """One message, at `line` of the note."""
        kind, text, at = message.get("type"), as_text(message.get("text")), parse_time(message.get("timestamp"))
        if kind == "user":
            self._user(line, text, at)
        elif kind in ("assistant", "plan"):
            self.is_working, self.open_calls, self.wrapped_at = False, 0, None
            if text.strip():
                self.builder.add("agent", "text", text, Place(line, at))
        elif kind == "tool_use":
            self._call(line, message, at)
        elif kind != "thinking":
            self.builder.unknown(as_text(kind) or "(none)")

    def _call(self, line: int, message: dict[str, Any], at: datetime | None) -> None:
        self.is_working, self.stopped_at = True, None
        self.open_calls += 1
        given, tool = message.get("input"), as_text(message.get("name")) or None
        text = as_text(as_dict(given).get("command")) or encode(given)
        paths = touched_paths(given, *FILES)
        self.builder.add("agent", "tool_call", text, Place(line, at), tool=tool, paths=paths)

    def _user(self, line: int, text: str, at: datetime | None) -> None:
        if self.builder.agent == "cursor":
            self._cursor(line, text, at)
        elif self.is_working and not (self.stopped_at and at and at > self.stopped_at):
            self._result(line, text, at)
        elif self._is_expansion(text, at):
            self.builder.add("injected", "text", text, Place(line, at))
        else:
            self.is_working = False
            self.wrapped_at = None if typed_words(text) else (at,)
            add_turn(self.builder, text, Place(line, at))

    def _is_expansion(self, text: str, at: datetime | None) -> bool:
        """Whether Claude Code made `text` of a command or skill, whose time it then has."""
        if self.builder.agent != TOOLS["claude"]:
            return False
        return self.wrapped_at == (at,) or (text.strip() == WARM_UP and not self.builder.events)

    def _result(self, line: int, text: str, at: datetime | None) -> None:
        """What came while a tool worked; after a refusal, with all calls answered, the next turn is a person's."""
        self.open_calls -= 1
        if REJECTED.match(text):
            self.builder.add("human", "rejection", "", Place(line, at))
        elif text.startswith(INTERRUPT):
            self.builder.add("human", "interrupt", text, Place(line, at))
        else:
            self.builder.add("tool", "tool_result", text, Place(line, at))
            return
        self.stopped_at = at if self.open_calls <= 0 else None

    def _cursor(self, line: int, text: str, at: datetime | None) -> None:
        around, start, rest = text.rpartition(QUERY_START)
        if start and rest.rstrip().endswith(QUERY_END):
            words = rest.rstrip().removesuffix(QUERY_END).strip()
        else:
            around, words = (text, "") if WRAPPED.search(text) else ("", text)
        if around.strip():
            self.builder.add("injected", "text", around, Place(line, at))
        add_turn(self.builder, words, Place(line, at))
