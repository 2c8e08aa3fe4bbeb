"""Aider: `.aider.chat.history.md`, all chats of a repository in one file, one session each.

Facts from aider's own `io.py` and `commands.py`: it writes each line of the user's input as `#### …` with two spaces at
its end, after an empty line; its own words and those of tools as `> …`; the model's reply as it is. Input is not only
what a person said: there are commands, linter output that aider feeds back, and the message of a scripted run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import BinaryIO

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, parse_time
from memory_ci.sources.transcripts.prose import dated_name, read_lines

CHAT = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
START = re.compile(
    rb"\A(?:[ \t]*(?:(?:>|#### |-\*-)[^\n]*)?\r?\n)*# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s"
)
"""The first chat of a file; before it stand only lines that aider writes itself."""

COMMIT = re.compile(r"Commit ([0-9a-f]{7,40}) (.+)")
COMMAND = re.compile(r"(?P<name>/[a-z][a-z-]*|!)(?=\s|(?<=!)|\Z)\s*(?P<rest>.*)\Z", re.DOTALL)
SCRIPTED = re.compile(r"\S*aider\b.* (?:-m|--msg|--message|-f|--message-file)(?:[ =]|\Z)")
"""The command line of a run that gets its message as an argument: a script may have written it."""

MAX_COMMAND = 2_000  # Characters of a command line that are looked at.
SPEAKING = frozenset({"/ask", "/code", "/architect", "/context", "/copy-context"})
"""Commands whose argument is what a person says to the agent."""

UNDO = "/undo"
PRINTING = frozenset({"/run", "/test", "/diff", "/git", "/ls", "/map", "/tokens", "/lint", "/web", "!"})
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
"""How a turn begins that is output of a linter, a test or aider itself, fed back by it or pasted."""

ERROR_LINE = re.compile(r"[\w.]*(?:Error|Exception)\b: ")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is aider's history."""
    return bool(START.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The sessions of a history, one a chat, streamed; aider's times have no zone and are taken as UTC."""
    reader = _Reader(name, None, set())
    for number, text in read_lines(stream):
        started = CHAT.match(text or "") if reader.blanks else None
        if started:
            yield from reader.finish()
            reader = _Reader(name, parse_time(started[1]), reader.ids)
        else:
            reader.take(number, text)
    yield from reader.finish()


class _Reader:
    """One chat while it is read: the kind of the lines that are being collected, and what they answer."""

    def __init__(self, name: str, started: datetime | None, ids: set[str]) -> None:
        self.ids, self.started = ids, started
        self.builder = SessionBuilder("aider", self._free_id(dated_name(name, started)), "aider-md", name)
        self.kind = ""
        self.lines: list[str] = []
        self.line = 0
        self.blanks = 1
        self.is_in_code = self.is_scripted = self.is_working = self.is_printing = False
        self.echo = ""
        self.echo_uid = ""

    def _free_id(self, wanted: str) -> str:
        """`wanted`, numbered if a chat before it in the file began in the same second."""
        found = next(name for name in _numbered(wanted) if name not in self.ids)
        self.ids.add(found)
        return found

    def finish(self) -> Iterator[Session]:
        """The session; none for what stands before the first chat if it holds nothing."""
        self._flush()
        if self.started or self.builder.events:
            yield self.builder.build()

    def take(self, number: int, text: str | None) -> None:
        """One line of the chat, None for a line that cannot be read."""
        self.builder.record()
        if text is None:
            self.builder.bad_line()
            return
        kind = self._kind_of(text)
        if kind != self.kind:
            self._flush()
            self.kind, self.line = kind, number
        self.lines.append(text)
        self.blanks = 0 if text.strip() else self.blanks + 1

    def _kind_of(self, text: str) -> str:
        """`turn`, `tool` or `text`: what a line is, by its mark and by what it follows.

        A reply that was cut off closes no fence; two empty lines follow it.
        """
        if text.startswith("#### ") and text.endswith("  ") and (self.kind == "turn" or self.blanks > self.is_in_code):
            self.is_in_code = False
            return "turn"
        if text.startswith(">") and not text.startswith(">>>>>>>") and (text.endswith("  ") or not self.is_in_code):
            self.is_in_code = False
            return "tool"
        if self.kind == "tool" and text.strip():
            return "tool"  # aider marks the first line of a text alone
        if self.kind != "turn" or text.strip():
            self.is_in_code ^= text.startswith("```")
        return "text"

    def _flush(self) -> None:
        lines, self.lines, kind, self.kind = self.lines, [], self.kind, ""
        if kind == "turn":
            self._turn("\n".join(line.removeprefix("#### ").removesuffix("  ") for line in lines))
        elif kind == "tool":
            self._tool([line.removeprefix(">").strip() for line in lines])
        elif text := "\n".join(lines).strip():
            self._reply(text)

    def _reply(self, text: str) -> None:
        if self.is_printing:
            self.builder.add("tool", "tool_result", text, Place(self.line, self.started))
        else:
            self.builder.add("agent", "text", text, Place(self.line, self.started))

    def _tool(self, lines: list[str]) -> None:
        for offset, text in enumerate(lines):
            if not self.builder.events and SCRIPTED.match(text[:MAX_COMMAND]):
                self.is_scripted = True
            elif commit := COMMIT.fullmatch(text):
                labels = (("sha", commit[1]),)
                self.builder.add("agent", "commit", commit[2], Place(self.line + offset, self.started), labels=labels)
            elif text.startswith("^C") and self.is_working:
                self.builder.add("human", "interrupt", text, Place(self.line + offset, self.started))
                self.is_working = False
            elif text.startswith("Tokens: "):
                self.is_working = False
        if text := "\n".join(lines).strip():
            self.builder.add("tool", "tool_result", text, Place(self.line, self.started))

    def _turn(self, text: str) -> None:
        command = COMMAND.match(text)
        self.is_printing = bool(command and command["name"] in PRINTING)
        if command:
            self._command(command["name"], command["rest"].strip())
        elif self.echo and text.strip() == self.echo:
            self.builder.add("human", "text", text, Place(self.line), uid=self.echo_uid)
            self.echo = ""
        else:
            self._words(text)

    def _command(self, name: str, rest: str) -> None:
        if name in SPEAKING and rest:
            self.echo, self.echo_uid = rest, f"{self.builder.id}:{self.line}"  # aider writes the words once more
            self._words(rest, uid=self.echo_uid)
        elif name == UNDO:
            self.builder.add("human", "rejection", "", Place(self.line, self.started), tool=UNDO)
        else:
            self.builder.add("system", "tool_call", rest, Place(self.line, self.started), tool=name)

    def _words(self, text: str, uid: str = "") -> None:
        self.is_working = True
        if self.is_scripted or _is_output(text):
            self.builder.add("injected", "text", text, Place(self.line, self.started), uid=uid)
        elif text.strip():
            self.builder.add("human", "text", text.strip(), Place(self.line, self.started), uid=uid)


def _is_output(text: str) -> bool:
    """Whether a turn begins like what programs print: then no word of it is a person's."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first.startswith(FED_BACK) or bool(ERROR_LINE.match(first))


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))
