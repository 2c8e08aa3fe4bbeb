"""Consolidation: what opposes each other is linked, what is replaced is closed. Nothing is deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import combinations, product
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.prominence import demote
from memory_ci.lifecycle.relations import Relation, relations_of, with_relation
from memory_ci.lifecycle.stance import Claim, claims_of, find_opposition
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.plan import Change

JOBS = ".teaparty/jobs/"


class Contradiction(NamedTuple):
    """Two entries that cannot both hold, the smaller id first, and in what they oppose each other."""

    one: Located
    other: Located
    reason: str


def find_contradictions(located: Iterable[Located]) -> tuple[Contradiction, ...]:
    """Pairs of active entries of one scope chain that say the opposite of one thing (docs/lifecycle.md), by id.
    Rejected entries give no advice that could be opposed, and a pair whose authors have settled it is none: one
    supersedes, supports or duplicates the other."""
    subjects: defaultdict[object, dict[Claim, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for place in sorted(located, key=lambda place: (place.entry.id, place.path)):
        if place.entry.status == "active" and place.entry.adoption != "rejected":
            for claim in claims_of(place.entry):
                subjects[claim.subject][claim].append(place)
    found: dict[tuple[str, str], Contradiction] = {}
    for stances in subjects.values():
        for claim, opposite in combinations(sorted(stances, key=repr), 2):
            if (reason := find_opposition(claim, opposite)) is None:
                continue
            for pair in product(stances[claim], stances[opposite]):
                one, other = sorted(pair, key=lambda place: place.entry.id)
                share_chain = _holds(one.scope, other) or _holds(other.scope, one)
                if (
                    one.entry.id != other.entry.id
                    and share_chain
                    and not _is_settled(one.entry, other.entry)
                ):
                    found.setdefault(
                        (one.entry.id, other.entry.id), Contradiction(one, other, reason)
                    )
    return tuple(found[ids] for ids in sorted(found))


def plan_consolidation(located: Sequence[Located], today: date) -> tuple[Change, ...]:
    """Close what an active entry explicitly supersedes, and link what contradicts: one update per entry that changes. A
    replaced entry is valid until its successor came (`occurred_at`, else `created_at`, else today) and loses importance
    once, for `valid_until` says that it is closed. It then contradicts nothing any more."""
    edited: dict[tuple[str, str], Entry] = {}
    reasons: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def now(place: Located) -> Entry:
        return edited.get((place.path, place.entry.id), place.entry)

    def edit(place: Located, entry: Entry, why: str) -> None:
        edited[place.path, entry.id] = entry
        reasons[place.path, entry.id].append(why)

    for place, successor in _superseded(located):
        came, importance = (
            successor.occurred_at or successor.created_at or today,
            demote(place.entry.importance),
        )
        closed = replace(place.entry, valid_until=came, importance=importance)
        edit(place, closed, f"superseded by {successor.id[:8]}")
    in_force = [
        place for place in located if (until := now(place).valid_until) is None or until > today
    ]
    for one, other, reason in find_contradictions(in_force):
        for place, against in ((one, other.entry), (other, one.entry)):
            names = {
                against.id,
                *against.supersedes,
            }  # what the relation names may have been merged into `against`
            if not any(
                kind == "contradicts" and name in names for kind, name in relations_of(place.entry)
            ):
                linked = with_relation(now(place), Relation("contradicts", against.id))
                edit(place, linked, f"contradicts {against.id[:8]}: {reason}")
    whys = {key: "; ".join(sorted(reasons[key])) for key in sorted(edited)}
    return tuple(
        Change(step="consolidate", kind="update", path=key[0], entry=edited[key], why=why)
        for key, why in whys.items()
    )


def _holds(wide: ScopeOf, place: Located) -> bool:
    if wide.name not in ("team", "session") or wide == place.scope:
        return True
    if wide.name == "session":
        return place.scope.name == "team" and place.path.startswith(f"{JOBS}{wide.where}/")
    return place.scope.name == "team" and f"{place.scope.where}/".startswith(f"{wide.where}/")


def _is_settled(one: Entry, other: Entry) -> bool:
    for entry, against in ((one, other), (other, one)):
        kinds = {relation.kind for relation in relations_of(entry) if relation.id == against.id}
        if against.id in entry.supersedes or kinds & {"supports", "duplicates"}:
            return True
    return False


def _superseded(located: Sequence[Located]) -> Iterator[tuple[Located, Entry]]:
    """Each active entry that is open and named by an active one, with the earliest to name it. Two that name each other
    close neither, and an id of two that say different things is of neither: that is for a person to sort out."""
    active = [place for place in located if place.entry.status == "active"]
    successors: defaultdict[str, list[Entry]] = defaultdict(list)
    said: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for place in located:
        said[place.entry.id].add((place.entry.title, place.entry.body))
    for place in active:
        for old in place.entry.supersedes:
            successors[old].append(place.entry)
    for place in active:
        named_by = [
            entry for entry in successors[place.entry.id] if entry.id not in place.entry.supersedes
        ]
        if len(said[place.entry.id]) == 1 and named_by and place.entry.valid_until is None:
            yield (
                place,
                min(
                    named_by,
                    key=lambda entry: (entry.occurred_at or entry.created_at or date.max, entry.id),
                ),
            )
