"""Consolidation: contradicting entries are linked, superseded ones closed, none deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import combinations, product
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.prominence import demote
from memory_ci.lifecycle.relations import Relation, relations_of, with_relation
from memory_ci.lifecycle.settings import SetValue, find_settings, says_change
from memory_ci.lifecycle.stance import Claim, claims_of, find_opposition
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
    """Return pairs of active entries of one scope chain that say opposite things, by id.

    Two that set the same thing to different values are such a pair, too.

    Rejected entries give no advice that could be opposed. A pair is settled if one entry
    supersedes, supports or duplicates the other. See docs/serving.md.
    """
    contradictions: dict[Key, Contradiction] = {}
    located = list(located)
    for stances in _group_by_subject(located):
        for claim, opposite in combinations(sorted(stances, key=repr), 2):
            reason = find_opposition(claim, opposite)
            if reason is None:
                continue
            for pair in product(stances[claim], stances[opposite]):
                one, other = sorted(pair, key=lambda place: place.entry.id)
                if _can_contradict(one, other):
                    ids = (one.entry.id, other.entry.id)
                    contradictions.setdefault(ids, Contradiction(one, other, reason))
    for older, newer, reason in _list_changed_settings(located):
        one, other = sorted((older, newer), key=lambda place: place.entry.id)
        if _can_contradict(one, other):
            ids = (one.entry.id, other.entry.id)
            contradictions.setdefault(ids, Contradiction(one, other, reason))
    return tuple(contradictions[ids] for ids in sorted(contradictions))


def _group_by_subject(located: Iterable[Located]) -> list[dict[Claim, list[Located]]]:
    """Return for each subject the entries that speak about it, by their claim."""
    subjects: defaultdict[object, dict[Claim, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for place in sorted(located, key=lambda place: (place.entry.id, place.path)):
        entry = place.entry
        if entry.status == "active" and entry.adoption != "rejected":
            for claim in claims_of(entry):
                subjects[claim.subject][claim].append(place)
    return list(subjects.values())


def _can_contradict(one: Located, other: Located) -> bool:
    """Return whether two entries are served together and their pair is not settled."""
    if one.entry.id == other.entry.id:
        return False
    is_one_chain = _contains(one.scope, other) or _contains(other.scope, one)
    return is_one_chain and not _is_settled(one.entry, other.entry)


def plan_consolidation(located: Sequence[Located], today: date) -> tuple[Change, ...]:
    """Plan one update for each entry that is superseded or contradicted.

    An entry supersedes an earlier one of its scope that sets the same thing to another value, if it
    says that something changes. A superseded entry is valid until its successor came
    (`occurred_at`, else `created_at`, else today), and loses importance once. After that it
    contradicts nothing any more.
    """
    edits = _Edits()
    for older, newer, reason in _list_changed_settings(located):
        successor = edits.current(newer)
        if _is_replaced(older, newer) and older.entry.id not in successor.supersedes:
            ids = tuple(sorted((*successor.supersedes, older.entry.id)))
            edits.add(newer, replace(successor, supersedes=ids), f"says later: {reason}")
    located = [replace(place, entry=edits.current(place)) for place in located]
    for place, successor in _list_superseded(located):
        valid_until = successor.occurred_at or successor.created_at or today
        importance = demote(place.entry.importance)
        closed = replace(place.entry, valid_until=valid_until, importance=importance)
        edits.add(place, closed, f"superseded by {successor.id[:8]}")
    in_force: list[Located] = []
    for place in located:
        valid_until_day = edits.current(place).valid_until
        if valid_until_day is None or valid_until_day > today:
            in_force.append(place)
    for one, other, reason in find_contradictions(in_force):
        for place, opponent in ((one, other.entry), (other, one.entry)):
            if not _says_that_it_contradicts(place.entry, opponent):
                relation = Relation("contradicts", opponent.id)
                linked = with_relation(edits.current(place), relation)
                edits.add(place, linked, f"contradicts {opponent.id[:8]}: {reason}")
    return edits.plan()


class _Edits:
    """The entries as the plan leaves them, and why each is changed."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._reasons: defaultdict[Key, list[str]] = defaultdict(list)

    def current(self, place: Located) -> Entry:
        """Return an entry with all changes so far."""
        return self._entries.get((place.path, place.entry.id), place.entry)

    def add(self, place: Located, entry: Entry, why: str) -> None:
        """Change an entry."""
        self._entries[place.path, entry.id] = entry
        self._reasons[place.path, entry.id].append(why)

    def plan(self) -> tuple[Change, ...]:
        """Return the changes by path and id."""
        return tuple(
            Change(
                step="consolidate",
                kind="update",
                path=key[0],
                entry=self._entries[key],
                why="; ".join(sorted(self._reasons[key])),
            )
            for key in sorted(self._entries)
        )


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
    """Yield the pairs of open active entries that set the same thing to different values."""
    by_key: defaultdict[tuple[str, ...], dict[SetValue, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for place in sorted(located, key=_order_by_day):
        entry = place.entry
        is_open = entry.status == "active" and entry.valid_until is None
        if is_open and entry.adoption != "rejected":
            for setting in find_settings(entry):
                by_key[setting.key][setting].append(place)
    for settings in by_key.values():
        for setting, other in combinations(settings, 2):
            for pair in product(settings[setting], settings[other]):
                older, newer = sorted(pair, key=_order_by_day)
                if older.entry.id != newer.entry.id:
                    reason = f"'{setting.value}' against '{other.value}'"
                    yield ChangedSetting(older, newer, reason)


def _order_by_day(place: Located) -> tuple[date, str]:
    entry = place.entry
    return entry.occurred_at or entry.created_at or date.min, entry.id


def _is_replaced(older: Located, newer: Located) -> bool:
    """Return whether an entry holds no more since a later one of its scope says so.

    What a person gave a priority stays, and the two are told apart by a person.
    """
    is_later = _order_by_day(older)[0] < _order_by_day(newer)[0]
    is_same_scope = older.scope == newer.scope
    return (
        is_later
        and is_same_scope
        and older.entry.priority is None
        and not _is_settled(older.entry, newer.entry)
        and says_change(newer.entry)
    )


def _says_that_it_contradicts(entry: Entry, opponent: Entry) -> bool:
    """Return whether an entry has the relation already, also to an entry that was merged since."""
    names = {opponent.id, *opponent.supersedes}
    return any(kind == "contradicts" and name in names for kind, name in relations_of(entry))


def _contains(wide: ScopeOf, place: Located) -> bool:
    """Return whether everybody who is served an entry is served those of a scope as well."""
    if wide.name not in ("team", "session") or wide == place.scope:
        return True
    if wide.name == "session":
        return place.scope.name == "team" and place.path.startswith(f"{JOBS}{wide.where}/")
    return place.scope.name == "team" and f"{place.scope.where}/".startswith(f"{wide.where}/")


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
    """Yield each open active entry that an active entry supersedes, with the earliest to do so.

    Two that supersede each other close neither. An id whose copies say different things is left to
    a person.
    """
    active = [place for place in located if place.entry.status == "active"]
    texts_by_id: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for place in located:
        texts_by_id[place.entry.id].add((place.entry.title, place.entry.body))
    successors: defaultdict[str, list[Entry]] = defaultdict(list)
    for place in active:
        for old_id in place.entry.supersedes:
            successors[old_id].append(place.entry)

    def order(entry: Entry) -> tuple[date, str]:
        return entry.occurred_at or entry.created_at or date.max, entry.id

    for place in active:
        entry = place.entry
        superseding = [
            successor for successor in successors[entry.id] if successor.id not in entry.supersedes
        ]
        if superseding and len(texts_by_id[entry.id]) == 1 and entry.valid_until is None:
            yield place, min(superseding, key=order)
