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

from memory_ci.lifecycle.prominence import lower_importance
from memory_ci.lifecycle.relations import Relation, parse_relations, with_relation
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
        first: the entry with the smaller id.
        second: the other entry.
        reason: the point on which they oppose each other.
    """

    first: Located
    second: Located
    reason: str


def find_contradictions(located: Iterable[Located]) -> tuple[Contradiction, ...]:
    """Return the pairs of active entries that cannot both hold, ordered by their ids.

    They make opposite claims, or they set the same thing to different values. Left out are pairs
    that are never served together, pairs in which an entry supersedes, supports or duplicates the
    other, and entries about a rejected approach, which give no advice. See docs/serving.md.
    """
    all_entries = list(located)
    pairs = [*_list_opposite_claims(all_entries), *_list_changed_settings(all_entries)]
    contradictions: dict[tuple[str, str], Contradiction] = {}
    for entry, opposed_entry, reason in pairs:
        first, second = sorted(
            (entry, opposed_entry), key=lambda located_entry: located_entry.entry.id
        )
        if _can_contradict(first, second):
            ids = (first.entry.id, second.entry.id)
            contradictions.setdefault(ids, Contradiction(first, second, reason))
    return tuple(contradictions[ids] for ids in sorted(contradictions))


class OppositeClaims(NamedTuple):
    """Two entries with opposite claims, and the point on which they oppose each other."""

    first: Located
    second: Located
    reason: str


def _list_opposite_claims(located: Iterable[Located]) -> Iterator[OppositeClaims]:
    """Yield the pairs of active entries that make opposite claims about one subject."""
    for entries_by_claim in _group_by_subject(located):
        # Sorted by their texts, as claims have no order of their own, so that the result is always
        # the same.
        for claim, opposite in combinations(sorted(entries_by_claim, key=repr), 2):
            reason = find_opposition(claim, opposite)
            if reason is None:
                continue
            for first, second in product(entries_by_claim[claim], entries_by_claim[opposite]):
                yield OppositeClaims(first, second, reason)


def _group_by_subject(located: Iterable[Located]) -> list[dict[Claim, list[Located]]]:
    """Return one group per subject: the claims about it, each with the entries that make it.

    A claim is what one sentence says about its subject (`memory_ci.lifecycle.stance`).
    """
    subjects: defaultdict[object, dict[Claim, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for located_entry in sorted(
        located, key=lambda located_entry: (located_entry.entry.id, located_entry.path)
    ):
        entry = located_entry.entry
        if entry.status == "active" and entry.adoption != "rejected":
            for claim in parse_entry_claims(entry):
                subjects[claim.subject][claim].append(located_entry)
    return list(subjects.values())


def _can_contradict(first: Located, second: Located) -> bool:
    """Return whether two entries are served to the same tasks and no relation settles the pair."""
    if first.entry.id == second.entry.id:
        return False
    are_served_together = _is_also_served(second.scope, first) or _is_also_served(
        first.scope, second
    )
    return are_served_together and not _is_settled(first.entry, second.entry)


def plan_consolidation(located: Sequence[Located], today: date) -> tuple[Change, ...]:
    """Plan one update for each entry that is superseded or contradicted.

    There are three steps:

    - Two entries of one scope may set the same thing (a setting, such as the tool for tickets) to
      different values. If the later one says that something changes, it gets the id of the earlier
      one in `supersedes`.
    - A superseded entry gets an end date, `valid_until`: the day on which the entry that supersedes
      it was learned (`occurred_at`, else `created_at`, else today). It loses importance once.
    - Entries that are still valid and contradict each other get a relation to each other.

    Args:
        located: all entries.
        today: the day.
    """
    edits = _Edits()
    _add_superseded_ids(located, edits)
    # The entries with the new `supersedes`, which the next steps read.
    edited_entries = [
        replace(located_entry, entry=edits.current(located_entry)) for located_entry in located
    ]
    _end_superseded(edited_entries, today, edits)
    valid_entries = [
        located_entry
        for located_entry in edited_entries
        if _is_valid(edits.current(located_entry), today)
    ]
    _link_contradictions(valid_entries, edits)
    return edits.plan()


def _add_superseded_ids(located: Sequence[Located], edits: _Edits) -> None:
    """Add the id of each earlier value of a setting to the entry that changed it."""
    for older, newer, reason in _list_changed_settings(located):
        successor = edits.current(newer)
        if _is_replaced(older, newer) and older.entry.id not in successor.supersedes:
            ids = tuple(sorted((*successor.supersedes, older.entry.id)))
            edits.add(newer, replace(successor, supersedes=ids), f"says later: {reason}")


def _end_superseded(located: Sequence[Located], today: date, edits: _Edits) -> None:
    """End the validity of superseded entries and demote them."""
    for located_entry, successor in _list_superseded(located):
        ended_entry = replace(
            located_entry.entry,
            valid_until=successor.occurred_at or successor.created_at or today,
            importance=lower_importance(located_entry.entry.importance),
        )
        edits.add(located_entry, ended_entry, f"superseded by {successor.id[:8]}")


def _is_valid(entry: Entry, today: date) -> bool:
    return entry.valid_until is None or entry.valid_until > today


def _link_contradictions(located: Iterable[Located], edits: _Edits) -> None:
    """Add to both entries of each contradiction the relation to the other one."""
    for first, second, reason in find_contradictions(located):
        for located_entry, opponent in ((first, second.entry), (second, first.entry)):
            if not _has_contradiction(located_entry.entry, opponent):
                relation = Relation("contradicts", opponent.id)
                linked = with_relation(edits.current(located_entry), relation)
                edits.add(located_entry, linked, f"contradicts {opponent.id[:8]}: {reason}")


class _Edits:
    """The changed entries of a plan, with the reasons for each."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._reasons: defaultdict[Key, list[str]] = defaultdict(list)

    def current(self, located_entry: Located) -> Entry:
        """Return an entry with all changes so far."""
        return self._entries.get((located_entry.path, located_entry.entry.id), located_entry.entry)

    def add(self, located_entry: Located, entry: Entry, why: str) -> None:
        """Record that an entry becomes `entry`, and why."""
        self._entries[located_entry.path, entry.id] = entry
        self._reasons[located_entry.path, entry.id].append(why)

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
    # For each thing that has one value (a setting), the entries by the value to which they set it.
    settings: defaultdict[tuple[str, ...], dict[SetValue, list[Located]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for located_entry in sorted(located, key=_order_by_day):
        entry = located_entry.entry
        is_in_force = entry.status == "active" and entry.valid_until is None
        if is_in_force and entry.adoption != "rejected":
            for set_value in find_set_values(entry):
                settings[set_value.key][set_value].append(located_entry)

    for entries_by_value in settings.values():
        for first_value, second_value in combinations(entries_by_value, 2):
            reason = f"'{first_value.value}' against '{second_value.value}'"
            for pair in product(entries_by_value[first_value], entries_by_value[second_value]):
                older, newer = sorted(pair, key=_order_by_day)
                if older.entry.id != newer.entry.id:
                    yield ChangedSetting(older, newer, reason)


def _order_by_day(located_entry: Located) -> tuple[date, str]:
    entry = located_entry.entry
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
        for relation in parse_relations(entry)
    )


def _is_also_served(scope: ScopeOf, served: Located) -> bool:
    """Return whether an agent that is served an entry is also served the entries of a scope.

    Entries of a team are served to work in its directory, those of a session to its job, all others
    to everybody.

    Args:
        scope: the scope.
        served: the entry that the agent is served.
    """
    if scope.name not in ("team", "session") or scope == served.scope:
        return True
    if served.scope.name != "team":
        return False
    if scope.name == "session":
        return served.path.startswith(f"{JOBS}{scope.where}/")
    return f"{served.scope.where}/".startswith(f"{scope.where}/")


def _is_settled(first: Entry, second: Entry) -> bool:
    """Return whether one of two entries supersedes, supports or duplicates the other."""
    for entry, opponent in ((first, second), (second, first)):
        if opponent.id in entry.supersedes:
            return True
        for relation in parse_relations(entry):
            if relation.id == opponent.id and relation.kind in ("supports", "duplicates"):
                return True
    return False


def _list_superseded(located: Sequence[Located]) -> Iterator[tuple[Located, Entry]]:
    """Yield each superseded entry that has no end date, with the earliest entry that supersedes it.

    Two entries that supersede each other both stay. An id whose copies have different texts is left
    to a person.
    """
    active = [located_entry for located_entry in located if located_entry.entry.status == "active"]
    texts_by_id: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for located_entry in located:
        texts_by_id[located_entry.entry.id].add(
            (located_entry.entry.title, located_entry.entry.body)
        )
    successors_by_id: defaultdict[str, list[Entry]] = defaultdict(list)
    for located_entry in active:
        for old_id in located_entry.entry.supersedes:
            successors_by_id[old_id].append(located_entry.entry)

    def order(entry: Entry) -> tuple[date, str]:
        return entry.occurred_at or entry.created_at or date.max, entry.id

    for located_entry in active:
        entry = located_entry.entry
        has_one_text = len(texts_by_id[entry.id]) == 1
        successors = [
            successor
            for successor in successors_by_id[entry.id]
            if successor.id not in entry.supersedes
        ]
        if successors and has_one_text and entry.valid_until is None:
            yield located_entry, min(successors, key=order)
