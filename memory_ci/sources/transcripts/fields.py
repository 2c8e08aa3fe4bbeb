"""Reading JSON that others wrote: bounded, of any shape; a broken file costs a count and never a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import msgspec

from memory_ci.secrets import find_secrets
from memory_ci.sources.transcripts.builder import SessionBuilder

MAX_LINE = 16 * 2**20  # Bytes of one line of a JSONL file; a longer one is counted as bad.
MAX_DOCUMENT = 64 * 2**20  # Bytes of a transcript that is one JSON value; a longer one is counted as bad.
MAX_SECRET = 1_000  # Characters on both sides of a cut in which a credential that was cut is looked for.
MAX_MISSED = 20  # Ids of a document that may be looked for in vain: each costs a pass over the file.


def decode(data: bytes) -> object:
    """The JSON value in `data`; None if it is none, is not UTF-8 or is nested too deep."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def encode(value: object) -> str:
    """`value`, which was decoded here, as one line of JSON; empty if it is nested too deep to be written."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return ""


def as_dict(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """`value` if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def text_parts(value: object) -> list[str]:
    """The texts of a message's content: one string, or the `text` of each part that has any."""
    parts = [value] if isinstance(value, str | dict) else as_list(value)
    texts = [as_text(part) or as_text(as_dict(part).get("text")) for part in parts]
    return [text for text in texts if text.strip()]


def joined_text(value: object) -> str:
    """The texts of a message's content, a line break between two parts."""
    return join_parts(text_parts(value), "\n")


def join_parts(parts: list[str], separator: str) -> str:
    """The parts of one message, parted by `separator`; by nothing where a credential runs on from part to part.

    So redaction knows it for what it is.
    """
    whole = "".join(parts[:1])
    joined = [whole]
    for part in parts[1:]:
        tail = whole[-MAX_SECRET:]
        near = find_secrets(tail + part[:MAX_SECRET])
        between = "" if any(one.start < len(tail) < one.end for one in near) else separator
        whole = tail + between + part
        joined += [between, part]
    return "".join(joined)


def touched_paths(arguments: object, *names: str, root: str = "") -> tuple[str, ...]:
    """The files that a tool call names in the arguments `names`, as `relative_paths`."""
    given = as_dict(arguments)
    return relative_paths((as_text(given.get(name)) for name in names), root)


def relative_paths(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """Each of `paths` once, relative to `root`; one outside of it is not named: it tells of somebody's machine."""
    found = (PurePosixPath(path) for path in paths)
    inside = (path.relative_to(root) if root and path.is_relative_to(root) else path for path in found)
    kept = (str(path) for path in inside if path.parts and not path.is_absolute() and ".." not in path.parts)
    return tuple(dict.fromkeys(kept))


def session_name(name: str) -> str:
    """The session's id where the content gives none: the file's name without its ending."""
    return name.rpartition("/")[2].rpartition(".")[0] or name


def read_objects(stream: BinaryIO, builder: SessionBuilder) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line that is a JSON object, with its number from 1; blank lines are passed over, all others counted."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if not line.strip():
            continue
        builder.record()
        whole = len(line) <= MAX_LINE
        if not whole:
            _skip_line(stream, line)
        found = decode(line) if whole else None
        if isinstance(found, dict):
            yield number, found
        else:
            builder.bad_line()


def _skip_line(stream: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = stream.readline(MAX_LINE)


class Document:
    """A transcript that is one JSON value; `value` is None, and a bad line counted, if it cannot be read."""

    def __init__(self, stream: BinaryIO, builder: SessionBuilder) -> None:
        self._data = stream.read(MAX_DOCUMENT + 1)
        self.value = decode(self._data) if len(self._data) <= MAX_DOCUMENT else None
        self._at, self._line, self._missed = 0, 1, 0
        if self.value is None:
            builder.bad_line()

    def line_of(self, uid: str | int) -> int:
        """The line where `uid` next stands as the value of an "id", from 1; where the last one stood if it does not."""
        if uid == "" or self._missed > MAX_MISSED:
            return self._line
        value = str(uid) if isinstance(uid, int) else f'"{uid}"'
        pattern = rb'"id"\s*:\s*' + re.escape(value.encode()) + rb"(?![\w.])"
        if found := re.compile(pattern).search(self._data, self._at):
            self._line += self._data.count(b"\n", self._at, found.start())
            self._at = found.start()
        else:
            self._missed += 1
        return self._line
