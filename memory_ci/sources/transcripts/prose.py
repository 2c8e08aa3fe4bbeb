"""Reading what agents leave as text for people: lines, bounded, and words that stand under a user's name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO

from memory_ci.sources.transcripts.builder import Place, SessionBuilder, session_name
from memory_ci.sources.transcripts.claude_record import INTERRUPT, is_injected, said_words
from memory_ci.sources.transcripts.codex import IDE_CONTEXT, IDE_REQUEST, WRAPPERS

MAX_LINE = 2**20  # Bytes of one line; a longer one is counted as bad.
SUMMARY = "This session is being continued from a previous conversation"
"""How Claude Code begins what it keeps of a conversation that it compacted."""

IMAGE = re.compile(r"<image\b[^>]{0,200}>\s{0,20}</image>")
UNSAFE = re.compile(r"[^\w.-]+")


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """Each line without its end, with its number from 1; None for one that is no text in UTF-8, or too long."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        yield number, _text(line) if len(line) <= MAX_LINE else None
        while len(line) >= MAX_LINE and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE)


def _text(line: bytes) -> str | None:
    try:
        return None if b"\0" in line else line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return None


def dated_name(name: str, started: datetime | None) -> str:
    """The id of a session whose content gives none: the file's name and the start, fit for a git ref.

    >>> dated_name(".log.history.md", datetime(2026, 9, 1, 12, 30, 5))
    'log.history-20260901T123005'
    """
    stem = UNSAFE.sub("-", session_name(name)).strip(".-") or "session"
    return f"{stem}-{started:%Y%m%dT%H%M%S}" if started else stem


def typed_words(text: str) -> str:
    """What a person may have typed of `text`; empty if an agent's tool is known to have put it there."""
    if text.startswith(IDE_CONTEXT):
        text = text.rpartition(IDE_REQUEST)[2] if IDE_REQUEST in text else ""
    if is_injected(text) or text.lstrip().startswith(WRAPPERS):
        return ""
    return said_words(IMAGE.sub("", text))


def add_turn(builder: SessionBuilder, text: str, place: Place) -> None:
    """A turn under a user's name: an interrupt, a person's words, or else what a tool put there."""
    if text.startswith(INTERRUPT):
        builder.add("human", "interrupt", text, place)
    elif words := typed_words(text):
        builder.add("human", "text", words, place)
    elif text.strip():
        builder.add("injected", "compaction" if text.startswith(SUMMARY) else "text", text, place)
