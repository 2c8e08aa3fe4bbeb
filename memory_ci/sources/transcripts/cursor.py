"""Reader of Cursor's session files: JSON Lines, or a text form that is older than 2026.

The paths are `agent-transcripts/<id>/<id>.jsonl` (Cursor's CLI: `<id>.jsonl`), and `<id>.txt`.
Facts from files that people published and from the documents of programs that read them: a message
has no id, no time (but for `<timestamp>` before a prompt, since 2026) and no result of a tool.
Typed words are in `<user_query>`, and not escaped there; Cursor's additions are around it. In the
text form nothing separates a prompt from words of the agent that look like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO

from memory_ci.records.event import Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    make_relative_paths,
    read_lines,
    read_objects,
)
from memory_ci.sources.transcripts.prose import looks_program_written

TAKES_ROOTS = True
"""`read` takes work trees: a transcript has absolute paths and does not name its own directory."""

ROLES = ("user", "assistant")  # not a set: a record may hold an unhashable value there
PATH_ARGUMENTS = ("path", "target_file", "file_path", "target_notebook")
QUERY_START = "<user_query>"
QUERY_END = "</user_query>"

NOTIFICATION = "<system_notification"
"""Cursor's notice of a task that ended; Cursor's own words follow it in `<user_query>`."""

TIMESTAMP = Regex(
    r"<timestamp>\w+, (?P<month>[A-Z][a-z]{2})[a-z]* (?P<day_and_time>\d{1,2}, \d{4},"
    r" \d{1,2}:\d\d [AP]M) \(UTC(?:(?P<hours>[+-]\d{1,2})(?::(?P<minutes>\d\d))?)?\)</timestamp>"
)
"""`<timestamp>Monday, March 2, 2026, 4:05 PM (UTC+5:30)</timestamp>`."""

WITHHELD = Regex(r"\s*\[REDACTED\]\s*")  # Reasoning that Cursor does not keep.
ABORTED = "aborted"
TEXT_FORM_START = Regex(rb"\s*user:\r?\n<user_query>")
BLOCK_HEADER = Regex(
    r"(?P<role>user|assistant|A):|\[(?P<tool_block>Tool call|Tool result)\] (?P<tool>\S+)"
)
"""The first line of a block of the text form: `user:` or `[Tool call] Read`."""
THINKING = "[Thinking]"


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is Cursor's.

    The text form begins with a prompt. In the JSON form, the first record that is not a status has
    the keys `role` and `message`, and no other key than `timestamp`.
    """
    if TEXT_FORM_START.match(head):
        return True
    first_message: dict[str, Any] = {}
    for line in head.splitlines():
        record = raw.get_object(raw.decode(line))
        if line.strip() and "status" not in record:
            first_message = record
            break
    if first_message.get("role") not in ROLES:
        return False
    if not first_message.keys() <= {"role", "message", "timestamp"}:
        return False
    return isinstance(raw.get_value(first_message, "message", "content"), list | str)


def read(stream: BinaryIO, name: str, roots: Sequence[Path] = ()) -> Iterator[Session]:
    """Yield the one session of a file; in a directory `subagents` it is a sub-agent's.

    Args:
        stream: the file, which must be seekable.
        name: the path of the file.
        roots: work trees, to which paths are made relative.
    """
    is_text = bool(TEXT_FORM_START.match(stream.read(100)))
    stream.seek(0)
    reader = _Reader("cursor", "cursor-text" if is_text else "cursor-jsonl", name)
    reader.roots = roots
    if "subagents" in name.split("/")[:-1]:
        reader.user_actor = "subagent"
        reader.agent_actor = "subagent"
    if is_text:
        reader.read_text(stream)
    else:
        for record in read_objects(stream, reader):
            reader.add_record(record)
    yield reader.build()


