"""A terminal copy of Claude Code, pasted into a text file: no structure, so that heuristics must do.

Conservative: a prompt counts as a person's only if it stands at the margin after an empty line and the agent answers
it. A refusal is counted; what follows it is a turn of its own. There are no times, and no id but the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import Place, SessionBuilder
from memory_ci.sources.transcripts.prose import dated_name, read_lines, typed_words

PROMPT = re.compile(r"[>\u276f] (?P<words>\S.*)")
AGENT, THINKING, RESULT = "⏺ ", "✻ ", "  ⎿ "
CALL = re.compile(r"⏺ (?P<tool>[A-Z]\w*)\((?P<given>.*)\)…?\s*\Z", re.DOTALL)
NOISE = re.compile(r"[╭╰│✻✽✢·⏵]|\s*[✔⏵] ")  # Boxes, spinners and the status line.
REFUSED = "No (tell Claude what to do differently)"
STOPPED = "Interrupted by user"
FIXED_SPACE = "\xa0"
OPENING = re.compile(r"(?:\S*claude\b.*|[>\u276f⏺╭│╰].*)")
"""The first line of a copy: the command, the box of the welcome, a prompt or an answer."""

FEWEST_ANSWERS, FEWEST_RESULTS = 3, 2


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` looks like a terminal from its first line on."""
    lines = head.decode(errors="replace").replace(FIXED_SPACE, " ").split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    answers = sum(line.startswith(AGENT) for line in lines)
    results = sum(line.startswith(RESULT) for line in lines)
    return bool(OPENING.fullmatch(first)) and answers >= FEWEST_ANSWERS and results >= FEWEST_RESULTS


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a copy; `Origin.line` is where a prompt, an answer or a result begins."""
    reader = _Reader(SessionBuilder("claude-code", dated_name(name, None), "claude-console", name))
    for number, text in read_lines(stream):
        reader.take(number, text)
    yield reader.finish()


class _Reader:
    """The block that is being collected, and the prompt that waits for its answer."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.kind = ""
        self.lines: list[str] = []
        self.line = 0
        self.is_after_blank = True

    def take(self, number: int, text: str | None) -> None:
        """One line of the copy, None for a line that cannot be read."""
        if text is None:
            self.builder.bad_line()
            return
        text = text.replace(FIXED_SPACE, " ")
        kind = self._kind_of(text)
        if kind:
            self._flush(answered_by=kind)
            self.builder.record()
            self.kind, self.line = kind, number
        self.lines.append(text)
        self.is_after_blank = not text.strip()

    def finish(self) -> Session:
        """The session; a prompt at the end that nobody answered is left out."""
        self._flush(answered_by="")
        return self.builder.build()

    def _kind_of(self, text: str) -> str:
        """What begins with this line; empty if it goes on with what is there."""
        if text.startswith(AGENT):
            return "agent"
        if text.startswith(THINKING) and self.kind == "prompt":
            return "thinking"
        if text.startswith(RESULT):
            return "result"
        if self.is_after_blank and PROMPT.fullmatch(text):
            return "prompt"
        return "noise" if NOISE.match(text) else ""

    def _flush(self, answered_by: str) -> None:
        text = "\n".join(line[2:] if line.startswith("  ") else line for line in self.lines).strip()
        kind, self.kind, self.lines = self.kind, "", []
        if kind == "prompt":
            self._prompt(text[2:].strip(), answered_by)
        elif kind == "agent":
            self._agent(text)
        elif kind == "result":
            self._result(text.removeprefix("⎿").strip())

    def _prompt(self, text: str, answered_by: str) -> None:
        if answered_by in ("agent", "thinking") and typed_words(text) == text:
            self.builder.add("human", "text", text, Place(self.line))
        else:
            self.builder.add("injected", "text", text, Place(self.line))

    def _agent(self, text: str) -> None:
        if call := CALL.fullmatch(text):
            self.builder.add("agent", "tool_call", call["given"], Place(self.line), tool=call["tool"])
        else:
            self.builder.add("agent", "text", text.removeprefix(AGENT), Place(self.line))

    def _result(self, text: str) -> None:
        if text == REFUSED:
            self.builder.add("human", "rejection", "", Place(self.line))
        elif text == STOPPED:
            self.builder.add("human", "interrupt", text, Place(self.line))
        else:
            self.builder.add("tool", "tool_result", text, Place(self.line))
