"""Functions that make events and pieces of evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory_ci.records.event import Event, Evidence, Origin

AT = datetime(2026, 9, 1, tzinfo=UTC)


def make_event(text: str = "x", **fields: Any) -> Event:
    """Return an event, by default a commit."""
    defaults: dict[str, Any] = {
        "seq": 0,
        "at": AT,
        "actor": "human",
        "kind": "commit",
        "text": text,
        "origin": Origin("commit", "a" * 40),
        "author": "Ada <ada@example.com>",
        "paths": ("src/a.py",),
    }
    return Event(**defaults | fields)


def make_turn(text: str, **fields: Any) -> Event:
    """Return an event of a session, by default a text that a person typed."""
    return make_event(text, **{"kind": "text", "session": "claude-code:s1", "paths": ()} | fields)


def make_review(text: str, **fields: Any) -> Event:
    return make_event(
        text, **{"kind": "review", "origin": Origin("review", "7#r1"), "author": "bea"} | fields
    )


def make_piece(number: int, text: str = "retry once", **fields: Any) -> Evidence:
    """Return a piece with the id `e<number>`, by default a person's turn in a session."""
    defaults: dict[str, Any] = {
        "id": f"e{number}",
        "kind": "text",
        "text": text,
        "trust": "T1",
        "origin": Origin("session", "claude-code:s1", "s1.jsonl", number),
        "at": AT,
        "session": "claude-code:s1",
    }
    return Evidence(**defaults | fields)
