"""The queue of Claude Code: what is typed while the agent works, and how it reaches the agent.

`enqueue` holds the words. `remove` hands them to the running turn, and mostly no other record has them; newer versions
write a `queued_command` attachment just before it. `dequeue` starts a turn with them, which a `user` record follows.
`popAll` takes them back into the editor.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from memory_ci.sources.transcripts.builder import parse_time
from memory_ci.sources.transcripts.claude_record import Record
from memory_ci.sources.transcripts.fields import as_text


class Waiting(NamedTuple):
    """Words in the queue: the line of the file where they stand, and when they were typed."""

    text: str
    line: int
    at: datetime | None


class Queue:
    """What waits, and what was delivered without a record of its own yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._dequeued: dict[str, Waiting] = {}
        self._delivered: set[str] = set()
        self._absorbed = 0

    def operate(self, line: int, record: Record) -> Waiting | None:
        """One `queue-operation`; gives the words that reached the agent by it and by nothing else."""
        text = as_text(record.get("content")).strip()
        operation = record.get("operation")
        if operation == "enqueue" and text:
            self._waiting[text] = Waiting(text, line, parse_time(record.get("timestamp")))
        elif operation == "popAll":
            self._waiting.clear()
        elif operation == "remove" and self._absorbed:
            self._absorbed -= 1
        elif operation in ("remove", "dequeue") and self._waiting:
            found = self._waiting.pop(text if text in self._waiting else next(iter(self._waiting)))
            if operation == "remove":
                self._delivered.add(found.text)
                return found
            if found.line != line - 1:  # what passes at once waited for nobody
                self._dequeued[found.text] = found
        return None

    def attach(self, text: str, line: int, at: datetime | None) -> Waiting | None:
        """A message handed to the running turn: the words as they were typed, None if `remove` gave them already."""
        if text in self._delivered:
            self._delivered.remove(text)
            return None
        self._absorbed += text in self._waiting
        self._delivered.add(text)
        return self._waiting.pop(text, Waiting(text, line, at))

    def is_delivered(self, text: str) -> bool:
        """Whether the turn `text` is only the second record of words already handed over; only the next turn can be."""
        is_second = text in self._delivered
        self._delivered.clear()
        return is_second

    def has_waited(self, text: str) -> bool:
        """Whether the turn `text` came out of the queue, where several messages may have become one turn."""
        found = [waiting for waiting in self._dequeued if waiting in text]
        for waiting in found:
            del self._dequeued[waiting]
        return bool(self._waiting.pop(text, None) or found)

    def rest(self) -> list[Waiting]:
        """What no turn was seen of: it was typed all the same."""
        return [*self._dequeued.values(), *self._waiting.values()]
