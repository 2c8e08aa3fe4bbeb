"""Compaction and retirement: duplicate entries become one, entries that are over are removed.

Compaction makes one entry of several places of one id and of near duplicates in one file, and
removes retired entries, which git keeps. Retirement marks entries that no longer apply.
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
    ComparedEntry,
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
    """A change, and the entry that it changes with its file and line."""

    place: Located
    change: Change


def plan_compaction(
    located: Sequence[Located],
    older: Collection[Located] = (),
    synonyms: Collection[frozenset[str]] = (),
) -> tuple[Change, ...]:
    """Plan how near duplicates become one entry: updates of entries that stay, removals of others.

    The plan does not depend on the order of `located`. After it, every id is the id of an entry or
    in the `supersedes` of one, unless a copy of it was retired. Planning again after the changes
    gives no change. Copies of one id that say different things, and are not versions of each
    other, stay unchanged.

    Args:
        located: entries with their files; all these files may be rewritten.
        older: copies that, by history, another copy of the same id replaced.
        synonyms: groups of ids whose entries say the same according to a model.
    """
    copies_by_id: dict[str, list[Located]] = {}
    for entry_id, copies in _group_by_id(located).items():
        if _is_one_learning(copies, older):
            copies_by_id[entry_id] = copies

    planned: list[PlannedChange] = []
    # One retired copy retires all: else an older active copy would be served again.
    retired_ids = {place.entry.id for place in located if place.entry.status == "retired"}
    for entry_id in retired_ids & copies_by_id.keys():
        retired_copies = copies_by_id.pop(entry_id)
        planned += [_plan_removal(copy, "retired") for copy in retired_copies]
    for first, *other_copies in copies_by_id.values():
        planned += [_plan_removal(copy, f"is already in {first.path}") for copy in other_copies]
    planned += _plan_merges(copies_by_id, older, synonyms)
    planned.sort(key=_file_order)
    return tuple(change for _, change in planned)


def _plan_merges(
    copies_by_id: Mapping[str, Sequence[Located]],
    older: Collection[Located],
    synonyms: Collection[frozenset[str]],
) -> Iterator[PlannedChange]:
    """Yield the update of each entry that stays, and the removals of those that it absorbs.

    Args:
        copies_by_id: the copies of each active entry; the first copy stays.
        older: copies that, by history, another copy of the same id replaced.
        synonyms: groups of ids whose entries say the same according to a model.
    """
    united = [_unite_copies(copies, older) for copies in copies_by_id.values()]
    for survivor, *absorbed in _join_clusters(list(_find_clusters(united)), synonyms):
        yield from _plan_update(copies_by_id[survivor.entry.id], [survivor, *absorbed])
        for place in absorbed:
            remaining_copy, *_ = copies_by_id[place.entry.id]
            yield _plan_removal(remaining_copy, f"part of {survivor.entry.id[:8]}")


def list_unlike(located: Iterable[Located]) -> tuple[tuple[Located, ...], ...]:
    """Return the copies of each id whose copies say different things."""
    groups = _group_by_id(located).values()
    return tuple(tuple(copies) for copies in groups if not _is_one_learning(copies, ()))


def _group_by_id(located: Iterable[Located]) -> dict[str, list[Located]]:
    """Return the copies of each entry by its id, the copy in the widest scope first."""

    def order(place: Located) -> tuple[int, str, int]:
        return SCOPE_ORDER[place.scope.name], place.path, place.line

    copies_by_id: dict[str, list[Located]] = defaultdict(list)
    for place in sorted(located, key=order):
        copies_by_id[place.entry.id].append(place)
    return copies_by_id


def _is_one_learning(copies: Sequence[Located], older: Collection[Located]) -> bool:
    """Return whether all copies of an id say the same, apart from those that another replaced.

    They do if their words are similar and make the same claims (see `EntryWords`), and if the first
    copy has the unknown keys of all others: only the first copy stays.
    """
    if len(copies) == 1:
        return True
    current = [parse_entry_words(copy.entry) for copy in copies if copy not in older]
    if len({entry_words.claims for entry_words in current}) != 1:
        return False
    # As a set: copies with the same words and claims count once.
    word_sets = [entry_words.words for entry_words in set(current)]
    pair_count = comb(len(word_sets), 2)
    if len(similar_pairs(word_sets)) != pair_count:
        return False
    first_keys = {key for key, _ in copies[0].entry.extra}
    return all(first_keys.issuperset(dict(copy.entry.extra)) for copy in copies)


def _find_clusters(places: Iterable[Located]) -> Iterator[list[Located]]:
    """Yield groups of entries that become one entry each, the survivor first.

    Only entries of one file, type, validity and adoption that make the same claims are compared.
    Each entry is compared with the survivor: a chain of similar entries does not make its ends
    similar.
    """
    comparable: dict[object, list[ComparedEntry]] = defaultdict(list)
    for place in sorted(places, key=survival_key):
        words, claims = parse_entry_words(place.entry)
        key = (place.path, place.entry.type, *_list_conditions(place.entry), claims)
        comparable[key].append(ComparedEntry(place, words))
    for group in comparable.values():
        yield from _split_group(group)


def _list_conditions(entry: Entry) -> tuple[object, ...]:
    """Return when and how an entry applies: entries that differ in it are not merged."""
    return entry.adoption, entry.valid_until, entry.when, entry.check, entry.level


def _split_group(group: Sequence[ComparedEntry]) -> Iterator[list[Located]]:
    """Yield clusters of near duplicates among entries that may be compared.

    The entries come in the order of survival. Each that is in no cluster yet starts one, and takes
    its near duplicates that are in none. Rules are near duplicates also by their titles alone.
    """
    places = [compared.place for compared in group]
    by_words = NearDuplicates([compared.words for compared in group])
    by_title: NearDuplicates | None = None
    if places[0].entry.type in RULE_TYPES:
        titles = [title_stems(place.entry) for place in places]
        by_title = NearDuplicates(titles, contained_only=True)

    clustered_ids: set[str] = set()
    for index, survivor in enumerate(places):
        if survivor.entry.id in clustered_ids:
            continue
        clustered_ids.add(survivor.entry.id)
        duplicates = by_words.find(index)
        if by_title is not None:
            duplicates |= by_title.find(index)
        candidates = [places[duplicate] for duplicate in sorted(duplicates)]
        free = [place for place in candidates if place.entry.id not in clustered_ids]
        cluster = _select_compatible(survivor, free)
        clustered_ids |= {member.entry.id for member in cluster}
        yield cluster


class NearDuplicates:
    """The near duplicates of token sets, each searched at its first use.

    Thousands of similar sets make millions of pairs, but a caller that clusters them asks only for
    the pairs of the first set of each cluster.
    """

    def __init__(
        self, token_sets: Sequence[frozenset[str]], *, contained_only: bool = False
    ) -> None:
        """Prepare the search among the distinct sets.

        Args:
            token_sets: one set of words per entry; an empty set has no duplicates.
            contained_only: count a pair only if one set contains the other and is not much larger.
        """
        self._token_sets = token_sets
        self._indices: dict[frozenset[str], list[int]] = defaultdict(list)
        for index, token_set in enumerate(token_sets):
            self._indices[token_set].append(index)
        self._distinct = tuple(self._indices)
        threshold = CONTAINED_TITLE if contained_only else NEAR_DUPLICATE
        searched = range(len(self._distinct))
        searches = find_partners(self._distinct, searched, threshold, contained_only=contained_only)
        # Iterators that search when they are consumed.
        self._searches = {self._distinct[index]: partners for index, partners in searches}
        self._partners: dict[frozenset[str], tuple[int, ...]] = {}

    def find(self, index: int) -> set[int]:
        """Return the indices of the near duplicates of a token set, itself included."""
        token_set = self._token_sets[index]
        if not token_set:
            return set()
        if token_set not in self._partners:
            self._partners[token_set] = tuple(self._searches[token_set])
        indices = set(self._indices[token_set])
        for partner in self._partners[token_set]:
            indices.update(self._indices[self._distinct[partner]])
        return indices


def _join_clusters(
    clusters: Sequence[list[Located]], synonyms: Collection[frozenset[str]]
) -> Iterator[list[Located]]:
    """Yield the clusters; those with entries of one group of `synonyms` are joined.

    Clusters are joined only if their entries could be one entry: same file, adoption and validity.

    Args:
        clusters: entries that become one entry, the survivor of each cluster first.
        synonyms: groups of ids whose entries say the same according to a model.
    """
    joined: dict[object, list[Located]] = {}
    for cluster in clusters:
        survivor = cluster[0]
        ids = {member.entry.id for member in cluster}
        matching_groups = [group for group in synonyms if group & ids]
        key: object = survivor.entry.id
        if matching_groups:
            key = (matching_groups[0], survivor.path, *_list_conditions(survivor.entry))
        joined.setdefault(key, []).extend(cluster)
    for places in joined.values():
        best, *others = sorted(places, key=survival_key)
        members = _select_compatible(best, others)
        yield members
        for place in places:
            if place not in members:
                yield [place]


def _select_compatible(survivor: Located, candidates: Iterable[Located]) -> list[Located]:
    """Return the survivor and the candidates that it can absorb without losing anything.

    A candidate is left out if it contradicts a member or a member contradicts it, or if it has an
    unknown key that the survivor has not.
    """
    members = [survivor]
    ids = _list_own_ids(survivor.entry)
    contradicted = _list_contradicted_ids(survivor.entry)
    survivor_keys = {key for key, _ in survivor.entry.extra}
    for candidate in candidates:
        candidate_ids = _list_own_ids(candidate.entry)
        contradicted_by_candidate = _list_contradicted_ids(candidate.entry)
        if contradicted & candidate_ids or ids & contradicted_by_candidate:
            continue
        if not survivor_keys.issuperset(dict(candidate.entry.extra)):
            continue
        members.append(candidate)
        ids |= candidate_ids
        contradicted |= contradicted_by_candidate
    return members


def _list_own_ids(entry: Entry) -> set[str]:
    """Return the id of an entry and the ids that it replaces."""
    return {entry.id, *(old_id.lower() for old_id in entry.supersedes)}


def _list_contradicted_ids(entry: Entry) -> set[str]:
    """Return the ids that an entry's relations say it contradicts."""
    relations = relations_of(entry)
    contradicted = {relation.id for relation in relations if relation.kind == "contradicts"}
    return contradicted - {entry.id}


