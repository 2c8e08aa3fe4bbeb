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
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import MAX_DOCUMENT, Place, SessionBuilder, touched_paths
from memory_ci.sources.transcripts.prose import INTERRUPT, REJECTED, add_turn, typed_words

FORMAT = "git-ai-note"
NOTE = re.compile(
    rb'\A(?:[^\s\n][^\n]*\n(?:  \S+ [\d,-]+\n)+)*---\n\s*\{\s*"schema_version"\s*:\s*"authorship/3\.'
)
DIVIDER = re.compile(rb"^---\n", re.MULTILINE)
# Where git-ai's own indentation puts the type of a message; no text of a message can begin a line.
MESSAGE = re.compile(rb'^ {10}"type": ', re.MULTILINE)
# Around what a person typed, at the end of what Cursor sends: files, images and web pages stand before it.
QUERY_START, QUERY_END = "<user_query>", "</user_query>"
# A line that only Cursor writes: without a query at its end, nothing of such a message is known to be typed.
WRAPPED = re.compile(r"^(?:<[a-z]+_[a-z_]+>|\[Image\])$", re.MULTILINE)
# The names that the readers of the agents' own files use, so that a session is known again.
TOOLS = {"claude": "claude-code"}
WARM_UP = "Warmup"  # What Claude Code sends by itself to have a sub-agent ready.
FILES = ("file_path", "path", "notebook_path")


def sniff(head: bytes) -> bool:
    """Whether a note starts with `head`: nothing but files and line ranges stand before its JSON."""
    return bool(NOTE.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The sessions of a note, one a prompt record; `Origin.line` is the line of the message."""
    data = stream.read(MAX_DOCUMENT + 1)
    divider = DIVIDER.search(data)
    note = raw.decode(data[divider.end() :]) if divider and len(data) <= MAX_DOCUMENT else None
    if not isinstance(note, dict):
        broken = SessionBuilder("git-ai", FORMAT, name)
        broken.bad_lines += 1
        yield broken.build()
        return
    lines = _message_lines(data)
    for key, prompt in raw.fields(note, "prompts").items():
        tool = raw.text(prompt, "agent_id", "tool")
        uid = raw.text(prompt, "agent_id", "id") or key
        reader = _Reader(TOOLS.get(tool, tool or "git-ai"), FORMAT, name, uid)
        for message in raw.items(prompt, "messages"):
            reader.records += 1
            if isinstance(message, dict):
                reader.place = Place(next(lines), raw.time(message, "timestamp"))
                reader.take(message)
            else:
                reader.bad_lines += 1
        yield reader.build()


def _message_lines(data: bytes) -> Iterator[int]:
    """The line of each message in order, from 1; the last one found for a note that is not laid out as git-ai does."""
    line, at = 1, 0
    for found in MESSAGE.finditer(data):
        line, at = line + data.count(b"\n", at, found.start()), found.start()
        yield line
    while True:
        yield line


class _Reader(SessionBuilder):
    """One prompt record while it is read: whose turn it is."""

    open_calls = 0
    is_working = False
    stopped_at: datetime | None = None
    wrapped_at: tuple[datetime | None] | None = None

    def take(self, message: dict[str, Any]) -> None:
        """One message."""
        kind, text = message.get("type"), raw.text(message, "text")
        if kind == "user" and self.agent == "cursor":
            self._cursor(text)
        elif kind == "user":
            self._user(text)
        elif kind in ("assistant", "plan"):
            self.is_working, self.open_calls, self.wrapped_at = False, 0, None
            self.say("agent", text)
        elif kind == "tool_use":
            self.is_working, self.stopped_at = True, None
            self.open_calls += 1
            given = message.get("input")
            called = raw.text(given, "command") or raw.encode(given)
            tool, paths = raw.text(message, "name") or None, touched_paths(given, *FILES)
            self.add("agent", "tool_call", called, tool=tool, paths=paths)
        elif kind != "thinking":
            self.unknown(kind, "(none)")

    def _user(self, text: str) -> None:
        """What came while a tool worked; after a refusal, with all calls answered, the next turn is a person's. What
        Claude Code made of a command or skill has the time of that."""
        at = self.place.at
        is_claude = self.agent == TOOLS["claude"]
        if self.is_working and not (self.stopped_at and at and at > self.stopped_at):
            self._result(text)
        elif is_claude and (
            self.wrapped_at == (at,) or (text.strip() == WARM_UP and not self.events)
        ):
            self.add("injected", "text", text)
        else:
            self.is_working = False
            self.wrapped_at = None if typed_words(text) else (at,)
            add_turn(self, text)

    def _result(self, text: str) -> None:
        self.open_calls -= 1
        is_refused = bool(REJECTED.match(text))
        if not is_refused and not text.startswith(INTERRUPT):
            self.add("tool", "tool_result", text)
            return
        self.add("human", "rejection" if is_refused else "interrupt", "" if is_refused else text)
        self.stopped_at = self.place.at if self.open_calls <= 0 else None

    def _cursor(self, text: str) -> None:
        around, start, rest = text.rpartition(QUERY_START)
        if start and rest.rstrip().endswith(QUERY_END):
            words = rest.rstrip().removesuffix(QUERY_END).strip()
        else:
            around, words = (text, "") if WRAPPED.search(text) else ("", text)
        self.say("injected", around)
        add_turn(self, words)
