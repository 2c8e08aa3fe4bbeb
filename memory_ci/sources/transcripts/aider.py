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
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, dated_name, read_lines

CHAT = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
# The first chat of a file; before it stand only lines that aider writes itself.
START = re.compile(
    rb"\A(?:[ \t]*(?:(?:>|#### |-\*-)[^\n]*)?\r?\n)*# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s"
)

COMMIT = re.compile(r"Commit ([0-9a-f]{7,40}) (.+)")
COMMAND = re.compile(r"(?P<name>/[a-z][a-z-]*|!)(?=\s|(?<=!)|\Z)\s*(?P<rest>.*)\Z", re.DOTALL)
# The command line of a run that gets its message as an argument: a script may have written it.
SCRIPTED = re.compile(r"\S*aider\b.* (?:-m|--msg|--message|-f|--message-file)(?:[ =]|\Z)")
MAX_COMMAND = 2_000  # Characters of a command line that are looked at.
# Commands whose argument is what a person says to the agent.
SPEAKING = frozenset({"/ask", "/code", "/architect", "/context", "/copy-context"})
UNDO = "/undo"
# Commands that print output of programs, which aider writes without a mark.
PRINTING = frozenset(
    {"/run", "/test", "/diff", "/git", "/ls", "/map", "/tokens", "/lint", "/web", "!"}
)
# How a turn begins that is output of a linter, a test or aider itself, fed back by it or pasted.
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

ERROR_LINE = re.compile(r"[\w.]*(?:Error|Exception)\b: ")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is aider's history."""
    return bool(START.match(head))


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The sessions of a history, one a chat, streamed; aider's times have no zone and are taken as UTC.

    None is made of what stands before the first chat if it holds nothing. A chat that began in the same second as one
    before it has a number in its id.
    """
    ids: set[str] = set()

    def begin(started: datetime | None) -> _Reader:
        wanted = dated_name(name, started)
        numbered = (f"{wanted}-{number}" if number > 1 else wanted for number in count(1))
        ids.add(found := next(one for one in numbered if one not in ids))
        return _Reader(name, found, started)

    reader = begin(None)
    for number, text in read_lines(stream):
        if started := CHAT.match(text or "") if reader.blanks else None:
            yield from reader.finish()
            reader = begin(raw.time(started[1]))
        else:
            reader.take(number, text)
    yield from reader.finish()


class _Reader(SessionBuilder):
    """One chat while it is read: the kind of the lines that are being collected, and what they answer. `echo` is what
    aider writes once more, under the id of the words that it repeats."""

    kind = echo = echo_uid = ""
    line, blanks = 0, 1
    is_in_code = is_scripted = is_working = is_printing = False

    def __init__(self, path: str, session_id: str, started: datetime | None) -> None:
        super().__init__("aider", "aider-md", path, session_id)
        self.started, self.lines = started, list[str]()

    def finish(self) -> Iterator[Session]:
        """The session, if it holds something."""
        self._flush()
        if self.started or self.events:
            yield self.build()

    def take(self, number: int, text: str | None) -> None:
        """One line of the chat, None for a line that cannot be read."""
        self.records += 1
        if text is None:
            self.bad_lines += 1
            return
        kind = self._kind_of(text)
        if kind != self.kind:
            self._flush()
            self.kind, self.line, self.lines = kind, number, []
            self.place = Place(number, self.started)
        self.lines.append(text)
        self.blanks = 0 if text.strip() else self.blanks + 1

    def _kind_of(self, text: str) -> str:
        """`turn`, `tool` or `text`: what a line is, by its mark and by what it follows. A reply that was cut off closes
        no fence; two empty lines follow it."""
        if (
            text.startswith("#### ")
            and text.endswith("  ")
            and (self.kind == "turn" or self.blanks > self.is_in_code)
        ):
            self.is_in_code = False
            return "turn"
        if (
            text.startswith(">")
            and not text.startswith(">>>>>>>")
            and (text.endswith("  ") or not self.is_in_code)
        ):
            self.is_in_code = False
            return "tool"
        if self.kind == "tool" and text.strip():
            return "tool"  # aider marks the first line of a text alone
        if self.kind != "turn" or text.strip():
            self.is_in_code ^= text.startswith("```")
        return "text"

    def _flush(self) -> None:
        kind, self.kind = self.kind, ""
        if kind == "turn":
            self._turn(
                "\n".join(line.removeprefix("#### ").removesuffix("  ") for line in self.lines)
            )
        elif kind == "tool":
            self._tool([line.removeprefix(">").strip() for line in self.lines])
        elif text := "\n".join(self.lines).strip():
            self.add(
                "tool" if self.is_printing else "agent",
                "tool_result" if self.is_printing else "text",
                text,
            )
        self.lines = []

    def _tool(self, lines: list[str]) -> None:
        for line, text in enumerate(lines, self.line):
            place = Place(line, self.started)
            if not self.events and SCRIPTED.match(text[:MAX_COMMAND]):
                self.is_scripted = True
            elif commit := COMMIT.fullmatch(text):
                self.add("agent", "commit", commit[2], place, labels=(("sha", commit[1]),))
            elif text.startswith("^C") and self.is_working:
                self.add("human", "interrupt", text, place)
                self.is_working = False
            elif text.startswith("Tokens: "):
                self.is_working = False
        if text := "\n".join(lines).strip():
            self.add("tool", "tool_result", text)

    def _turn(self, text: str) -> None:
        command = COMMAND.match(text)
        name, rest = (command["name"], command["rest"].strip()) if command else ("", "")
        self.is_printing = name in PRINTING
        if name in SPEAKING and rest:
            self.echo, self.echo_uid = rest, f"{self.id}:{self.line}"
            self._words(rest, uid=self.echo_uid)
        elif name == UNDO:
            self.add("human", "rejection", tool=UNDO)
        elif name:
            self.add("system", "tool_call", rest, tool=name)
        elif self.echo and text.strip() == self.echo:
            self.add("human", "text", text, Place(self.line), uid=self.echo_uid)
            self.echo = ""
        else:
            self._words(text)

    def _words(self, text: str, uid: str = "") -> None:
        """A turn; where it begins like what programs print no word of it is a person's."""
        self.is_working = True
        first = next((line for line in text.split("\n") if line.strip()), "")
        if self.is_scripted or first.startswith(FED_BACK) or ERROR_LINE.match(first):
            self.add("injected", "text", text, uid=uid)
        else:
            self.say("human", text.strip(), uid)
