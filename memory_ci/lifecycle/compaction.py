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
from memory_ci.lifecycle.relations import parse_relations
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

    located: Located
    change: Change


def plan_compaction(
    located: Sequence[Located],
    replaced_copies: Collection[Located] = (),
    synonyms: Collection[frozenset[str]] = (),
) -> tuple[Change, ...]:
    """Plan how near duplicates become one entry: updates of entries that stay, removals of others.

    The plan does not depend on the order of `located`. After it, every id is the id of an entry or
    in the `supersedes` of one, unless a copy of it was retired. Planning again after the changes
    gives no change. Copies of one id that say different things, and are not versions of each
    other, stay unchanged.

    Args:
        located: entries with their files; all these files may be rewritten. A file may have a copy
            of an entry of another file, with the same id: a merge may restore one.
        replaced_copies: copies that, by history, another copy of the same id replaced.
        synonyms: groups of ids whose entries say the same according to a model.
    """
    copies_by_id: dict[str, list[Located]] = {}
    for entry_id, copies in _group_by_id(located).items():
        if _say_the_same(copies, replaced_copies):
            copies_by_id[entry_id] = copies

    planned: list[PlannedChange] = []
    # One retired copy retires all: else an older active copy would be served again.
    retired_ids = {
        located_entry.entry.id
        for located_entry in located
        if located_entry.entry.status == "retired"
    }
    for entry_id in retired_ids & copies_by_id.keys():
        retired_copies = copies_by_id.pop(entry_id)
        planned += [_plan_removal(copy, "retired") for copy in retired_copies]
    for first, *other_copies in copies_by_id.values():
        planned += [_plan_removal(copy, f"is already in {first.path}") for copy in other_copies]
    planned += _plan_merges(copies_by_id, replaced_copies, synonyms)
    planned.sort(key=_file_order)
    return tuple(change for _, change in planned)


def _plan_merges(
    copies_by_id: Mapping[str, Sequence[Located]],
    replaced_copies: Collection[Located],
    synonyms: Collection[frozenset[str]],
) -> Iterator[PlannedChange]:
    """Yield the update of each entry that stays, and the removals of those that it absorbs.

    The copies of each id are united to one entry. Then near duplicates with different ids, and
    synonyms, form clusters. The first entry of a cluster (the survivor) absorbs the others.

    Args:
        copies_by_id: the copies of each active entry; the first copy stays, the caller removes the
            others.
        replaced_copies: copies that, by history, another copy of the same id replaced.
        synonyms: groups of ids whose entries say the same according to a model.
    """
    entries = [_unite_copies(copies, replaced_copies) for copies in copies_by_id.values()]
    clusters = _join_clusters(list(_find_clusters(entries)), synonyms)
    for survivor, *absorbed in clusters:
        yield from _plan_update(copies_by_id[survivor.entry.id], [survivor, *absorbed])
        for located in absorbed:
            first_copy = copies_by_id[located.entry.id][0]
            yield _plan_removal(first_copy, f"part of {survivor.entry.id[:8]}")


def list_different_copies(located: Iterable[Located]) -> tuple[tuple[Located, ...], ...]:
    """Return the copies of each id whose copies say different things."""
    groups = _group_by_id(located).values()
    return tuple(tuple(copies) for copies in groups if not _say_the_same(copies, ()))


def _group_by_id(located: Iterable[Located]) -> dict[str, list[Located]]:
    """Return the copies of each entry by its id, the copy in the widest scope first."""

    def scope_and_place(copy: Located) -> tuple[int, str, int]:
        return SCOPE_ORDER[copy.scope.name], copy.path, copy.line

    copies_by_id: dict[str, list[Located]] = defaultdict(list)
    for copy in sorted(located, key=scope_and_place):
        copies_by_id[copy.entry.id].append(copy)
    return copies_by_id


def _say_the_same(copies: Sequence[Located], replaced_copies: Collection[Located]) -> bool:
    """Return whether all copies of an id say the same, so that only the first needs to stay.

    Copies that another one replaced do not matter. The others say the same if each two of them have
    similar words, and if all have the same claims: the words next to negations and numbers. Also,
    the first copy must have the unknown keys of all copies, because the other copies go.
    """
    if len(copies) == 1:
        return True
    # As a set: copies with the same words and claims count once.
    distinct_texts = set()
    for copy in copies:
        if copy not in replaced_copies:
            distinct_texts.add(parse_entry_words(copy.entry))
    if len({entry_words.claims for entry_words in distinct_texts}) != 1:
        return False
    word_sets = [entry_words.words for entry_words in distinct_texts]
    pair_count = comb(len(word_sets), 2)
    are_all_similar = len(similar_pairs(word_sets)) == pair_count
    if not are_all_similar:
        return False
    first_keys = {key for key, _ in copies[0].entry.extra}
    return all(first_keys.issuperset(dict(copy.entry.extra)) for copy in copies)


