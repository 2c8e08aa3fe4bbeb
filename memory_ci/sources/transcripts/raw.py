"""Raw JSON, as an agent wrote it: what stands at a place in it, empty where the shape is another than expected.

The loop over the keys stands in each function: a long transcript asks for millions of values.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from memory_ci.secrets import find_secrets

MAX_SECRET = (
    1_000  # Characters on both sides of a cut in which a credential that was cut is looked for.
)


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


def value(told: object, *keys: str) -> object:
    """What stands in nested objects at `keys`; None if anything on the way is missing or no object."""
    for key in keys:
        told = told.get(key) if isinstance(told, dict) else None
    return told


def fields(told: object, *keys: str) -> dict[str, Any]:
    """What stands at `keys` if it is an object, else an empty one."""
    for key in keys:
        told = told.get(key) if isinstance(told, dict) else None
    return told if isinstance(told, dict) else {}


def items(told: object, *keys: str) -> list[Any]:
    """What stands at `keys` if it is a list, else an empty one."""
    for key in keys:
        told = told.get(key) if isinstance(told, dict) else None
    return told if isinstance(told, list) else []


def text(told: object, *keys: str) -> str:
    """What stands at `keys` if it is text, else an empty one."""
    for key in keys:
        told = told.get(key) if isinstance(told, dict) else None
    return told if isinstance(told, str) else ""


def time(told: object, *keys: str) -> datetime | None:
    """The ISO 8601 time at `keys` as an aware value in UTC, None for anything else; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text(told, *keys))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def texts(content: object) -> list[str]:
    """The texts of a message's content: one string, or the `text` of each part that has any."""
    parts = [content] if isinstance(content, str | dict) else items(content)
    found = [text(part) or text(part, "text") for part in parts]
    return [one for one in found if one.strip()]


def joined(told: object, *keys: str) -> str:
    """The texts of the content at `keys`, a line break between two parts."""
    return join(texts(value(told, *keys)), "\n")


def join(parts: list[str], separator: str) -> str:
    """The parts of one message, parted by `separator`; by nothing where a credential runs on from part to part. So
    redaction knows it for what it is."""
    whole = "".join(parts[:1])
    pieces = [whole]
    for part in parts[1:]:
        tail = whole[-MAX_SECRET:]
        near = find_secrets(tail + part[:MAX_SECRET])
        between = "" if any(one.start < len(tail) < one.end for one in near) else separator
        whole = tail + between + part
        pieces += [between, part]
    return "".join(pieces)
