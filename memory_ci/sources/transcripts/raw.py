"""Access to decoded JSON of unknown shape: a missing value or another type reads as empty.

The loop over the keys is repeated in each function: a long transcript needs millions of values.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from memory_ci.secrets import find_secrets

MAX_SECRET = 1_000
"""Characters on both sides of a cut that are searched for a credential across it."""


def decode(data: bytes) -> object:
    """Return the JSON value in `data`; None if it is invalid, not UTF-8 or nested too deep."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def encode(value: object) -> str:
    """Return a value of `decode` as one line of JSON; "" if it is nested too deep."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return ""


def get_value(data: object, *keys: str) -> object:
    """Return the value at a path of keys; None if anything on the way is missing or no object."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def get_object(data: object, *keys: str) -> dict[str, Any]:
    """Return the object at a path of keys, else an empty one."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def get_list(data: object, *keys: str) -> list[Any]:
    """Return the list at a path of keys, else an empty one."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, list) else []


def get_text(data: object, *keys: str) -> str:
    """Return the text at a path of keys, else an empty one."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, str) else ""


def get_time(data: object, *keys: str) -> datetime | None:
    """Return the ISO 8601 time at a path of keys in UTC, None for anything else.

    A time without a zone is read as UTC.
    """
    try:
        time = datetime.fromisoformat(get_text(data, *keys))
        if not time.tzinfo:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def list_texts(content: object) -> list[str]:
    """Return the texts of a message's content that are not blank.

    The content is a string, or a list of parts, which are strings or objects with a `text`.
    """
    parts = [content] if isinstance(content, str | dict) else get_list(content)
    texts: list[str] = []
    for part in parts:
        text = part if isinstance(part, str) else get_text(part, "text")
        if text.strip():
            texts.append(text)
    return texts


def get_joined_text(data: object, *keys: str) -> str:
    """Return the texts of the content at a path of keys, with a line break between two parts."""
    return join_parts(list_texts(get_value(data, *keys)), "\n")


def join_parts(parts: list[str], separator: str) -> str:
    """Return the parts of one message with a separator between them.

    If the border between two parts is in the middle of a credential, no separator is put there:
    redaction would not recognise the halves.
    """
    if not parts:
        return ""
    pieces = [parts[0]]
    tail = parts[0]
    for part in parts[1:]:
        tail = tail[-MAX_SECRET:]
        secrets = find_secrets(tail + part[:MAX_SECRET])
        is_credential_cut = any(secret.start < len(tail) < secret.end for secret in secrets)
        between = "" if is_credential_cut else separator
        pieces += [between, part]
        tail += between + part
    return "".join(pieces)