def _find_clusters(located_entries: Iterable[Located]) -> Iterator[list[Located]]:
    """Yield groups of entries that become one entry each, the survivor first.

    Only entries of one file, type, validity and adoption that make the same claims are compared.
    Each entry is compared with the survivor: a chain of similar entries does not make its ends
    similar.
    """
    comparable_groups: dict[object, list[ComparedEntry]] = defaultdict(list)
    for located_entry in sorted(located_entries, key=survival_key):
        words, claims = parse_entry_words(located_entry.entry)
        key = (
            located_entry.path,
            located_entry.entry.type,
            *_list_conditions(located_entry.entry),
            claims,
        )
        comparable_groups[key].append(ComparedEntry(located_entry, words))
    for group in comparable_groups.values():
        yield from _split_group(group)


def _list_conditions(entry: Entry) -> tuple[object, ...]:
    """Return when and how an entry applies: entries that differ in it are not merged."""
    return entry.adoption, entry.valid_until, entry.when, entry.check, entry.level


def _split_group(group: Sequence[ComparedEntry]) -> Iterator[list[Located]]:
    """Yield clusters of near duplicates among entries that may be compared.

    The entries come in the order of survival. Each that is in no cluster yet starts one, and takes
    its near duplicates that are in none. Rules are near duplicates also by their titles alone.
    """
    located_entries = [compared.located_entry for compared in group]
    by_words = NearDuplicateSearch([compared.words for compared in group])
    by_title: NearDuplicateSearch | None = None
    if located_entries[0].entry.type in RULE_TYPES:
        titles = [title_stems(located_entry.entry) for located_entry in located_entries]
        by_title = NearDuplicateSearch(titles, contained_only=True)

    clustered_ids: set[str] = set()
    for index, survivor in enumerate(located_entries):
        if survivor.entry.id in clustered_ids:
            continue
        clustered_ids.add(survivor.entry.id)
        duplicates = by_words.find(index)
        if by_title is not None:
            duplicates |= by_title.find(index)
        candidates = []
        for duplicate in sorted(duplicates):
            if located_entries[duplicate].entry.id not in clustered_ids:
                candidates.append(located_entries[duplicate])
        cluster = _select_compatible(survivor, candidates)
        clustered_ids |= {member.entry.id for member in cluster}
        yield cluster


