"""The sample transcripts of tests/sessions, and strategies that break them."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from hypothesis import strategies as st

from memory_ci.records.event import Event, Session

SESSIONS = Path(__file__).parents[2] / "transcripts"
OTHERS: tuple[Any, ...] = (
    None,
    7,
    -1.5,
    True,
    "",
    "x",
    [],
    [None],
    {},
    {"text": 3},
    "\x00",
    [[["deep"]]],
)

Reader = Callable[[BinaryIO, str], Iterator[Session]]


def sample(name: str) -> bytes:
    return (SESSIONS / name).read_bytes()


def read_one(read: Reader, data: bytes, name: str = "some-name.jsonl") -> Session:
    (session,) = read(io.BytesIO(data), name)
    return session


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def records(name: str) -> list[Any]:
    return [json.loads(line) for line in sample(name).splitlines()]


def write_opencode(path: Path, *exports: Any) -> None:
    """Write a database of opencode with these exported sessions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as base:
        base.execute(
            "CREATE TABLE session (id text, directory text, parent_id text, time_created integer)"
        )
        base.execute(
            "CREATE TABLE message (id text, session_id text, time_created integer, data text)"
        )
        base.execute("CREATE TABLE part (id text, message_id text, session_id text, data text)")
        for export in exports:
            info, key = export["info"], export["info"]["id"]
            row = (key, info["directory"], info.get("parentID"), info["time"]["created"])
            base.execute("INSERT INTO session VALUES (?, ?, ?, ?)", row)
            for message in export["messages"]:
                uid, at = message["info"]["id"], message["info"]["time"]["created"]
                base.execute(
                    "INSERT INTO message VALUES (?, ?, ?, ?)",
                    (uid, key, at, json.dumps(message["info"])),
                )
                parts = [(part["id"], uid, key, json.dumps(part)) for part in message["parts"]]
                base.executemany("INSERT INTO part VALUES (?, ?, ?, ?)", parts)
        base.commit()


def outline(session: Session) -> list[tuple[str, str, str]]:
    """Return the actor, the kind and the first words of each event."""
    return [(event.actor, event.kind, event.text[:24]) for event in session.events]


def of_kind(session: Session, kind: str) -> list[Event]:
    return [event for event in session.events if event.kind == kind]


def human_texts(session: Session) -> list[str]:
    return [
        event.text for event in session.events if (event.actor, event.kind) == ("human", "text")
    ]


def sniffed(sniff: Callable[[bytes], bool]) -> set[str]:
    """Return the samples, of all formats, that a reader accepts."""
    return {path.name for path in SESSIONS.iterdir() if sniff(path.read_bytes()[: 64 * 1024])}


def changed(value: Any, draw: Any) -> Any:
    """Return `value` with one part removed or replaced by a value of another type."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.booleans()) or not isinstance(value[key], dict | list):
            other_parts = {name: part for name, part in value.items() if name != key}
            return (
                other_parts
                if draw(st.booleans())
                else other_parts | {key: draw(st.sampled_from(OTHERS))}
            )
        return value | {key: changed(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], changed(value[at], draw), *value[at + 1 :]]
    return draw(st.sampled_from(OTHERS))


@st.composite
def broken(draw: Any, name: str) -> bytes:
    """Draw a sample with some values of other types, and sometimes bytes cut off, added or zeroed."""
    is_lines = name.endswith(".jsonl")
    values = records(name) if is_lines else [json.loads(sample(name))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(values) - 1))
        values[at] = changed(values[at], draw)
    data = lines(*values) if is_lines else json.dumps(values[0], indent=1).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(
            st.sampled_from([b"", b"\x00", b"\xff\xfe", b"\n{", b"[" * 5000, data[at + 9 :]])
        )
    return data
