"""Consolidation: contradicting entries are linked, superseded ones get an end date.

No entry is deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import combinations, product
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.prominence import demote
from memory_ci.lifecycle.relations import Relation, relations_of, with_relation
from memory_ci.lifecycle.settings import SetValue, find_set_values, says_change
from memory_ci.lifecycle.stance import Claim, find_opposition, parse_entry_claims
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.plan import Change

JOBS = ".teaparty/jobs/"
"""The directory of jobs, whose tasks belong to the session of the job."""

Key = tuple[str, str]
"""The path and the id of an entry."""


class Contradiction(NamedTuple):
    """Two entries that cannot both hold.

    Attributes:
        one: the entry with the smaller id.
        other: the other entry.
        reason: the point on which they oppose each other.
    """

    one: Located
    other: Located
    reason: str


def find_contradictions(located: Iterable[Located]) -> tuple[Contradiction, ...]:
    """Return the pairs of active entries that cannot both hold, ordered by their ids.

    They make opposite claims, or they set the same thing to different values. Left out are pairs
    that are never served together, pairs in which an entry supersedes, supports or duplicates the
    other, and entries about a rejected approach, which give no advice. See docs/serving.md.
    """
    located = list(located)
    contradictions: dict[tuple[str, str], Contradiction] = {}
    for first, second, reason in (*_list_opposed(located), *_list_changed_settings(located)):
        one, other = sorted((first, second), key=lambda place: place.entry.id)
        if _can_contradict(one, other):
            ids = (one.entry.id, other.entry.id)
            contradictions.setdefault(ids, Contradiction(one, other, reason))
    return tuple(contradictions[ids] for ids in sorted(contradictions))


class OpposedPair(NamedTuple):
    """Two entries with opposite claims, and the point on which they oppose each other."""

    first: Located
    second: Located
    reason: str


def _list_opposed(located: Iterable[Located]) -> Iterator[OpposedPair]:
    """Yield the pairs of active entries that make opposite claims about one subject."""
    for places_by_claim in _group_by_subject(located):
        for claim, opposite in combinations(sorted(places_by_claim, key=repr), 2):
            reason = find_opposition(claim, opposite)
            if reason is not None:
                for first, second in product(places_by_claim[claim], places_by_claim[opposite]):
                    yield OpposedPair(first, second, reason)


def _group_by_subject(located: Iterable[Located]) -> list[dict[Claim, list[Located]]]:
    """Return one group per subject: the claims about it, each with the entries that make it.

    A claim is what one sentence says about its subject (`memory_ci.lifecycle.stance`).
    """
    subjects: defaultdict[object, dict[Claim, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for place in sorted(located, key=lambda place: (place.entry.id, place.path)):
        entry = place.entry
        if entry.status == "active" and entry.adoption != "rejected":
            for claim in parse_entry_claims(entry):
                subjects[claim.subject][claim].append(place)
    return list(subjects.values())


def _can_contradict(one: Located, other: Located) -> bool:
    """Return whether two entries are served to the same tasks and no relation settles the pair."""
    if one.entry.id == other.entry.id:
        return False
    is_served_together = _is_scope_served_with(one.scope, other)
    is_served_together = is_served_together or _is_scope_served_with(other.scope, one)
    return is_served_together and not _is_settled(one.entry, other.entry)


def plan_consolidation(located: Sequence[Located], today: date) -> tuple[Change, ...]:
    """Plan one update for each entry that is superseded or contradicted.

    An entry supersedes an earlier one of its scope that sets the same thing to another value, if it
    says that something changes. A superseded entry is valid until its successor came
    (`occurred_at`, else `created_at`, else today), and loses importance once. Only entries that are
    still valid then can contradict each other.
    """
    edits = _Edits()
    _supersede_changed_settings(located, edits)
    # The entries with the new `supersedes`, which the next steps read.
    edited = [replace(place, entry=edits.current(place)) for place in located]
    _close_superseded(edited, today, edits)
    in_force = [place for place in edited if _is_valid(edits.current(place), today)]
    _link_contradictions(in_force, edits)
    return edits.plan()


def _supersede_changed_settings(located: Sequence[Located], edits: _Edits) -> None:
    """Add the id of each earlier value of a setting to the entry that changed it."""
    for older, newer, reason in _list_changed_settings(located):
        successor = edits.current(newer)
        if _is_replaced(older, newer) and older.entry.id not in successor.supersedes:
            ids = tuple(sorted((*successor.supersedes, older.entry.id)))
            edits.add(newer, replace(successor, supersedes=ids), f"says later: {reason}")


def _close_superseded(located: Sequence[Located], today: date, edits: _Edits) -> None:
    """End the validity of superseded entries and demote them."""
    for place, successor in _list_superseded(located):
        closed = replace(
            place.entry,
            valid_until=successor.occurred_at or successor.created_at or today,
            importance=demote(place.entry.importance),
        )
        edits.add(place, closed, f"superseded by {successor.id[:8]}")


def _is_valid(entry: Entry, today: date) -> bool:
    return entry.valid_until is None or entry.valid_until > today


def _link_contradictions(located: Iterable[Located], edits: _Edits) -> None:
    """Add to both entries of each contradiction the relation to the other one."""
    for one, other, reason in find_contradictions(located):
        for place, opponent in ((one, other.entry), (other, one.entry)):
            if not _has_contradiction(place.entry, opponent):
                relation = Relation("contradicts", opponent.id)
                linked = with_relation(edits.current(place), relation)
                edits.add(place, linked, f"contradicts {opponent.id[:8]}: {reason}")


class _Edits:
    """The changed entries of a plan, with the reasons for each."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._reasons: defaultdict[Key, list[str]] = defaultdict(list)

    def current(self, place: Located) -> Entry:
        """Return an entry with all changes so far."""
        return self._entries.get((place.path, place.entry.id), place.entry)

    def add(self, place: Located, entry: Entry, why: str) -> None:
        """Record that an entry becomes `entry`, and why."""
        self._entries[place.path, entry.id] = entry
        self._reasons[place.path, entry.id].append(why)

    def plan(self) -> tuple[Change, ...]:
        """Return one update per changed entry, ordered by path and id."""
        changes: list[Change] = []
        for path, entry_id in sorted(self._entries):
            entry = self._entries[path, entry_id]
            why = "; ".join(sorted(self._reasons[path, entry_id]))
            changes.append(
                Change(step="consolidate", kind="update", path=path, entry=entry, why=why)
            )
        return tuple(changes)


