"""Cursor: `agent-transcripts/<id>/<id>.jsonl` (its CLI: `<id>.jsonl`), one message a line; before 2026 `<id>.txt`.

Facts from files that people published and from what programs that read them say: a message has no id, no time (but for
`<timestamp>` before a prompt, since 2026) and no result of a tool. What was typed stands in `<user_query>`, and is not
escaped there; around it stands what Cursor added. In the text form nothing tells a prompt from words of the agent that
look like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    as_dict,
    as_list,
    as_text,
    decode,
    encode,
    read_objects,
    relative_paths,
    session_name,
)
from memory_ci.sources.transcripts.prose import read_lines

TAKES_ROOTS = True
"""`read` is given the work trees, where they are known: a transcript has absolute paths and does not say its own."""

ROLES = ("user", "assistant")  # not a set: what a record holds there may be no word
PATHS = ("path", "target_file", "file_path", "target_notebook")
OPEN, CLOSE = "<user_query>", "</user_query>"
NOTIFIED = "<system_notification"
"""What Cursor itself says of a task that ended; words of its own stand behind it in `<user_query>`."""

WHEN = re.compile(
    r"<timestamp>\w+, (?P<month>[A-Z][a-z]{2})[a-z]* (?P<rest>\d{1,2}, \d{4}, \d{1,2}:\d\d [AP]M)"
    r" \(UTC(?:(?P<hours>[+-]\d{1,2})(?::(?P<minutes>\d\d))?)?\)</timestamp>"
)
WITHHELD = re.compile(r"\s*\[REDACTED\]\s*")  # Reasoning that Cursor does not keep.
ABORTED = "aborted"
HEAD = re.compile(rb"\s*user:\r?\n<user_query>")
MARK = re.compile(r"(?P<who>user|assistant|A):|\[(?P<what>Tool call|Tool result)\] (?P<tool>\S+)")
THINKING = "[Thinking]"


def sniff(head: bytes) -> bool:
    """True where the first message of JSON Lines has a role and its content and nothing else, or for the text form."""
    if HEAD.match(head):
        return True
    found = (as_dict(decode(line)) for line in head.splitlines() if line.strip())
    first = next((record for record in found if "status" not in record), {})
    return first.get("role") in ROLES and first.keys() <= {"role", "message", "timestamp"} and _has_content(first)


def _has_content(record: dict[str, Any]) -> bool:
    return isinstance(as_dict(record.get("message")).get("content"), list | str)


def read(stream: BinaryIO, name: str, roots: Sequence[Path] = ()) -> Iterator[Session]:
    """The one session of a file; one in a directory `subagents` is a sub-agent's."""
    is_text = bool(HEAD.match(stream.read(100)))
    stream.seek(0)
    builder = SessionBuilder("cursor", session_name(name), "cursor-text" if is_text else "cursor-jsonl", name)
    reader = _Reader(builder, roots, "subagents" in name.split("/")[:-1])
    if is_text:
        _read_text(stream, reader)
    else:
        for line, record in read_objects(stream, builder):
            reader.take(line, record)
    yield builder.build()


class _Reader:
    """`at` is the time of the last prompt that has one: what follows is given it."""

    def __init__(self, builder: SessionBuilder, roots: Sequence[Path], is_inner: bool) -> None:
        self.builder, self.roots = builder, roots
        self.person: Actor = "subagent" if is_inner else "human"
        self.agent: Actor = "subagent" if is_inner else "agent"
        self.at: datetime | None = None

    def take(self, line: int, record: dict[str, Any]) -> None:
        """One line of JSON."""
        if record.get("role") not in ROLES:
            if record.get("status") == ABORTED:
                self.builder.add("human", "interrupt", "", Place(line, self.at))
            elif "status" not in record:
                self.builder.unknown(as_text(record.get("type")) or "untyped")
            return
        content = as_dict(record.get("message")).get("content")
        for part in as_list(content) or [content]:
            block = as_dict(part) or {"type": "text", "text": part}
            if block.get("type") == "text":
                say = self.ask if record["role"] == "user" else self.say
                say(as_text(block.get("text")), line)
            elif block.get("type") == "tool_use":
                self.call(as_text(block.get("name")), block.get("input"), line)
            else:
                self.builder.unknown(as_text(block.get("type")) or "untyped")

    def ask(self, text: str, line: int) -> None:
        """A message to the agent: what was typed, and apart from it what was added."""
        if when := WHEN.search(text):
            self.at = _parse_when(when) or self.at
        place = Place(line, self.at)
        before, opened, behind = text.rpartition(OPEN)  # a file that was attached before it may hold such tags
        typed, closed, after = behind.rpartition(CLOSE)
        if not (opened and closed) or NOTIFIED in before:
            self.builder.add("injected", "text", text, place)
            return
        if added := (before.replace(when[0] if when else "", "") + after).strip():
            self.builder.add("injected", "text", added, place)
        if typed := typed.strip():
            self.builder.add(self.person, "text", typed, place)

    def say(self, text: str, line: int) -> None:
        """Words of the agent."""
        if said := WITHHELD.sub("\n\n", text).strip():
            self.builder.add(self.agent, "text", said, Place(line, self.at))

    def call(self, tool: str, given: object, line: int) -> None:
        """A tool called; the files of the work tree that it names."""
        named = [as_text(as_dict(given).get(name)) for name in PATHS]
        root = next((str(root) for root in self.roots for path in named if path.startswith(f"{root}/")), "")
        paths = relative_paths(filter(None, named), root)
        text = given if isinstance(given, str) else encode(given)
        self.builder.add(self.agent, "tool_call", text, Place(line, self.at), tool=tool, paths=paths)


def _parse_when(found: re.Match[str]) -> datetime | None:
    hours = int(found["hours"] or 0)
    minutes = int(found["minutes"] or 0) * (-1 if hours < 0 else 1)
    try:
        zone = timezone(timedelta(hours=hours, minutes=minutes))
        local = datetime.strptime(f"{found['month']} {found['rest']}", "%b %d, %Y, %I:%M %p").replace(tzinfo=zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _read_text(stream: BinaryIO, reader: _Reader) -> None:
    """The text form: blocks that begin with a mark of their own in a line; a prompt ends with its closing tag."""
    kind, tool, first = "", "", 0
    lines: list[str] = []
    is_typed = False

    def finish() -> None:
        text = "\n".join(lines).strip()
        if kind == "user":
            reader.ask(text, first)
        elif kind == "Tool call":
            given = dict(line.strip().partition(": ")[::2] for line in lines if line.strip())
            reader.call(tool, given, first)
        elif kind == "Tool result":
            reader.builder.add("tool", "tool_result", text, Place(first), tool=tool)
        else:
            reader.say(text.removeprefix(THINKING), first)

    for number, line in read_lines(stream):
        if line is None:
            reader.builder.bad_line()
            continue
        mark = None if is_typed else MARK.fullmatch(line.rstrip())
        if mark is None:
            lines.append(line)
            is_typed = (is_typed or line.startswith(OPEN)) and kind == "user" and CLOSE not in line
            continue
        finish()
        reader.builder.record()
        kind, tool, first = mark["what"] or mark["who"], mark["tool"] or "", number
        lines = []
    finish()
