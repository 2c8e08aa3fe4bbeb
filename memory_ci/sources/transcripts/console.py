"""A terminal copy of Claude Code, pasted into a text file: no structure, so that heuristics must do.

Conservative: a prompt counts as a person's only if it stands at the margin after an empty line and the agent answers
it. A refusal is counted; what follows it is a turn of its own. There are no times, and no id but the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, dated_name, read_lines
from memory_ci.sources.transcripts.prose import typed_words

PROMPT = re.compile(r"[>\u276f] (?P<words>\S.*)")
AGENT, THINKING, RESULT = "⏺ ", "✻ ", "  ⎿ "
CALL = re.compile(r"⏺ (?P<tool>[A-Z]\w*)\((?P<given>.*)\)…?\s*\Z", re.DOTALL)
NOISE = re.compile(r"[╭╰│✻✽✢·⏵]|\s*[✔⏵] ")  # Boxes, spinners and the status line.
REFUSED = "No (tell Claude what to do differently)"
STOPPED = "Interrupted by user"
FIXED_SPACE = "\xa0"
# The first line of a copy: the command, the box of the welcome, a prompt or an answer.
OPENING = re.compile(r"(?:\S*claude\b.*|[>\u276f⏺╭│╰].*)")
FEWEST_ANSWERS, FEWEST_RESULTS = 3, 2


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` looks like a terminal from its first line on."""
    lines = head.decode(errors="replace").replace(FIXED_SPACE, " ").split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    answers = sum(line.startswith(AGENT) for line in lines)
    results = sum(line.startswith(RESULT) for line in lines)
    return (
        bool(OPENING.fullmatch(first)) and answers >= FEWEST_ANSWERS and results >= FEWEST_RESULTS
    )


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a copy; `Origin.line` is where a prompt, an answer or a result begins. A prompt at the end
    that nobody answered is nobody's."""
    builder = SessionBuilder("claude-code", "claude-console", name, dated_name(name))
    kind, lines, is_after_blank = "", list[str](), True
    for number, line in read_lines(stream):
        if line is None:
            builder.bad_lines += 1
            continue
        text = line.replace(FIXED_SPACE, " ")
        if begun := _kind_of(text, kind, is_after_blank):
            _add(builder, kind, lines, answered_by=begun)
            builder.records += 1
            builder.place, kind, lines = Place(number), begun, []
        lines.append(text)
        is_after_blank = not text.strip()
    _add(builder, kind, lines, answered_by="")
    yield builder.build()


def _kind_of(text: str, kind: str, is_after_blank: bool) -> str:
    """What begins with this line, in or behind a block of a `kind`; empty if it goes on with what is there."""
    if text.startswith(AGENT):
        return "agent"
    if text.startswith(THINKING) and kind == "prompt":
        return "thinking"
    if text.startswith(RESULT):
        return "result"
    if is_after_blank and PROMPT.fullmatch(text):
        return "prompt"
    return "noise" if NOISE.match(text) else ""


def _add(builder: SessionBuilder, kind: str, lines: list[str], answered_by: str) -> None:
    """The event of one block."""
    text = "\n".join(line[2:] if line.startswith("  ") else line for line in lines).strip()
    if kind == "prompt":
        text = text[2:].strip()
        is_typed = answered_by in ("agent", "thinking") and typed_words(text) == text
        builder.add("human" if is_typed else "injected", "text", text)
    elif kind == "agent" and (call := CALL.fullmatch(text)):
        builder.add("agent", "tool_call", call["given"], tool=call["tool"])
    elif kind == "agent":
        builder.add("agent", "text", text.removeprefix(AGENT))
    elif kind == "result":
        text = text.removeprefix("⎿").strip()
        if text in (REFUSED, STOPPED):
            is_refused = text == REFUSED
            builder.add(
                "human", "rejection" if is_refused else "interrupt", "" if is_refused else text
            )
        else:
            builder.add("tool", "tool_result", text)
