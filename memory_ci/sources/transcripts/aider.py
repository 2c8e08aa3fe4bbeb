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
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, make_dated_name, read_lines

CHAT = Regex(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")

START = Regex(
    rb"\A(?:[ \t]*(?:(?:>|#### |-\*-)[^\n]*)?\r?\n)*"
    rb"# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s"
)
"""The first chat of a file; only lines that aider writes itself come before it."""

COMMIT = Regex(r"Commit ([0-9a-f]{7,40}) (.+)")
COMMAND = Regex(r"(?P<name>/[a-z][a-z-]*|!)(?=\s|(?<=!)|\Z)\s*(?P<argument>.*)\Z", re.DOTALL)
"""A command of aider with its argument, like `/ask why?` or `!ls`."""

SCRIPTED_START = Regex(r"\S*aider\b.* (?:-m|--msg|--message|-f|--message-file)(?:[ =]|\Z)")
"""The command line of a run with its message as an argument: a script may have written it."""

MAX_COMMAND = 2_000  # Characters of a command line that are searched.

MESSAGE_COMMANDS = frozenset({"/ask", "/code", "/architect", "/context", "/copy-context"})
"""Commands whose argument is a person's message to the agent."""

UNDO = "/undo"

PRINTING_COMMANDS = frozenset(
    {"/run", "/test", "/diff", "/git", "/ls", "/map", "/tokens", "/lint", "/web", "!"}
)
"""Commands that print output of programs, which aider writes without a mark."""

OUTPUT_BEGINNINGS = (
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
    reader = _Reader(name, _choose_id(name, None, ids), started=None)
    for number, text in read_lines(stream):
        # Aider writes the header of a chat after a blank line.
        header = CHAT.match(text or "") if reader.blank_count else None
        if not header:
            reader.add_line(number, text)
            continue
        yield from reader.finish()
        started = raw.get_time(header[1])
        reader = _Reader(name, _choose_id(name, started, ids), started=started)
    yield from reader.finish()


def _choose_id(name: str, started: datetime | None, ids: set[str]) -> str:
    """Return an id for a chat, with a number at its end if it is taken, and add it to `ids`."""
    base = make_dated_name(name, started)
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
        started: when the chat began, the time of all its events; None before the first chat.
        block_kind: the kind of the block, the lines that are being collected: "turn" for input,
            "tool" for words of aider and of tools, "text" for the agent's reply, "" for no block.
        block_start: the number of the first line of the block.
        block_lines: the lines of the block.
        blank_count: how many blank lines came last.
        echoed_message: the message of a command like `/ask`, which aider writes a second time.
        echoed_uid: the id of the event of that message.
        is_in_code: whether a code block is open.
        is_scripted: whether a script may have written the message.
        is_working: whether the agent works.
        prints_output: whether text without a mark is output of a program, not the agent's reply.
    """

    block_kind = ""
    block_start = 0
    blank_count = 1
    echoed_message = ""
    echoed_uid = ""
    is_in_code = False
    is_scripted = False
    is_working = False
    prints_output = False

    def __init__(self, path: str, session_id: str, *, started: datetime | None) -> None:
        super().__init__("aider", "aider-md", path, session_id)
        self.started = started
        self.block_lines: list[str] = []

    def finish(self) -> Iterator[Session]:
        """Yield the session, if it holds an event or is a chat."""
        self._add_block()
        if self.started or self.events:
            yield self.build()

    def add_line(self, number: int, text: str | None) -> None:
        """Add one line of the chat to the block that is being collected.

        A line of another kind begins a new block; the old one is added as events.

        Args:
            number: the number of the line.
            text: the line, None if it cannot be read.
        """
        self.records += 1
        if text is None:
            self.bad_lines += 1
            return
        kind = self._classify_line(text)
        if kind != self.block_kind:
            self._add_block()
            self.block_kind = kind
            self.block_start = number
            self.place = Place(number, self.started)
        self.block_lines.append(text)
        self.blank_count = 0 if text.strip() else self.blank_count + 1

    def _classify_line(self, text: str) -> str:
        """Return the kind of a line (turn, tool or text), by its mark and the lines before it.

        A turn begins after a blank line. Inside of a code block it begins after two of them: aider
        writes these behind a reply that was cut off, which closes no block.
        """
        is_marked = text.startswith("#### ") and text.endswith("  ")
        needed_blanks = 2 if self.is_in_code else 1
        if is_marked and (self.block_kind == "turn" or self.blank_count >= needed_blanks):
            self.is_in_code = False
            return "turn"
        is_quoted = text.startswith(">") and not text.startswith(">>>>>>>")
        if is_quoted and (text.endswith("  ") or not self.is_in_code):
            self.is_in_code = False
            return "tool"
        if self.block_kind == "tool" and text.strip():
            return "tool"  # aider marks only the first line of a text
        if text.startswith("```"):
            self.is_in_code = not self.is_in_code
        return "text"

    def _add_block(self) -> None:
        """Add the collected lines, which are of one kind, as events, and begin without lines."""
        kind = self.block_kind
        lines = self.block_lines
        self.block_kind = ""
        self.block_lines = []
        if kind == "turn":
            input_lines = [line.removeprefix("#### ").removesuffix("  ") for line in lines]
            self._add_input("\n".join(input_lines))
        elif kind == "tool":
            self._add_tool_lines([line.removeprefix(">").strip() for line in lines])
        elif text := "\n".join(lines).strip():
            if self.prints_output:
                self.add_event("tool", "tool_result", text)
            else:
                self.add_event("agent", "text", text)

    def _add_tool_lines(self, lines: list[str]) -> None:
        """Add lines of aider itself as a tool's result, and events for what some of them report.

        A line may report a commit, that the person interrupted the agent, or how aider was started.
        """
        for number, text in enumerate(lines, self.block_start):
            place = Place(number, self.started)
            commit = COMMIT.fullmatch(text)
            # Aider prints its command line before anything else.
            if not self.events and SCRIPTED_START.match(text[:MAX_COMMAND]):
                self.is_scripted = True
            elif commit:
                self.add_event("agent", "commit", commit[2], place, labels=(("sha", commit[1]),))
            elif text.startswith("^C") and self.is_working:
                self.add_event("human", "interrupt", text, place)
                self.is_working = False
            elif text.startswith("Tokens: "):  # the bill, which aider prints after a reply
                self.is_working = False
        text = "\n".join(lines).strip()
        if text:
            self.add_event("tool", "tool_result", text)

    def _add_input(self, text: str) -> None:
        """Add one input: a message to the agent, or a command with its argument.

        Aider writes the message of a command like `/ask` a second time, as an input of its own.
        That input gets the id of the first event, so that it counts as a duplicate.
        """
        match = COMMAND.match(text)
        command = match["name"] if match else ""
        argument = match["argument"].strip() if match else ""
        self.prints_output = command in PRINTING_COMMANDS
        if command in MESSAGE_COMMANDS and argument:
            self.echoed_message = argument
            self.echoed_uid = f"{self.id}:{self.block_start}"
            self._add_message(argument, uid=self.echoed_uid)
        elif command == UNDO:
            self.add_event("human", "rejection", tool=UNDO)
        elif command:
            self.add_event("system", "tool_call", argument, tool=command)
        elif self.echoed_message and text.strip() == self.echoed_message:
            self.add_event("human", "text", text, Place(self.block_start), uid=self.echoed_uid)
            self.echoed_message = ""
        else:
            self._add_message(text)

    def _add_message(self, text: str, uid: str = "") -> None:
        """Add a message to the agent.

        Its actor is "injected", not "human", if a script may have written it, or if it begins as
        the output of a program does.
        """
        self.is_working = True
        written_lines = [line for line in text.split("\n") if line.strip()]
        first_line = written_lines[0] if written_lines else ""
        is_output = first_line.startswith(OUTPUT_BEGINNINGS) or ERROR_LINE.match(first_line)
        if self.is_scripted or is_output:
            self.add_event("injected", "text", text, uid=uid)
        else:
            self.add_text("human", text.strip(), uid)