class ChangedSetting(NamedTuple):
    """Two entries that set the same thing to different values.

    Attributes:
        older: the entry that was said first; either of two of the same day.
        newer: the other entry.
        reason: the two values.
    """

    older: Located
    newer: Located
    reason: str


def _list_changed_settings(located: Iterable[Located]) -> Iterator[ChangedSetting]:
    """Yield the pairs of entries in force that set one thing to different values."""
    places_by_setting: defaultdict[tuple[str, ...], dict[SetValue, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for place in sorted(located, key=_order_by_day):
        entry = place.entry
        is_open = entry.status == "active" and entry.valid_until is None
        if is_open and entry.adoption != "rejected":
            for setting in find_set_values(entry):
                places_by_setting[setting.key][setting].append(place)
    for places_by_value in places_by_setting.values():
        for setting, other in combinations(places_by_value, 2):
            reason = f"'{setting.value}' against '{other.value}'"
            for pair in product(places_by_value[setting], places_by_value[other]):
                older, newer = sorted(pair, key=_order_by_day)
                if older.entry.id != newer.entry.id:
                    yield ChangedSetting(older, newer, reason)


def _order_by_day(place: Located) -> tuple[date, str]:
    entry = place.entry
    return entry.occurred_at or entry.created_at or date.min, entry.id


def _is_replaced(older: Located, newer: Located) -> bool:
    """Return whether the newer of two entries about one setting replaces the older.

    It does if it is later, of the same scope, and says that something changes. An entry that a
    person gave a priority stays: a person decides about the two.
    """
    older_day, _ = _order_by_day(older)
    newer_day, _ = _order_by_day(newer)
    if older_day >= newer_day or older.scope != newer.scope:
        return False
    if older.entry.priority is not None or _is_settled(older.entry, newer.entry):
        return False
    return says_change(newer.entry)


def _has_contradiction(entry: Entry, opponent: Entry) -> bool:
    """Return whether an entry has the relation already, also to an entry that was merged since."""
    opponent_ids = {opponent.id, *opponent.supersedes}
    return any(
        relation.kind == "contradicts" and relation.id in opponent_ids
        for relation in relations_of(entry)
    )


def _is_scope_served_with(scope: ScopeOf, place: Located) -> bool:
    """Return whether work that is served an entry is also served the entries of a scope.

    Entries of a team are served to work in its directory, those of a session to its job, all others
    to everybody.
    """
    if scope.name not in ("team", "session") or scope == place.scope:
        return True
    if place.scope.name != "team":
        return False
    if scope.name == "session":
        return place.path.startswith(f"{JOBS}{scope.where}/")
    return f"{place.scope.where}/".startswith(f"{scope.where}/")


def _is_settled(one: Entry, other: Entry) -> bool:
    """Return whether one entry supersedes, supports or duplicates the other."""
    for entry, opponent in ((one, other), (other, one)):
        if opponent.id in entry.supersedes:
            return True
        for relation in relations_of(entry):
            if relation.id == opponent.id and relation.kind in ("supports", "duplicates"):
                return True
    return False


def _list_superseded(located: Sequence[Located]) -> Iterator[tuple[Located, Entry]]:
    """Yield each superseded entry that has no end date, with the earliest entry that supersedes it.

    Two entries that supersede each other both stay. An id whose copies have different texts is left
    to a person.
    """
    active = [place for place in located if place.entry.status == "active"]
    texts_by_id: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for place in located:
        texts_by_id[place.entry.id].add((place.entry.title, place.entry.body))
    successors_by_id: defaultdict[str, list[Entry]] = defaultdict(list)
    for place in active:
        for old_id in place.entry.supersedes:
            successors_by_id[old_id].append(place.entry)

    def order(entry: Entry) -> tuple[date, str]:
        return entry.occurred_at or entry.created_at or date.max, entry.id

    for place in active:
        entry = place.entry
        has_one_text = len(texts_by_id[entry.id]) == 1
        successors = [
            successor
            for successor in successors_by_id[entry.id]
            if successor.id not in entry.supersedes
        ]
        if successors and has_one_text and entry.valid_until is None:
            yield place, min(successors, key=order)