class NearDuplicateSearch:
    """A search for the near duplicates of token sets, which searches for each set when it is asked.

    Thousands of similar sets make millions of pairs, but a caller that clusters them asks only for
    the pairs of the first set of each cluster. Equal sets are compared once.
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
        self._indices_by_set: dict[frozenset[str], list[int]] = defaultdict(list)
        for index, token_set in enumerate(token_sets):
            self._indices_by_set[token_set].append(index)

        self._distinct_sets = tuple(self._indices_by_set)
        threshold = CONTAINED_TITLE if contained_only else NEAR_DUPLICATE
        searches = find_partners(
            self._distinct_sets,
            range(len(self._distinct_sets)),
            threshold,
            contained_only=contained_only,
        )
        # An iterator for each distinct set. It searches while it is consumed, and gives indices of
        # `_distinct_sets`.
        self._searches = {self._distinct_sets[index]: partners for index, partners in searches}
        # The results of the iterators that were consumed.
        self._partners: dict[frozenset[str], tuple[int, ...]] = {}

    def find(self, index: int) -> set[int]:
        """Return the indices of the near duplicates of a token set, itself included."""
        token_set = self._token_sets[index]
        if not token_set:
            return set()
        if token_set not in self._partners:
            self._partners[token_set] = tuple(self._searches[token_set])
        duplicates = set(self._indices_by_set[token_set])
        for partner in self._partners[token_set]:
            partner_set = self._distinct_sets[partner]
            duplicates.update(self._indices_by_set[partner_set])
        return duplicates


def _join_clusters(
    clusters: Sequence[list[Located]], synonyms: Collection[frozenset[str]]
) -> Iterator[list[Located]]:
    """Yield the clusters of entries, after joining those that a model found to say the same.

    Two clusters are joined if each has an entry of the same group of synonyms, and if their
    survivors are in one file and apply under the same conditions (`_list_conditions`). An entry of
    a joined cluster that the best entry cannot absorb becomes a cluster of its own.

    Args:
        clusters: entries that become one entry, the survivor of each cluster first.
        synonyms: groups of ids whose entries say the same according to a model.
    """
    joined_clusters: dict[object, list[Located]] = {}
    for cluster in clusters:
        survivor = cluster[0]
        ids = {member.entry.id for member in cluster}
        synonym_groups = [group for group in synonyms if group & ids]
        if synonym_groups:
            conditions = _list_conditions(survivor.entry)
            join_key: object = (synonym_groups[0], survivor.path, *conditions)
        else:
            join_key = survivor.entry.id  # of no other cluster
        joined_clusters.setdefault(join_key, []).extend(cluster)

    for joined_cluster in joined_clusters.values():
        best, *others = sorted(joined_cluster, key=survival_key)
        members = _select_compatible(best, others)
        yield members
        for located in joined_cluster:
            if located not in members:
                yield [located]


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
    relations = parse_relations(entry)
    contradicted = {relation.id for relation in relations if relation.kind == "contradicts"}
    return contradicted - {entry.id}


def _unite_copies(copies: Sequence[Located], replaced_copies: Collection[Located]) -> Located:
    """Return the first copy of an id, completed with the fields of the other copies.

    All copies count the same uses, so the highest count is kept.

    Args:
        copies: the copies of one id; the first copy stays.
        replaced_copies: copies that another copy replaced; their fields come last.
    """
    if len(copies) == 1:
        return copies[0]
    ranked_copies = sorted(copies, key=lambda copy: (copy in replaced_copies, *survival_key(copy)))
    ranked = [copy.entry for copy in ranked_copies]
    merged = _merge_entries(copies[0].entry, ranked, combine_counts=max)
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

    Entries of a phase of work are retired when it ends, so an entry that is merged from several
    phases gets no phase.

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
        phase=base.phase if len(phases) == 1 else None,
        importance=max(entry.importance for entry in ranked),
        # The priority that guarantees the highest rank.
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


def survival_key(located_entry: Located) -> tuple[bool, float, int, str, str, str]:
    """Return the sort key that decides which of several similar entries stays: the smallest.

    Entries with evidence come first, because the evidence must not be attached to the words of
    another entry. Then come the most important and the longest entries. Copies of one id with the
    same texts have equal keys, so that sorting keeps their order.
    """
    entry = located_entry.entry
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
        cluster: the survivor, in which its copies are united, then the entries that it absorbs.
    """
    survivor, *absorbed = cluster
    merged_entry = survivor.entry
    if absorbed:
        # Each entry counts its own uses, so the counts are added up.
        cluster_entries = [member.entry for member in cluster]
        merged_entry = _merge_entries(merged_entry, cluster_entries, combine_counts=sum)
    updated_copy = copies[0]
    if merged_entry == updated_copy.entry:
        return []
    reasons: list[str] = []
    if len(copies) > 1:
        reasons.append(f"one of {len(copies)} copies")
    if absorbed:
        reasons.append(f"merged with {', '.join(member.entry.id[:8] for member in absorbed)}")
    change = Change(
        step="compact",
        kind="update",
        path=updated_copy.path,
        entry=merged_entry,
        why="; ".join(reasons),
    )
    return [PlannedChange(updated_copy, change)]


def _plan_removal(located_entry: Located, why: str) -> PlannedChange:
    change = Change(
        step="compact", kind="remove", path=located_entry.path, entry=located_entry.entry, why=why
    )
    return PlannedChange(located_entry, change)


def _file_order(planned: PlannedChange) -> tuple[str, bool, int, str]:
    """Return a sort key: by file, first updates from the top, then removals from the bottom.

    Each removal takes out the last entry of its id, so the lower ones must go first.
    """
    located, change = planned
    is_removal = change.kind == "remove"
    line = -located.line if is_removal else located.line
    return located.path, is_removal, line, located.entry.id


def plan_stage_retirement(
    located: Iterable[Located], ended: Phase, today: date
) -> tuple[Change, ...]:
    """Plan the retirement of the entries of a phase of work, such as `design`, that has ended.

    Only entries of the domain `task` are retired: those of the domain `team` hold after the phase.
    Entries that a person pinned stay as well.

    Args:
        located: the entries of all scopes.
        ended: the phase.
        today: the day on which its end was seen.
    """
    why = f"the stage {ended} ended, seen {today.isoformat()}"
    changes = []
    for located_entry in located:
        entry = located_entry.entry
        if entry.domain == "task" and entry.phase == ended and may_retire(entry):
            changes.append(make_retirement(located_entry, why))
    return tuple(changes)


def may_retire(entry: Entry) -> bool:
    """Return whether an entry is not retired already and not pinned by a person."""
    return entry.status != "retired" and entry.priority not in PINNED_PRIORITIES


def make_retirement(located_entry: Located, why: str) -> Change:
    """Return the change that retires an entry."""
    entry = replace(located_entry.entry, status="retired")
    return Change(step="retire", kind="update", path=located_entry.path, entry=entry, why=why)
