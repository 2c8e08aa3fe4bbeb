"""Reader of aider's chat history, a Markdown file with all chats of a repository.

Facts from aider's own `io.py` and `commands.py`: it writes each line of the user's input as
`#### …` with two spaces at its end, after an empty line; its own words and those of tools as
`> …`; the model's reply without a mark. Input is not only a person's words: there are commands,
linter output that aider feeds back, and the message of a scripted run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO

from memory_ci.records.event import Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, dated_name, read_lines

CHAT = Regex(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")

START = Regex(
    rb"\A(?:[ \t]*(?:(?:>|#### |-\*-)[^\n]*)?\r?\n)*"
    rb"# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s"
)
"""The first chat of a file; only lines that aider writes itself come before it."""

COMMIT = Regex(r"Commit ([0-9a-f]{7,40}) (.+)")
COMMAND = Regex(r"(?P<name>/[a-z][a-z-]*|!)(?=\s|(?<=!)|\Z)\s*(?P<rest>.*)\Z", re.DOTALL)

SCRIPTED = Regex(r"\S*aider\b.* (?:-m|--msg|--message|-f|--message-file)(?:[ =]|\Z)")
"""The command line of a run with its message as an argument: a script may have written it."""

MAX_COMMAND = 2_000  # Characters of a command line that are searched.

SPEAKING = frozenset({"/ask", "/code", "/architect", "/context", "/copy-context"})
"""Commands whose argument is a person's message to the agent."""

UNDO = "/undo"

PRINTING = frozenset(
    {"/run", "/test", "/diff", "/git", "/ls", "/map", "/tokens", "/lint", "/web", "!"}
)
"""Commands that print output of programs, which aider writes without a mark."""

FED_BACK = (
    "# Fix any errors below, if possible.",
    "## Running:",
    "I ran this command:",
    "Use /help <question> for help",
    "Traceback (most recent call last)",
    "=====",
    "_____",
    "E   ",
    ">   ",
    "    ",
)
"""Beginnings of turns of output of a linter, a test or aider itself, fed back by it or pasted."""

ERROR_LINE = Regex(r"[\w.]*(?:Error|Exception)\b: ")


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a chat history of aider."""
    return bool(START.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the sessions of a history: each chat is a session.

    Aider's times have no zone and are taken as UTC. The lines before the first chat are a session
    only if they hold an event. If two chats began in the same second, the id of the second gets a
    number.
    """
    ids: set[str] = set()
    reader = _Reader(name, _choose_id(name, None, ids), None)
    for number, text in read_lines(stream):
        header = CHAT.match(text or "") if reader.blanks else None
        if not header:
            reader.add_line(number, text)
            continue
        yield from reader.finish()
        started = raw.time(header[1])
        reader = _Reader(name, _choose_id(name, started, ids), started)
    yield from reader.finish()


def _choose_id(name: str, started: datetime | None, ids: set[str]) -> str:
    """Return an id for a chat, with a number at its end if it is taken, and add it to `ids`."""
    base = dated_name(name, started)
    session_id = base
    number = 1
    while session_id in ids:
        number += 1
        session_id = f"{base}-{number}"
    ids.add(session_id)
    return session_id


