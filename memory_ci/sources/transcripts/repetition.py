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
        # The id of a turn by its session, by the digest of the turn's text.
        self._turn_ids: defaultdict[bytes, dict[str, str]] = defaultdict(dict)

    def remember(self, events: Iterable[Event]) -> None:
        """Remember the long texts that people seem to have typed, by the session they are in.

        Of each session, the first turn with a text counts. If the id of a turn is not unique
        everywhere, the session's key takes its place.
        """
        for event in events:
            if not is_long_turn(event):
                continue
            session_key = event.session or ""
            has_global_uid = len(event.uid) >= GLOBAL_UID_LENGTH
            turn_id = event.uid if has_global_uid else session_key
            self._turn_ids[_digest(event)].setdefault(session_key, turn_id)

    def mark_repeated(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return the events, with actor "injected" for long texts that other sessions repeat."""
        marked = []
        for event in events:
            if is_long_turn(event) and self._is_repeated(event):
                event = replace(event, actor="injected", labels=())
            marked.append(event)
        return tuple(marked)

    def _is_repeated(self, event: Event) -> bool:
        id_by_session = self._turn_ids.get(_digest(event), {})
        return len(set(id_by_session.values())) > 1


def is_long_turn(event: Event) -> bool:
    """Return whether an event is a person's text of more lines than anybody types twice."""
    is_turn = event.actor == "human" and event.kind == "text"
    return is_turn and len(event.text.strip().splitlines()) > MAX_TYPED_LINES


def _digest(event: Event) -> bytes:
    return sha256(" ".join(event.text.split()).encode("utf-8", "replace")).digest()
