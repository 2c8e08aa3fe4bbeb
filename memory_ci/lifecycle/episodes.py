"""Episodes after all that was told of them, in any order; what was said of a merged entry counts for its heirs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import Entry
from memory_ci.records.episode import Amendment, Episode, Feedback, Outcome, Telling, in_utc

WORSE: tuple[Outcome, ...] = ("success", "neutral", "partial", "failure")
"""Outcomes from good to bad: of two that were told at the same time the worse stands."""


def make_amendment(
    at: datetime,
    amends: str = "",
    *,
    outcome: Outcome | None = None,
    valence: float | None = None,
    feedback: Iterable[Feedback] = (),
    text: str = "",
) -> Amendment:
    """An amendment whose id follows from what it says: two writers of the same thing write the same file."""
    said = tuple(replace(item, at=in_utc(item.at)) for item in unique_events(feedback))
    told = Amendment(id="", at=in_utc(at), amends=amends, outcome=outcome, valence=valence, feedback=said, text=text)
    digest = hashlib.sha256(_canonical(told)).hexdigest()[:12]
    return replace(told, id=f"{amends or 'feedback'}+{digest}")


def combine(tellings: Iterable[Telling]) -> tuple[Episode, ...]:
    """Every episode once, with what was learned of it later; ordered by time and id.

    Where several files tell one episode differently, the earliest of them stands, with the feedback of all.
    """
    told: defaultdict[str, list[Episode]] = defaultdict(list)
    amended: defaultdict[str, list[Amendment]] = defaultdict(list)
    for telling in tellings:
        if isinstance(telling, Episode):
            told[telling.id].append(telling)
        else:
            amended[telling.amends].append(telling)
    episodes = (_amend(versions, amended.get(name, ())) for name, versions in told.items())
    return tuple(sorted(episodes, key=lambda episode: (episode.occurred_at, episode.id)))


def list_feedback(tellings: Iterable[Telling]) -> tuple[Feedback, ...]:
    """All that was said of entries, each event once, in the order in which it is replayed."""
    return unique_events(said for telling in tellings for said in telling.feedback)


def unique_events(feedback: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """Each event as it was told first, ordered by time, entry, kind and reference."""
    first: dict[tuple[object, ...], Feedback] = {}
    for said in feedback:
        key = event_key(said)
        known = first.get(key)
        if known is None or (said.at, said.by) < (known.at, known.by):
            first[key] = said
    return tuple(sorted(first.values(), key=lambda item: (item.at, item.id, item.kind, item.ref, item.by)))


def event_key(said: Feedback) -> tuple[object, ...]:
    """What two tellings of one event have in common."""
    return (said.id, said.kind, said.ref) if said.ref else (said.id, said.kind, "", said.by, said.at)


def _amend(versions: Sequence[Episode], amendments: Sequence[Amendment]) -> Episode:
    episode = min(versions, key=lambda version: (version.occurred_at, _canonical(version)))
    outcomes = [(told.at, WORSE.index(told.outcome), told.outcome) for told in amendments if told.outcome is not None]
    valences = [(told.at, told.valence) for told in amendments if told.valence is not None]
    told: list[Telling] = [*versions, *amendments]
    return replace(
        episode,
        outcome=max(outcomes)[-1] if outcomes else episode.outcome,
        valence=max(valences)[-1] if valences else episode.valence,
        feedback=unique_events(said for one in told for said in one.feedback),
    )


def _canonical(telling: Any) -> bytes:  # noqa: ANN401 - any record
    return msgspec.json.encode(telling, order="deterministic")


Heirs = Mapping[str, Sequence[str]]  # By the id of an entry that is gone those that supersede it.
NO_HEIRS: Heirs = {}


def find_heirs(entries: Iterable[Entry], held: Container[str]) -> Heirs:
    """Which of `entries` inherit from which ids; an older entry that some memory file has (`held`) keeps its own."""
    heirs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for entry in entries:
        for older in entry.supersedes:
            if older not in held and older != entry.id:
                heirs[older][entry.id] = None
    return {older: tuple(ids) for older, ids in heirs.items()}


def find_heirs_among(entries: Iterable[Entry]) -> Heirs:
    """The same, where `entries` are all that memory files hold."""
    every = tuple(entries)
    return find_heirs(every, {entry.id for entry in every})


def pass_on(feedback: Iterable[Feedback], heirs: Heirs) -> tuple[Feedback, ...]:
    """Each event once, in the order of replay; what was said of one that is gone is said of its heirs.

    What one job said of two that became one is one event.
    """
    return unique_events(
        said if heir == said.id else replace(said, id=heir)
        for said in feedback
        for heir in heirs.get(said.id, (said.id,))
    )