class _Reader(SessionBuilder):
    """The builder of the session of one chat.

    Attributes:
        kind: the kind of the lines that are being collected: turn, tool, text or "".
        line: the number of the first of these lines.
        lines: these lines.
        blanks: how many blank lines came last.
        echo: words that aider writes a second time.
        echo_uid: the id of the event with these words.
        is_in_code: whether a code block is open.
        is_scripted: whether a script may have written the message.
        is_working: whether the agent works.
        is_printing: whether text without a mark is output of a program.
    """

    kind = ""
    line = 0
    blanks = 1
    echo = ""
    echo_uid = ""
    is_in_code = False
    is_scripted = False
    is_working = False
    is_printing = False

    def __init__(self, path: str, session_id: str, started: datetime | None) -> None:
        super().__init__("aider", "aider-md", path, session_id)
        self.started = started
        self.lines: list[str] = []

    def finish(self) -> Iterator[Session]:
        """Yield the session, if it holds an event or is a chat."""
        self._flush()
        if self.started or self.events:
            yield self.build()

    def add_line(self, number: int, text: str | None) -> None:
        """Add one line of the chat, None for a line that cannot be read."""
        self.records += 1
        if text is None:
            self.bad_lines += 1
            return
        kind = self._classify(text)
        if kind != self.kind:
            self._flush()
            self.kind = kind
            self.line = number
            self.lines = []
            self.place = Place(number, self.started)
        self.lines.append(text)
        self.blanks = 0 if text.strip() else self.blanks + 1

    def _classify(self, text: str) -> str:
        """Return the kind of a line (turn, tool or text), by its mark and the lines before it.

        A turn begins after a blank line. Inside of a code block it begins after two of them: aider
        writes these behind a reply that was cut off, which closes no block.
        """
        is_marked = text.startswith("#### ") and text.endswith("  ")
        needed_blanks = 2 if self.is_in_code else 1
        if is_marked and (self.kind == "turn" or self.blanks >= needed_blanks):
            self.is_in_code = False
            return "turn"
        is_quoted = text.startswith(">") and not text.startswith(">>>>>>>")
        if is_quoted and (text.endswith("  ") or not self.is_in_code):
            self.is_in_code = False
            return "tool"
        if self.kind == "tool" and text.strip():
            return "tool"  # aider marks only the first line of a text
        if text.startswith("```"):
            self.is_in_code = not self.is_in_code
        return "text"

    def _flush(self) -> None:
        """Add the collected lines, which are of one kind, as one or more events."""
        kind = self.kind
        lines = self.lines
        self.kind = ""
        if kind == "turn":
            words = (line.removeprefix("#### ").removesuffix("  ") for line in lines)
            self._add_turn("\n".join(words))
        elif kind == "tool":
            self._add_tool_lines([line.removeprefix(">").strip() for line in lines])
        elif text := "\n".join(lines).strip():
            if self.is_printing:
                self.add_event("tool", "tool_result", text)
            else:
                self.add_event("agent", "text", text)
        self.lines = []

    def _add_tool_lines(self, lines: list[str]) -> None:
        """Add lines of aider itself as a tool's result, and events for what some of them report.

        A line may report a commit, that the person interrupted the agent, or how aider was started.
        """
        for number, text in enumerate(lines, self.line):
            place = Place(number, self.started)
            if not self.events and SCRIPTED.match(text[:MAX_COMMAND]):
                self.is_scripted = True
            elif commit := COMMIT.fullmatch(text):
                self.add_event("agent", "commit", commit[2], place, labels=(("sha", commit[1]),))
            elif text.startswith("^C") and self.is_working:
                self.add_event("human", "interrupt", text, place)
                self.is_working = False
            elif text.startswith("Tokens: "):
                self.is_working = False
        if text := "\n".join(lines).strip():
            self.add_event("tool", "tool_result", text)

    def _add_turn(self, text: str) -> None:
        """Add one input: a message to the agent, or a command with its argument.

        Aider writes the message of a command like `/ask` a second time, as an input of its own.
        """
        match = COMMAND.match(text)
        command = match["name"] if match else ""
        argument = match["rest"].strip() if match else ""
        self.is_printing = command in PRINTING
        if command in SPEAKING and argument:
            self.echo = argument
            self.echo_uid = f"{self.id}:{self.line}"
            self._add_words(argument, uid=self.echo_uid)
        elif command == UNDO:
            self.add_event("human", "rejection", tool=UNDO)
        elif command:
            self.add_event("system", "tool_call", argument, tool=command)
        elif self.echo and text.strip() == self.echo:
            self.add_event("human", "text", text, Place(self.line), uid=self.echo_uid)
            self.echo = ""
        else:
            self._add_words(text)

    def _add_words(self, text: str, uid: str = "") -> None:
        """Add a message to the agent; the output of a program in it makes it no person's."""
        self.is_working = True
        written_lines = [line for line in text.split("\n") if line.strip()]
        first_line = written_lines[0] if written_lines else ""
        is_output = first_line.startswith(FED_BACK) or ERROR_LINE.match(first_line)
        if self.is_scripted or is_output:
            self.add_event("injected", "text", text, uid=uid)
        else:
            self.add_text("human", text.strip(), uid)
