"""Detection of long texts that two sessions repeat word for word: a program wrote them, no person.

Some agents record the text of a command, a template or a workflow as if the person had typed it.
Copies of one turn, as a resumed session has them, are no repetition: they have the same id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256

from msgspec.structs import replace

from memory_ci.records.event import Event

MAX_TYPED_LINES = 20  # Lines of a text that a person may have typed twice.

GLOBAL_UID_LENGTH = 32
"""The length from which an id is unique everywhere (a UUID) and identifies copies in any session.

A shorter id is only a number inside its session.
"""


class RepeatedTexts:
    """The long texts of people in the sessions that were seen so far."""

    def __init__(self) -> None:
        self._turns: defaultdict[bytes, dict[str, str]] = defaultdict(dict)

    def remember(self, events: Iterable[Event]) -> None:
        """Remember the long texts that people seem to have typed, by the session they are in.

        A text is kept as its digest, with the id of its turn in each session; a turn without an id
        that is unique everywhere is known by its session.
        """
        for event in events:
            if is_long_turn(event):
                session = event.session or ""
                has_global_uid = len(event.uid) >= GLOBAL_UID_LENGTH
                turn = event.uid if has_global_uid else session
                self._turns[_digest(event)].setdefault(session, turn)

    def mark_repeated(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return the events, with actor "injected" for long texts that other sessions repeat."""
        marked = []
        for event in events:
            if is_long_turn(event) and self._is_repeated(event):
                event = replace(event, actor="injected", labels=())
            marked.append(event)
        return tuple(marked)

    def _is_repeated(self, event: Event) -> bool:
        turns = self._turns.get(_digest(event), {})
        return len(set(turns.values())) > 1


def is_long_turn(event: Event) -> bool:
    """Return whether an event is a person's text of more lines than anybody types twice."""
    is_turn = event.actor == "human" and event.kind == "text"
    return is_turn and len(event.text.strip().splitlines()) > MAX_TYPED_LINES


def _digest(event: Event) -> bytes:
    return sha256(" ".join(event.text.split()).encode("utf-8", "replace")).digest()
