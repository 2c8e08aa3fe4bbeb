"""The same session found in several files becomes one: checkpoints repeat what was said before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from memory_ci.records.event import UNKNOWN_TIME, Event, Session
from memory_ci.sources.transcripts.builder import count_events

GLOBAL_UID_LENGTH = 32
"""From this length an id is one of a kind (a UUID), so that a copy is known in another session as well; a shorter one
is only a number inside its session."""


def merge_sessions(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """One session for each agent and id, the earliest first; an event that stands in several is kept once.

    Copies are known by their uid; without one, the n-th event of an actor, kind and text in one file is the n-th in
    another. A resumed session that repeats an earlier one under a new id keeps what is its own.
    """
    groups: dict[str, list[Session]] = {}
    for session in sorted(sessions, key=_age):
        groups.setdefault(session.key, []).append(session)
    seen: set[object] = set()
    return tuple(_merge(group, seen) for group in groups.values())


def _age(session: Session) -> tuple[object, ...]:
    """The earliest first; of one session its longest copy, whose order is the best known."""
    return (session.started or UNKNOWN_TIME, session.key, -len(session.events), session.path)


def _merge(group: list[Session], seen: set[object]) -> Session:
    found = sum(len(session.events) for session in group)
    events = [event for session in group for event in _new_events(session, seen)]
    if len(group) > 1 and all(event.at != UNKNOWN_TIME for event in events):
        events.sort(key=lambda event: event.at)
    kept = tuple(replace(event, seq=number) for number, event in enumerate(events))
    unknown: Counter[str] = Counter()
    for session in group:
        unknown.update(session.counts.unknown)
    counts = count_events(
        kept,
        records=sum(session.counts.records for session in group),
        bad_lines=sum(session.counts.bad_lines for session in group),
        duplicates=sum(session.counts.duplicates for session in group) + found - len(kept),
        unknown=unknown,
    )
    return replace(
        group[0],
        events=kept,
        counts=counts,
        branch=next((session.branch for session in group if session.branch), ""),
        started=min((session.started for session in group if session.started), default=None),
        ended=max((session.ended for session in group if session.ended), default=None),
        pull_requests=tuple(dict.fromkeys(number for session in group for number in session.pull_requests)),
    )


def _new_events(session: Session, seen: set[object]) -> Iterator[Event]:
    """The events of one file that no file before it had."""
    nth: Counter[tuple[str, ...]] = Counter()
    for event in session.events:
        if event.uid:
            key: object = event.uid if len(event.uid) >= GLOBAL_UID_LENGTH else (session.key, event.uid)
        else:
            words = (session.key, event.actor, event.kind, event.text)
            nth[words] += 1
            key = (*words, nth[words])
        if key not in seen:
            seen.add(key)
            yield event