def _unite_copies(copies: Sequence[Located], older: Collection[Located]) -> Located:
    """Return the first copy of an id, completed with the fields of the other copies.

    All copies count the same uses, so the highest count is kept.

    Args:
        copies: the copies of one id; the first copy stays.
        older: copies that another copy replaced; their fields come last.
    """
    if len(copies) == 1:
        return copies[0]
    ranked_copies = sorted(copies, key=lambda copy: (copy in older, *survival_key(copy)))
    ranked = [copy.entry for copy in ranked_copies]
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
    """Return one entry for several: `base` keeps its id, type and unknown keys.

    Args:
        base: one of the entries.
        ranked: all entries, the best first; the title and body of the first are kept.
        combine_counts: how reinforcement counts are combined, `max` or `sum`.
    """
    counts = [entry.reinforcement_count for entry in ranked]
    merged = replace(
        base,
        title=ranked[0].title,
        body=ranked[0].body,
        reinforcement_count=combine_counts(counts),
    )
    merged = _merge_state(merged, ranked)
    merged = _merge_dates(merged, ranked)
    return _merge_lines(merged, ranked)


def _merge_state(base: Entry, ranked: Sequence[Entry]) -> Entry:
    """Return `base` with the widest domain, the highest weights, and the first values of texts.

    Args:
        base: the entry that the others are merged into.
        ranked: all entries, the best first: its values win.
    """
    domains = {entry.domain for entry in ranked}
    statuses = {entry.status for entry in ranked}
    phases = {entry.phase for entry in ranked}
    priorities = [entry.priority for entry in ranked]
    return replace(
        base,
        domain="team" if "team" in domains else "task",
        status="compacted" if "compacted" in statuses else "active",
        # Entries of a phase are retired when it ends, so one that is also of another has none.
        phase=base.phase if len(phases) == 1 else None,
        importance=max(entry.importance for entry in ranked),
        priority=max(priorities, key=priority_floor),
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

    Relations are lines such as `supports 0a003ee4`; those among the merged entries are dropped.
    """
    merged_ids = {entry.id for entry in ranked}
    superseded: list[str] = []
    evidence: list[str] = []
    cites: list[str] = []
    relations: list[str] = []
    for entry in ranked:
        superseded += (entry.id, *entry.supersedes)
        evidence += entry.evidence
        cites += entry.cites
        for relation in entry.relations:
            _, *related_ids = relation.split() or [""]
            if merged_ids.isdisjoint(related_ids):
                relations.append(relation)
    return replace(
        base,
        supersedes=_distinct(old_id for old_id in superseded if old_id != base.id),
        evidence=_distinct(evidence),
        occurrences=unite_occurrences(base, ranked),
        cites=_distinct(cites),
        relations=_distinct(relations),
    )


def survival_key(place: Located) -> tuple[bool, float, int, str, str, str]:
    """Return the sort key that decides which of several similar entries stays: the smallest.

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
    """Return the update of a cluster's survivor as a list, which is empty if nothing changes.

    Args:
        copies: the copies of the survivor's id in files; the first copy is updated.
        cluster: the survivor with the fields of its copies, then the entries that it absorbs.
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
    """Return a sort key: by file, first updates from the top, then removals from the bottom.

    Each removal takes out the last entry of its id, so the lower ones must go first.
    """
    place, change = planned
    is_removal = change.kind == "remove"
    line = -place.line if is_removal else place.line
    return place.path, is_removal, line, place.entry.id


def plan_stage_retirement(
    located: Iterable[Located], ended: Phase, today: date
) -> tuple[Change, ...]:
    """Plan the retirement of the task entries of a phase of work that has ended, in every scope.

    Compacted entries are retired like active ones. Entries of domain `team` outlive a phase, and so
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