class _Reader(SessionBuilder):
    """The builder of the session of one file.

    Attributes:
        roots: work trees, to which paths are made relative.
        prompted_at: the time of the last prompt with a time; the messages after it get the same.
    """

    roots: Sequence[Path] = ()
    prompted_at: datetime | None = None

    def add_record(self, record: dict[str, Any]) -> None:
        """Add one record of the JSON form: a message of the person or the agent, or an abort."""
        self.place = Place(self.place.line, self.prompted_at)
        if record.get("role") not in ROLES:
            if record.get("status") == ABORTED:
                self.add_event("human", "interrupt")
            elif "status" not in record:
                self.count_unknown(record.get("type"))
            return
        content = raw.get_object(record, "message").get("content")
        parts = raw.get_list(content) or [content]  # the content may be one text
        for part in parts:
            block = raw.get_object(part) or {"type": "text", "text": part}
            block_type = block.get("type")
            if block_type == "text" and record["role"] == "user":
                self.add_prompt(raw.get_text(block, "text"))
            elif block_type == "text":
                self.add_agent_text(raw.get_text(block, "text"))
            elif block_type == "tool_use":
                self.add_tool_call(raw.get_text(block, "name"), block.get("input"))
            else:
                self.count_unknown(block_type)

    def read_text(self, stream: BinaryIO) -> None:
        """Read the text form: each block begins with a line like `user:` or `[Tool call] Read`.

        Inside of `<user_query>` in a prompt, such lines are the person's words.
        """
        kind = ""
        tool = ""
        lines: list[str] = []
        is_in_query = False
        for number, line in read_lines(stream):
            if line is None:
                self.bad_lines += 1
                continue
            header = None if is_in_query else BLOCK_HEADER.fullmatch(line.rstrip())
            if header is None:
                lines.append(line)
                if kind == "user" and line.startswith(QUERY_START):
                    is_in_query = True
                if QUERY_END in line:
                    is_in_query = False
                continue
            self._add_block(kind, tool, lines)
            self.records += 1
            kind = header["tool_block"] or header["role"]
            tool = header["tool"] or ""
            lines = []
            self.place = Place(number, self.prompted_at)
        self._add_block(kind, tool, lines)

    def _add_block(self, kind: str, tool: str, lines: list[str]) -> None:
        """Add one block of the text form.

        Args:
            kind: the role or the kind of tool block in its header; "" for lines before the first
                block.
            tool: the tool of a call or a result.
            lines: the lines after the header; in a call, each is `name: value`.
        """
        text = "\n".join(lines).strip()
        if kind == "user":
            self.add_prompt(text)
        elif kind == "Tool call":
            arguments: dict[str, str] = {}
            for line in lines:
                if line.strip():
                    name, _, value = line.strip().partition(": ")
                    arguments[name] = value
            self.add_tool_call(tool, arguments)
        elif kind == "Tool result":
            self.add_event("tool", "tool_result", text, Place(self.place.line), tool=tool)
        else:
            self.add_agent_text(text.removeprefix(THINKING))

    def add_prompt(self, text: str) -> None:
        """Add a message to the agent: Cursor's additions, then the text that the person typed."""
        timestamp = TIMESTAMP.search(text)
        if timestamp:
            self.prompted_at = _parse_timestamp(timestamp) or self.prompted_at
            self.place = Place(self.place.line, self.prompted_at)

        # The last tags: a file that was attached before them may hold such tags.
        before, opening, query = text.rpartition(QUERY_START)
        typed, closing, after = query.rpartition(QUERY_END)
        if not opening or not closing or NOTIFICATION in before:
            self.add_event("injected", "text", text)
            return
        if timestamp:
            before = before.replace(timestamp[0], "")
        self.add_text("injected", (before + after).strip())
        self.add_text(
            "injected" if looks_program_written(typed) else self.user_actor, typed.strip()
        )

    def add_agent_text(self, text: str) -> None:
        """Add a text of the agent."""
        self.add_text(self.agent_actor, WITHHELD.sub("\n\n", text).strip())

    def add_tool_call(self, tool: str, arguments: object) -> None:
        """Add a call of a tool, with the files of the work tree that it names."""
        paths = [raw.get_text(arguments, name) for name in PATH_ARGUMENTS]
        text = arguments if isinstance(arguments, str) else raw.encode(arguments)
        inside = make_relative_paths([path for path in paths if path], self._find_root(paths))
        self.add_event(self.agent_actor, "tool_call", text, tool=tool, paths=inside)

    def _find_root(self, paths: Sequence[str]) -> str:
        """Return the first work tree that holds one of some paths, or ""."""
        for root in self.roots:
            for path in paths:
                if path.startswith(f"{root}/"):
                    return str(root)
        return ""


def _parse_timestamp(timestamp: re.Match[str]) -> datetime | None:
    """Return the time that a match of `TIMESTAMP` has, in UTC; None if there is no such time."""
    hours = int(timestamp["hours"] or 0)
    minutes = int(timestamp["minutes"] or 0)
    if hours < 0:  # no zone is between UTC-1 and UTC, so "-0" does not occur
        minutes = -minutes
    local_text = f"{timestamp['month']} {timestamp['day_and_time']}"
    try:
        zone = timezone(timedelta(hours=hours, minutes=minutes))
        local_time = datetime.strptime(local_text, "%b %d, %Y, %I:%M %p").replace(tzinfo=zone)
        return local_time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
