"""Undone work: what was learned from a change that was reverted is suspect, and so is what was advised by it.

A suspect entry carries one line of evidence, which holds all that is needed to take the suspicion back exactly.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.consolidate import demote
from memory_ci.lifecycle.reverts import Revert
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change

SOURCE = re.compile(r"(?:pr:(?P<number>\d+)\s+)?commit:(?P<sha>[0-9a-f]{12})[0-9a-f]*|pr:(?P<lone>\d+)")
SUSPICION = re.compile(
    r"revert:(?P<sha>[0-9a-f]{12}) reverted in (?P<label>\S+), importance was (?P<importance>[\d.e-]+)"
)


class Suspicion(NamedTuple):
    """The revert that made an entry suspect, and the importance that it had before."""

    sha: str
    label: str
    importance: float


def plan_undone(located: Iterable[Located], reverts: Sequence[Revert]) -> tuple[Change, ...]:
    """An update of each entry that the reverts, in their order, make suspect or clear of suspicion.

    Suspect is what has all its sources reverted: it loses importance once and becomes negative knowledge. Give the
    reverts of the new range only, and what a person has decided about an older one stays decided.
    """
    touching: defaultdict[str, list[int]] = defaultdict(list)
    for turn, revert in enumerate(reverts):
        for name in revert.undoes | revert.restores:
            touching[name].append(turn)
    changes: list[Change] = []
    for place in sorted(located, key=lambda place: (place.path, place.entry.id)):
        if place.entry.status != "retired":
            turns = sorted({turn for name in _names(place.entry) for turn in touching.get(name, ())})
            changes += _change(place, [reverts[turn] for turn in turns])
    return tuple(changes)


def find_suspicion(entry: Entry) -> Suspicion | None:
    """Why an entry is suspect; None if it is not."""
    for line in entry.evidence:
        if match := SUSPICION.fullmatch(line):
            return Suspicion(match["sha"], match["label"], float(match["importance"]))
    return None


def suspect(entry: Entry, revert: Revert) -> Entry:
    """The entry as knowledge of what was tried and taken back. What was rejected before keeps its own reason."""
    line = f"revert:{revert.sha} reverted in {revert.label}, importance was {entry.importance!r}"
    lowered = replace(entry, importance=demote(entry.importance), evidence=(*entry.evidence, line))
    if entry.adoption or entry.instead:
        return lowered
    return replace(lowered, adoption="rejected", instead=_instead(revert.label))


def restore(entry: Entry, suspicion: Suspicion) -> Entry:
    """The inverse of suspect; what a person has written since stays."""
    importance = entry.importance
    for before in (suspicion.importance, demote(suspicion.importance)):  # a successor may have lowered it as well
        if importance == demote(before):
            importance = before
            break
    evidence = tuple(line for line in entry.evidence if not line.startswith(f"revert:{suspicion.sha} "))
    restored = replace(entry, importance=importance, evidence=evidence)
    if entry.instead != _instead(suspicion.label):
        return restored
    return replace(restored, adoption=None, instead=None)


def _instead(label: str) -> str:
    return f"reverted in {label}"


def _change(place: Located, reverts: Sequence[Revert]) -> Iterator[Change]:
    entry, why = place.entry, ""
    origins = _origins(entry)
    undone: frozenset[str] = frozenset()
    for revert in reverts:
        undone = (undone | revert.undoes) - revert.restores
        suspicion = find_suspicion(entry)
        if suspicion is None:
            if origins and all(origin & undone for origin in origins):
                entry, why = suspect(entry, revert), f"its source was reverted in {revert.label}"
        elif suspicion.sha in revert.undoes or any(origin & revert.restores for origin in origins):
            entry, why = restore(entry, suspicion), f"{revert.label} took back the revert of its source"
    if entry != place.entry:
        yield Change(step="consolidate", kind="update", path=place.path, entry=entry, why=why)


def _origins(entry: Entry) -> tuple[frozenset[str], ...]:
    """The sources of an entry, each by all its names; it may have several after a merge."""
    found = []
    for match in SOURCE.finditer(entry.source or ""):
        number = match["number"] or match["lone"]
        names = {match["sha"], f"pr:{number}" if number else None}
        found.append(frozenset(name for name in names if name))
    return tuple(found)


def _names(entry: Entry) -> Iterator[str]:
    for origin in _origins(entry):
        yield from origin
    if suspicion := find_suspicion(entry):
        yield suspicion.sha
