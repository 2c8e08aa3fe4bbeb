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

from memory_ci.records.event import Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    read_lines,
    read_objects,
    relative_paths,
)
from memory_ci.sources.transcripts.prose import is_envelope

# `read` is given the work trees, where they are known: a transcript has absolute paths and does not say its own.
TAKES_ROOTS = True
ROLES = ("user", "assistant")  # not a set: what a record holds there may be no word
PATHS = ("path", "target_file", "file_path", "target_notebook")
OPEN, CLOSE = "<user_query>", "</user_query>"
# What Cursor itself says of a task that ended; words of its own stand behind it in `<user_query>`.
NOTIFIED = "<system_notification"
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
    found = (raw.fields(raw.decode(line)) for line in head.splitlines() if line.strip())
    first = next((record for record in found if "status" not in record), {})
    has_content = isinstance(raw.value(first, "message", "content"), list | str)
    return (
        first.get("role") in ROLES
        and first.keys() <= {"role", "message", "timestamp"}
        and has_content
    )


def read(stream: BinaryIO, name: str, roots: Sequence[Path] = ()) -> Iterator[Session]:
    """The one session of a file; one in a directory `subagents` is a sub-agent's."""
    is_text = bool(HEAD.match(stream.read(100)))
    stream.seek(0)
    reader = _Reader("cursor", "cursor-text" if is_text else "cursor-jsonl", name)
    reader.roots = roots
    if "subagents" in name.split("/")[:-1]:
        reader.person = reader.worker = "subagent"
    if is_text:
        reader.read_text(stream)
    else:
        for record in read_objects(stream, reader):
            reader.take(record)
    yield reader.build()


class _Reader(SessionBuilder):
    """`at` is the time of the last prompt that has one: what follows is given it."""

    roots: Sequence[Path] = ()
    at: datetime | None = None

    def take(self, record: dict[str, Any]) -> None:
        """One line of JSON."""
        self.place = Place(self.place.line, self.at)
        if record.get("role") not in ROLES:
            if record.get("status") == ABORTED:
                self.add("human", "interrupt")
            elif "status" not in record:
                self.unknown(record.get("type"))
            return
        content = raw.fields(record, "message").get("content")
        for part in raw.items(content) or [content]:
            block = raw.fields(part) or {"type": "text", "text": part}
            if block.get("type") == "text":
                say = self.ask if record["role"] == "user" else self.answer
                say(raw.text(block, "text"))
            elif block.get("type") == "tool_use":
                self.use(raw.text(block, "name"), block.get("input"))
            else:
                self.unknown(block.get("type"))

    def read_text(self, stream: BinaryIO) -> None:
        """The text form: blocks that begin with a mark of their own in a line; a prompt ends with its closing tag."""
        kind = tool = ""
        lines: list[str] = []
        is_typed = False
        for number, line in read_lines(stream):
            if line is None:
                self.bad_lines += 1
            elif is_typed or not (mark := MARK.fullmatch(line.rstrip())):
                lines.append(line)
                is_typed = (
                    (is_typed or line.startswith(OPEN)) and kind == "user" and CLOSE not in line
                )
            else:
                self._finish(kind, tool, lines)
                self.records += 1
                kind, tool, lines = mark["what"] or mark["who"], mark["tool"] or "", []
                self.place = Place(number, self.at)
        self._finish(kind, tool, lines)

    def _finish(self, kind: str, tool: str, lines: list[str]) -> None:
        """One block of the text form."""
        text = "\n".join(lines).strip()
        if kind == "user":
            self.ask(text)
        elif kind == "Tool call":
            self.use(
                tool, dict(line.strip().partition(": ")[::2] for line in lines if line.strip())
            )
        elif kind == "Tool result":
            self.add("tool", "tool_result", text, Place(self.place.line), tool=tool)
        else:
            self.answer(text.removeprefix(THINKING))

    def ask(self, text: str) -> None:
        """A message to the agent: what was typed, and apart from it what was added."""
        if when := WHEN.search(text):
            self.at = _parse_when(when) or self.at
            self.place = Place(self.place.line, self.at)
        before, opened, behind = text.rpartition(
            OPEN
        )  # a file that was attached before it may hold such tags
        typed, closed, after = behind.rpartition(CLOSE)
        if not (opened and closed) or NOTIFIED in before:
            self.add("injected", "text", text)
            return
        self.say("injected", (before.replace(when[0] if when else "", "") + after).strip())
        self.say("injected" if is_envelope(typed) else self.person, typed.strip())

    def answer(self, text: str) -> None:
        """Words of the agent."""
        self.say(self.worker, WITHHELD.sub("\n\n", text).strip())

    def use(self, tool: str, given: object) -> None:
        """A tool called; the files of the work tree that it names."""
        named = [raw.text(given, name) for name in PATHS]
        root = next(
            (str(root) for root in self.roots for path in named if path.startswith(f"{root}/")), ""
        )
        text = given if isinstance(given, str) else raw.encode(given)
        self.add(
            self.worker,
            "tool_call",
            text,
            tool=tool,
            paths=relative_paths(filter(None, named), root),
        )


def _parse_when(found: re.Match[str]) -> datetime | None:
    hours = int(found["hours"] or 0)
    minutes = int(found["minutes"] or 0) * (-1 if hours < 0 else 1)
    try:
        zone = timezone(timedelta(hours=hours, minutes=minutes))
        local = datetime.strptime(
            f"{found['month']} {found['rest']}", "%b %d, %Y, %I:%M %p"
        ).replace(tzinfo=zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
