"""Reader of the notes on commits that git-ai writes under `refs/notes/ai`, with agents' sessions.

A note (`authorship/3.x`) may hold the prompts behind a commit. It is a list of files and line
ranges, a line `---`, and a JSON object. Messages of type user are not all a person's: older
versions wrote Claude's tool results so, and skills and commands still come so. A turn is a person's
if it comes after a message of the agent, not while a tool works; Cursor's always are, without the
text that Cursor wraps around them. As results could forge a reason for a rejection, the reason is
not taken from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

from memory_ci.records.event import Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    MAX_DOCUMENT,
    Place,
    SessionBuilder,
    find_touched_paths,
)
from memory_ci.sources.transcripts.prose import (
    INTERRUPT_BEGINNING,
    REJECTION_RESULT,
    add_turn,
    extract_typed_words,
)

FORMAT = "git-ai-note"
NOTE_START = Regex(
    rb"\A(?:[^\s\n][^\n]*\n(?:  \S+ [\d,-]+\n)+)*---\n\s*"
    rb'\{\s*"schema_version"\s*:\s*"authorship/3\.'
)
NOTE_DIVIDER = Regex(rb"^---\n", re.MULTILINE)

MESSAGE_TYPE_LINE = Regex(rb'^ {10}"type": ', re.MULTILINE)
"""The type of a message in git-ai's own indentation; no text of a message can begin a line."""

QUERY_START = "<user_query>"
QUERY_END = "</user_query>"
"""The tags around a person's words in a message of Cursor; files, images and pages come before."""

CURSOR_ADDITION = Regex(r"^(?:<[a-z]+_[a-z_]+>|\[Image\])$", re.MULTILINE)
"""A line that only Cursor writes: without a query at its end, no part of the message was typed."""

AGENT_BY_TOOL = {"claude": "claude-code"}
"""The names that the readers of the agents' own files use, so that copies of a session match."""

WARM_UP = "Warmup"  # The message by which Claude Code has a sub-agent ready.
PATH_ARGUMENTS = ("file_path", "path", "notebook_path")


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a note of git-ai."""
    return bool(NOTE_START.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the sessions of a note, one for each record in its `prompts`.

    The line of an event is that of its message. A note that cannot be read is one session without
    events and with a bad line.
    """
    data = stream.read(MAX_DOCUMENT + 1)
    divider = NOTE_DIVIDER.search(data)
    note: object = None
    if divider and len(data) <= MAX_DOCUMENT:
        note = raw.decode(data[divider.end() :])
    if not isinstance(note, dict):
        broken = SessionBuilder("git-ai", FORMAT, name)
        broken.bad_lines += 1
        yield broken.build()
        return

    lines = _iter_message_lines(data)
    for key, prompt in raw.get_object(note, "prompts").items():
        tool = raw.get_text(prompt, "agent_id", "tool")
        session_id = raw.get_text(prompt, "agent_id", "id") or key
        reader = _Reader(AGENT_BY_TOOL.get(tool, tool or "git-ai"), FORMAT, name, session_id)
        for message in raw.get_list(prompt, "messages"):
            reader.records += 1
            if isinstance(message, dict):
                reader.place = Place(next(lines), raw.get_time(message, "timestamp"))
                reader.add_message(message)
            else:
                reader.bad_lines += 1
        yield reader.build()


def _iter_message_lines(data: bytes) -> Iterator[int]:
    """Yield the line number of each message in order, from 1, and then the last number for ever.

    In a note with another indentation than git-ai's, fewer messages are found than it has. The
    reader takes a number for each message, so the numbers must not end.
    """
    line = 1
    offset = 0
    for match in MESSAGE_TYPE_LINE.finditer(data):
        line += data.count(b"\n", offset, match.start())
        offset = match.start()
        yield line
    while True:
        yield line


class _Reader(SessionBuilder):
    """The builder of the session of one prompt record.

    Attributes:
        open_call_count: how many calls of tools have no result yet.
        is_tool_running: whether a tool runs, so that a message of type user is its result.
        stopped_at: when a person refused or interrupted the last open call.
        is_after_command: whether the last message of the user was a command or a skill.
        command_at: the time of that message, None if it has no time.
    """

    open_call_count = 0
    is_tool_running = False
    stopped_at: datetime | None = None
    is_after_command = False
    command_at: datetime | None = None

    def add_message(self, message: dict[str, Any]) -> None:
        """Add one message of the user or the agent, or one tool call.

        When the agent speaks, all its tools have ended, also those whose result is missing.
        """
        message_type = message.get("type")
        text = raw.get_text(message, "text")
        if message_type == "user" and self.agent == "cursor":
            self._handle_cursor_message(text)
        elif message_type == "user":
            self._handle_user_message(text)
        elif message_type in ("assistant", "plan"):
            self.is_tool_running = False
            self.open_call_count = 0
            self.is_after_command = False
            self.add_text("agent", text)
        elif message_type == "tool_use":
            self._add_call(message)
        elif message_type != "thinking":
            self.count_unknown(message_type, "(none)")

    def _add_call(self, message: dict[str, Any]) -> None:
        """Add a tool call, and count it as open until its result comes."""
        self.is_tool_running = True
        self.stopped_at = None
        self.open_call_count += 1
        arguments = message.get("input")
        command = raw.get_text(arguments, "command")
        text = command or raw.encode(arguments)
        tool = raw.get_text(message, "name") or None
        paths = find_touched_paths(arguments, *PATH_ARGUMENTS)
        self.add_event("agent", "tool_call", text, tool=tool, paths=paths)

    def _handle_user_message(self, text: str) -> None:
        """Add a message of type user: the result of a tool if a tool runs, else a turn.

        After a person refused or interrupted a call, a later message is a turn, although the agent
        has not answered. Claude Code adds the text of a command or skill as a message of its own,
        with the time of the command; no person typed it.
        """
        at = self.place.at
        is_after_stop = bool(self.stopped_at and at and at > self.stopped_at)
        if self.is_tool_running and not is_after_stop:
            self._add_result(text)
            return
        if self.agent == AGENT_BY_TOOL["claude"]:
            is_warm_up = text.strip() == WARM_UP and not self.events
            is_text_of_command = self.is_after_command and self.command_at == at
            if is_text_of_command or is_warm_up:
                self.add_event("injected", "text", text)
                return
        self.is_tool_running = False
        self.is_after_command = not extract_typed_words(text)
        self.command_at = at
        add_turn(self, text)

    def _add_result(self, text: str) -> None:
        """Add the result of a call, or that the person refused or interrupted it.

        `stopped_at` is set if that was the last open call: a later message is then a turn. While
        other calls are open, it may be the result of one of these.
        """
        self.open_call_count -= 1
        if REJECTION_RESULT.match(text):
            self.add_event("human", "rejection")
        elif text.startswith(INTERRUPT_BEGINNING):
            self.add_event("human", "interrupt", text)
        else:
            self.add_event("tool", "tool_result", text)
            return
        self.stopped_at = self.place.at if self.open_call_count <= 0 else None

    def _handle_cursor_message(self, text: str) -> None:
        """Add a message of type user in Cursor: typed words, and before them Cursor's additions."""
        before, tag, query = text.rpartition(QUERY_START)
        if tag and query.rstrip().endswith(QUERY_END):
            words = query.rstrip().removesuffix(QUERY_END).strip()
        elif CURSOR_ADDITION.search(text):  # nothing but additions
            before = text
            words = ""
        else:  # nothing but typed words
            before = ""
            words = text
        self.add_text("injected", before)
        add_turn(self, words)
