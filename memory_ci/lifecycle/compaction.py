"""Compaction and retirement of entries; git keeps the entries that they remove.

Compaction makes one entry of several places of one id and of near duplicates in one file, and
removes retired entries. Retirement marks entries that no longer apply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from math import comb
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from memory_ci.lifecycle.fold import is_proved
from memory_ci.lifecycle.prominence import effective_importance, priority_floor
from memory_ci.lifecycle.reinforcement import unite_occurrences
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import (
    NEAR_DUPLICATE,
    find_partners,
    parse_entry_words,
    similar_pairs,
    title_stems,
)
from memory_ci.records.entry import Entry, EntryType, Located, Phase, ScopeName
from memory_ci.records.plan import Change

SCOPE_ORDER: Mapping[ScopeName, int] = {
    "institutional": 0,
    "global": 1,
    "project": 2,
    "session": 3,
    "team": 4,
}
"""The widest scope first. Of several copies of an id the copy in the widest scope stays: promotion
moved the entry up, and a merge restored the old place."""

RULE_TYPES: frozenset[EntryType] = frozenset(("directive", "procedural"))
"""Types whose titles are compared on their own: one title is one rule, whatever its reason."""

CONTAINED_TITLE = Fraction(7499, 10000)
"""Threshold for two titles one of which has all words of the other: 3 words in 4 are shared."""

PINNED_PRIORITIES = ("pin", "permanent")
"""Priorities that only a person gives and only a person takes back."""

T = TypeVar("T")


class PlannedChange(NamedTuple):
    """A change, and the place of the entry that it changes."""

    place: Located
    change: Change


def plan_compaction(
    located: Sequence[Located],
    older: Collection[Located] = (),
    same: Collection[frozenset[str]] = (),
) -> tuple[Change, ...]:
    """Plan updates of the entries that stay and removals of the others.

    The plan does not depend on the order of `located`. After it, every id is the id of an entry or
    in the `supersedes` of one, unless a copy of it was retired. Planning again after the changes
    gives no change. Copies of one id that say different things, and are not versions of each
    other, stay unchanged.

    Args:
        located: entries of files that may be rewritten; no inbox fragments.
        older: copies that, by history, another copy of the same id replaced.
        same: groups of ids whose entries say the same according to a model.
    """
    copies_by_id = {
        entry_id: copies
        for entry_id, copies in _group_by_id(located).items()
        if _is_one_learning(copies, older)
    }
    planned: list[PlannedChange] = []

    # One retired copy retires all: else an older active copy would be served again.
    retired_ids = {place.entry.id for place in located if place.entry.status == "retired"}
    for entry_id in retired_ids & copies_by_id.keys():
        copies = copies_by_id.pop(entry_id)
        planned += [_plan_removal(place, "retired") for place in copies]

    for first, *duplicates in copies_by_id.values():
        planned += [_plan_removal(place, f"stands in {first.path}") for place in duplicates]

    united = [_unite_copies(copies, older) for copies in copies_by_id.values()]
    for cluster in _join_clusters(list(_find_clusters(united)), same):
        survivor, *absorbed = cluster
        why = f"part of {survivor.entry.id[:8]}"
        planned += [_plan_removal(copies_by_id[place.entry.id][0], why) for place in absorbed]
        planned += _plan_update(copies_by_id[survivor.entry.id], cluster)
    return tuple(change for _, change in sorted(planned, key=_file_order))


def list_unlike(located: Iterable[Located]) -> tuple[tuple[Located, ...], ...]:
    """Return the copies of each id whose copies say different things."""
    groups = _group_by_id(located).values()
    return tuple(tuple(copies) for copies in groups if not _is_one_learning(copies, ()))


def _group_by_id(located: Iterable[Located]) -> dict[str, list[Located]]:
    """Return the copies of each id, the copy in the widest scope first."""

    def order(place: Located) -> tuple[int, str, int]:
        return SCOPE_ORDER[place.scope.name], place.path, place.line

    copies: dict[str, list[Located]] = defaultdict(list)
    for place in sorted(located, key=order):
        copies[place.entry.id].append(place)
    return copies


def _is_one_learning(copies: Sequence[Located], older: Collection[Located]) -> bool:
    """Return whether all copies of an id say the same, apart from those that another replaced."""
    if len(copies) == 1:
        return True
    current = [parse_entry_words(place.entry) for place in copies if place not in older]
    if len({entry_words.claims for entry_words in current}) != 1:
        return False
    # As a set: copies with the same words and claims count once.
    word_sets = [entry_words.words for entry_words in set(current)]
    if len(similar_pairs(word_sets)) != comb(len(word_sets), 2):
        return False
    kept_keys = {key for key, _ in copies[0].entry.extra}
    return all(kept_keys.issuperset(dict(place.entry.extra)) for place in copies)


def _find_clusters(places: Iterable[Located]) -> Iterator[list[Located]]:
    """Yield groups of places that become one entry each, the survivor first.

    Only entries of one file, type, validity and adoption that make the same claims are compared.
    Each entry is compared with the survivor: a chain of similar entries does not make its ends
    similar.
    """
    comparable: dict[object, list[Located]] = defaultdict(list)
    for place in sorted(places, key=survival_key):
        entry = place.entry
        if entry.status == "retired":
            yield [place]
            continue
        claims = parse_entry_words(entry).claims
        terms = _list_terms(entry)
        comparable[(place.path, entry.type, *terms, claims)].append(place)
    for group in comparable.values():
        yield from _split_group(group)


def _list_terms(entry: Entry) -> tuple[object, ...]:
    """Return when and how an entry holds: entries that differ in it are not united."""
    return entry.adoption, entry.valid_until, entry.when, entry.check, entry.level


def _split_group(group: Sequence[Located]) -> Iterator[list[Located]]:
    """Yield the clusters of comparable entries; each takes the similar entries that are free."""
    word_sets = [parse_entry_words(place.entry).words for place in group]
    by_words = NearDuplicates(word_sets)
    by_title: NearDuplicates | None = None
    if group[0].entry.type in RULE_TYPES:
        titles = [title_stems(place.entry) for place in group]
        by_title = NearDuplicates(titles, contained_only=True)
    taken: set[str] = set()
    for index, place in enumerate(group):
        if place.entry.id in taken:
            continue
        taken.add(place.entry.id)
        duplicates = by_words.find(index) | (by_title.find(index) if by_title else set())
        similar = [group[other] for other in sorted(duplicates)]
        free = [candidate for candidate in similar if candidate.entry.id not in taken]
        members = _select_compatible(place, free)
        taken |= {member.entry.id for member in members}
        yield members


class NearDuplicates:
    """The near duplicates of token sets, searched when they are wanted.

    Thousands of alike sets make millions of pairs; who takes all that is like the first needs few.
    """

    def __init__(
        self, token_sets: Sequence[frozenset[str]], *, contained_only: bool = False
    ) -> None:
        """Prepare the search.

        Args:
            token_sets: one set of words per entry; an empty set has no duplicates.
            contained_only: count a pair only if one set contains the other and is not much smaller.
        """
        self._token_sets = token_sets
        self._contained_only = contained_only
        self._indices: dict[frozenset[str], list[int]] = defaultdict(list)
        for index, token_set in enumerate(token_sets):
            self._indices[token_set].append(index)
        self._distinct = tuple(self._indices)
        threshold = CONTAINED_TITLE if contained_only else NEAR_DUPLICATE
        every = range(len(self._distinct))
        searches = find_partners(self._distinct, every, threshold)
        self._searches = {self._distinct[index]: partners for index, partners in searches}
        self._found: dict[frozenset[str], tuple[int, ...]] = {}

    def find(self, index: int) -> set[int]:
        """Return the indices of the near duplicates of a set, itself included."""
        token_set = self._token_sets[index]
        if not token_set:
            return set()
        if token_set not in self._found:
            self._found[token_set] = tuple(self._searches[token_set])
        similar = {token_set, *(self._distinct[other] for other in self._found[token_set])}
        if self._contained_only:
            similar = {other for other in similar if other <= token_set or token_set <= other}
        return {index for other in similar for index in self._indices[other]}


def _join_clusters(
    clusters: Sequence[list[Located]], same: Collection[frozenset[str]]
) -> Iterator[list[Located]]:
    """Yield the clusters, with those joined that hold entries of one group of `same`.

    Clusters are joined only where their entries could be one entry: same file, adoption and
    validity, not retired.
    """
    joined: dict[object, list[Located]] = {}
    for cluster in clusters:
        entry = cluster[0].entry
        ids = {member.entry.id for member in cluster}
        group = next((group for group in same if group & ids), None)
        key: object = entry.id
        if group is not None and entry.status != "retired":
            key = (group, cluster[0].path, *_list_terms(entry))
        joined.setdefault(key, []).extend(cluster)
    for places in joined.values():
        best, *others = sorted(places, key=survival_key)
        members = _select_compatible(best, others)
        yield members
        for place in places:
            if place not in members:
                yield [place]


def _select_compatible(survivor: Located, candidates: Iterable[Located]) -> list[Located]:
    """Return the survivor and the candidates that it can absorb.

    A candidate is left out if a relation contradicts a member, or if it has an unknown key that the
    survivor could not keep.
    """
    members = [survivor]
    ids, contradicted = _list_ids_and_contradicted(survivor.entry)
    survivor_keys = {key for key, _ in survivor.entry.extra}
    for candidate in candidates:
        candidate_ids, candidate_contradicts = _list_ids_and_contradicted(candidate.entry)
        is_contradicted = contradicted & candidate_ids or ids & candidate_contradicts
        if is_contradicted or not survivor_keys.issuperset(dict(candidate.entry.extra)):
            continue
        members.append(candidate)
        ids |= candidate_ids
        contradicted |= candidate_contradicts
    return members


def _list_ids_and_contradicted(entry: Entry) -> tuple[set[str], set[str]]:
    """Return the ids that an entry replaces, its own included, and the ids it contradicts."""
    ids = {entry.id, *(old_id.lower() for old_id in entry.supersedes)}
    relations = relations_of(entry)
    contradicted = {relation.id for relation in relations if relation.kind == "contradicts"}
    return ids, contradicted - {entry.id}


def _unite_copies(copies: Sequence[Located], older: Collection[Located]) -> Located:
    """Return the first copy of an id with what all copies say.

    All copies count the same uses, so the highest count is kept.
    """
    if len(copies) == 1:
        return copies[0]
    ranked_places = sorted(copies, key=lambda place: (place in older, *survival_key(place)))
    ranked = [place.entry for place in ranked_places]
    merged = _merge_entries(copies[0].entry, ranked, max)
    entry = replace(
        merged,
        source=_first_value(entry.source for entry in ranked),
        session=_first_value(entry.session for entry in ranked),
        engine=_first_value(entry.engine for entry in ranked),
    )
    return replace(copies[0], entry=entry)


def _merge_entries(
    base: Entry, ranked: Sequence[Entry], combine_counts: Callable[[Iterable[int]], int]
) -> Entry:
    """Merge entries into `base`, which keeps its id, type and unknown keys.

    Args:
        base: one of the entries.
        ranked: all entries, the best first; the title and body of the first are kept.
        combine_counts: how reinforcement counts are combined, `max` or `sum`.
    """
    merged = _merge_state(base, ranked, combine_counts)
    merged = _merge_dates(merged, ranked)
    merged = _merge_lines(merged, ranked)
    return replace(merged, title=ranked[0].title, body=ranked[0].body)


def _merge_state(
    base: Entry, ranked: Sequence[Entry], combine_counts: Callable[[Iterable[int]], int]
) -> Entry:
    """Return `base` with the widest domain, the highest weights and the first choices of all.

    Retirement by stage takes `task` entries of one phase, so the result has a phase only if all
    entries had the same one.
    """
    is_one_phase = len({entry.phase for entry in ranked}) == 1
    is_team = any(entry.domain == "team" for entry in ranked)
    is_compacted = any(entry.status == "compacted" for entry in ranked)
    return replace(
        base,
        domain="team" if is_team else "task",
        phase=base.phase if is_one_phase else None,
        status="compacted" if is_compacted else "active",
        importance=max(entry.importance for entry in ranked),
        priority=max((entry.priority for entry in ranked), key=priority_floor),
        reinforcement_count=combine_counts(entry.reinforcement_count for entry in ranked),
        aka=_first_value(entry.aka for entry in ranked),
        adoption=_first_value(entry.adoption for entry in ranked),
        instead=_first_value(entry.instead for entry in ranked),
    )


def _merge_dates(base: Entry, ranked: Sequence[Entry]) -> Entry:
    """Return `base` with the latest reinforcement and the earliest of the other dates."""
    return replace(
        base,
        last_reinforced=max(entry.last_reinforced for entry in ranked),
        created_at=_earliest(entry.created_at for entry in ranked),
        occurred_at=_earliest(entry.occurred_at for entry in ranked),
        valid_until=_earliest(entry.valid_until for entry in ranked),
    )


def _merge_lines(base: Entry, ranked: Sequence[Entry]) -> Entry:
    """Return `base` with the evidence, cites, relations and superseded ids of all, each once.

    Relations among the merged entries are dropped.
    """
    ids = {entry.id for entry in ranked}
    superseded = [old_id for entry in ranked for old_id in (entry.id, *entry.supersedes)]
    relations = [relation for entry in ranked for relation in entry.relations]
    return replace(
        base,
        supersedes=_distinct(old_id for old_id in superseded if old_id != base.id),
        evidence=_distinct(line for entry in ranked for line in entry.evidence),
        occurrences=unite_occurrences(base, ranked),
        cites=_distinct(cite for entry in ranked for cite in entry.cites),
        relations=_distinct(line for line in relations if ids.isdisjoint(line.split()[1:])),
    )


def survival_key(place: Located) -> tuple[bool, float, int, str, str, str]:
    """Return the sort key by which entries survive, the best first.

    Proved entries come first, because evidence is not lent to other words; then the most important,
    the longest, and by id. Copies of one id that say the same are equal here and keep the order of
    their places.
    """
    entry = place.entry
    length = len(entry.title) + len(entry.body)
    return (
        not is_proved(entry),
        -effective_importance(entry),
        -length,
        entry.id,
        entry.title,
        entry.body,
    )


def _earliest(days: Iterable[date | None]) -> date | None:
    return min((day for day in days if day is not None), default=None)


def _first_value(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _distinct(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _plan_update(copies: Sequence[Located], cluster: Sequence[Located]) -> list[PlannedChange]:
    """Return the update of a cluster's survivor, if it changes.

    Args:
        copies: the places of the survivor's id; the first is the one that is updated.
        cluster: the survivor, then the entries that it absorbs.
    """
    survivor, *absorbed = cluster
    entry = survivor.entry
    if absorbed:
        entry = _merge_entries(entry, [member.entry for member in cluster], sum)
    place = copies[0]
    if entry == place.entry:
        return []
    reasons: list[str] = []
    if len(copies) > 1:
        reasons.append(f"one of {len(copies)} copies")
    if absorbed:
        reasons.append(f"merged with {', '.join(member.entry.id[:8] for member in absorbed)}")
    why = "; ".join(reasons)
    change = Change(step="compact", kind="update", path=place.path, entry=entry, why=why)
    return [PlannedChange(place, change)]


def _plan_removal(place: Located, why: str) -> PlannedChange:
    change = Change(step="compact", kind="remove", path=place.path, entry=place.entry, why=why)
    return PlannedChange(place, change)


def _file_order(planned: PlannedChange) -> tuple[str, bool, int, str]:
    """Sort by file: updates from the top, then removals from the bottom.

    Each removal takes out the last entry of its id, so the lower ones must go first.
    """
    place, change = planned
    is_removal = change.kind == "remove"
    line = -place.line if is_removal else place.line
    return place.path, is_removal, line, place.entry.id


def plan_stage_retirement(
    located: Iterable[Located], ended: Phase, today: date
) -> tuple[Change, ...]:
    """Plan the retirement of the task entries of a phase that has ended, in every scope.

    Compacted entries are retired like active ones. Entries of domain `team` outlive a stage, and so
    do entries that a person pinned.
    """
    why = f"the stage {ended} ended, seen {today.isoformat()}"
    changes = []
    for place in located:
        entry = place.entry
        if entry.domain == "task" and entry.phase == ended and may_retire(entry):
            changes.append(retire(place, why))
    return tuple(changes)


def may_retire(entry: Entry) -> bool:
    """Return whether an entry is not retired already and not pinned by a person."""
    return entry.status != "retired" and entry.priority not in PINNED_PRIORITIES


def retire(place: Located, why: str) -> Change:
    """Return the change that retires an entry."""
    entry = replace(place.entry, status="retired")
    return Change(step="retire", kind="update", path=place.path, entry=entry, why=why)
