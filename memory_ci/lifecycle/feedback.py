"""Feedback from facts: what became of the work that entries were given to says something of the entries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from memory_ci.records.episode import Feedback, FeedbackKind
from memory_ci.text import unfenced_lines

COMMAND = re.compile(r" {0,3}/memory[ \t]+(?P<verb>[a-z]+)[ \t]+(?P<id>[0-9a-fA-F][0-9a-fA-F-]{7,35})(?![\w-])")
"""`/memory reject 0f6f1f0e`, at the start of a line of a comment; further in, it is code that is shown."""

HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)  # What nobody sees who reads the comment.
VERBS: dict[str, FeedbackKind] = {
    "confirm": "confirmed",
    "confirmed": "confirmed",
    "correct": "corrected",
    "corrected": "corrected",
    "reject": "rejected",
    "rejected": "rejected",
    "undo": "undone",
    "undone": "undone",
    "ignore": "ignored",
    "ignored": "ignored",
}

BY_FACTS = "git"  # Who says what nobody said: the history.


class MergedWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a piece of work: the entries it was given and used, and of these the ones that a review
    changed the work where they speak. `ref` is `pr:128` or `commit:…`.
    """

    ref: str
    at: datetime
    given: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    corrected: frozenset[str] = frozenset()
    is_declined: bool = False


def derive_feedback(work: MergedWork) -> tuple[Feedback, ...]:
    """What the work says of each entry, one event each, by id.

    Used and merged unchanged: confirmed. Used and changed in review where it speaks: corrected. Used in work that was
    declined: rejected. Given and not used: ignored.
    """
    at = work.at.astimezone(UTC)
    said = {entry_id: _kind_of(entry_id, work) for entry_id in sorted(work.given | work.used)}
    return tuple(Feedback(id=entry_id, kind=kind, at=at, by=BY_FACTS, ref=work.ref) for entry_id, kind in said.items())


def undone_feedback(used: Iterable[str], ref: str, at: datetime) -> tuple[Feedback, ...]:
    """What a revert says of the entries that the reverted work used; `ref` is that work, which is undone once."""
    day = at.astimezone(UTC)
    return tuple(Feedback(id=one, kind="undone", at=day, by=BY_FACTS, ref=ref) for one in sorted(set(used)))


def find_commands(text: str) -> Iterator[tuple[FeedbackKind, str]]:
    """(kind, id or the beginning of one) of each `/memory …` line that is no code; a verb that is none says nothing."""
    seen = HIDDEN.sub("<!-- -->", "\n".join(unfenced_lines(text.splitlines())))
    for match in filter(None, map(COMMAND.match, seen.split("\n"))):
        if kind := VERBS.get(match["verb"]):
            yield kind, match["id"].lower()


def is_spoken_of(places: Collection[str], changed: Collection[str]) -> bool:
    """Whether a path that a review changed is one that an entry speaks of: its file, or a file below its directory."""
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places for path in changed)


def _kind_of(entry_id: str, work: MergedWork) -> FeedbackKind:
    if entry_id not in work.used:
        return "ignored"
    if work.is_declined:
        return "rejected"
    return "corrected" if entry_id in work.corrected else "confirmed"
