"""Promotion of entries to a wider scope than the one they were learned in.

The scopes from narrow to wide are team, session, project, global: a task of a job is promoted to
the session of that job, a team's directory and a session to the project. A directive of the project
becomes a norm once changes of several directories have said it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.compaction import survival_key
from memory_ci.lifecycle.consolidation import JOBS
from memory_ci.lifecycle.reinforcement import list_occurrences, unite_occurrences
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import ComparedEntry, find_partners, parse_entry_words
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.plan import Change
from memory_ci.regex import Regex

RECURRENCES = 3
"""Changes or sessions that must say an entry before it is promoted."""

RECURRING = Fraction(7999, 10000)
"""Jaccard index above which two entries say the same: 0.8, for up to 2,000 different words."""

PERSONAL = Regex(
    r"\b(?i:i|we|he|she|they|users?|reviewers?|maintainers?|authors?|team|people|everyone)\s+"
    r"(?:(?:all|both|personally|usually|really|strongly|would|do|does|don't|doesn't|not)\s+)*"
    r"(?:prefers?|likes?|loves?|hates?|dislikes?|enjoys?|wants?|favou?rs?|rather)\b"
    r"|\b[A-Z][a-z]+ (?:personally )?(?:prefers|likes|loves|hates|dislikes|enjoys|wants|favou?rs)\b"
    r"|\b(?i:i|we|they|he|she)'d (?:prefer|like|rather)\b"
    r"|\b(?i:my|our|his|her|their|[a-z]+'s) (?:personal )?(?:preference|favou?rite|taste)\b"
    r"|\b(?i:preferred|preference) (?:by|of)\b"
)
"""Somebody's preference. `Prefer short names` is a rule and does not match."""

SPECIFIC = Regex(
    r"\d|[`@#/\\_]|\w\.\w|\w\(|[a-z][A-Z]"
    r"|\b(?i:this|our|the) (?:repo|repository|project|codebase|package|module|service)\b"
)
"""A number, code, a path, a URL or an identifier: text that may apply in one repository alone."""

LEGACY_SESSIONS = Regex(r"(?:^|/)\.sessions/")
"""Memory files of an older layout, which are read and never written."""


class GlobalProposal(NamedTuple):
    """An entry proposed for global memory.

    Attributes:
        entry: the entry as it would be written there.
        merged: the entries that it is made of.
        why: the reason, for people.
    """

    entry: Entry
    merged: tuple[Located, ...]
    why: str


class Promotion(NamedTuple):
    """Changes inside the repository, and proposals for the memory outside of it."""

    changes: tuple[Change, ...]
    proposals: tuple[GlobalProposal, ...]


def plan_promotion(
    located: Iterable[Located],
    today: date,
    path_of: Callable[[ScopeOf], str | None],
    names: Collection[str],
) -> Promotion:
    """Plan the moves of recurring entries to the next wider scope.

    An entry recurs if `RECURRENCES` distinct changes or sessions said it. Each move is the
    removals, then an addition. The best entry keeps its id and supersedes the others. An entry that
    the wider scope has already is not moved, so planning again after the changes gives none. Global
    memory is outside of the repository: entries that name nothing of this repository are proposed
    for it.

    Args:
        located: all entries.
        today: the date of the promotion.
        path_of: returns the memory file of a scope, or None if it has none.
        names: names of the repository and of its packages.
    """
    changes: list[Change] = []
    proposals: list[GlobalProposal] = []
    places = sorted(located, key=lambda place: (place.entry.id, place.path, place.line))
    movable: defaultdict[ScopeOf, list[Located]] = defaultdict(list)
    for place in places:
        target = wider_scope(place)
        if target is not None and _may_move(place.entry):
            movable[target].append(place)
    for target in sorted(movable, key=lambda scope: (scope.name, scope.where)):
        path = path_of(target)
        target_places = [place for place in places if place.scope == target]
        changes += _remove_promoted(movable[target], target_places)
        for members in _find_recurring(movable[target] + target_places, target):
            entry = _build_promoted(members, today)
            why = f"said in {len(_list_sources(members))} changes or sessions"
            if target.name != "global" and path is not None:
                changes += _plan_moves(members, entry, target, path, why)
            elif target.name == "global" and is_agnostic(entry, names):
                proposals.append(GlobalProposal(entry, members, why))
    return Promotion(tuple(changes), tuple(proposals))


def _remove_promoted(
    narrow_scope_entries: Iterable[Located], wide_scope_entries: Iterable[Located]
) -> Iterator[Change]:
    """Yield removals of entries that were promoted earlier, and whose old copy still exists.

    This happens when a run was killed after it wrote the new copy and before it removed the old
    one, and a person committed that.

    Args:
        narrow_scope_entries: the entries that could be promoted to the wide scope.
        wide_scope_entries: the entries of the wide scope.
    """
    promoted_by_old_id: dict[str, Entry] = {}
    for place in wide_scope_entries:
        entry = place.entry
        if entry.promoted_from is not None:
            for old_id in (entry.id, *entry.supersedes):
                promoted_by_old_id[old_id] = entry
    for place in narrow_scope_entries:
        promoted = promoted_by_old_id.get(place.entry.id)
        if promoted is not None:
            why = f"was promoted to {promoted.id[:8]} before"
            yield Change(step="promote", kind="remove", path=place.path, entry=place.entry, why=why)


def plan_norms(
    located: Iterable[Located],
    today: date,
    path_of: Callable[[ScopeOf], str | None],
    list_directories: Callable[[], Mapping[str, str]],
) -> tuple[Change, ...]:
    """Plan the moves of project directives to institutional memory, where they are norms.

    A directive is moved if changes of three different directories stated it. A directive that was
    promoted before is not moved again, because people have moved it back.

    Args:
        located: all entries.
        today: the date of the promotion.
        path_of: returns the memory file of a scope, or None if it has none.
        list_directories: returns the directory of each merged change, by the name that entries have
            for it (`pr:128`). It is called only if a directive has enough sources.
    """
    target = ScopeOf("institutional")
    path = path_of(target)
    if path is None:
        return ()
    candidates = [place for place in located if _is_norm_candidate(place)]
    if not candidates:
        return ()
    directory_by_source = list_directories()
    changes: list[Change] = []
    for place in candidates:
        sources = _list_norm_sources(place.entry)
        directories = {directory_by_source[name] for name in sources if name in directory_by_source}
        if len(directories) >= RECURRENCES:
            entry = _build_promoted([place], today)
            why = f"said in changes of {len(directories)} directories"
            changes += _plan_moves([place], entry, target, path, why)
    return tuple(changes)


def _is_norm_candidate(place: Located) -> bool:
    """Return whether an entry is an active directive of the project with enough sources."""
    entry = place.entry
    is_rule = place.scope.name == "project" and entry.type == "directive"
    is_open = entry.status == "active" and entry.promoted_from != "project"
    has_sources = len(_list_norm_sources(entry)) >= RECURRENCES
    return is_rule and is_open and has_sources and _may_move(entry)


def _list_norm_sources(entry: Entry) -> set[str]:
    return {*entry.occurrences, *(entry.source or "").split()}


def is_agnostic(entry: Entry, names: Collection[str]) -> bool:
    """Return whether an entry can apply in any repository, and not in one alone.

    It may name no place, thing or amount of this repository; in doubt the answer is no.

    Args:
        entry: the entry.
        names: names of the repository and of its packages.
    """
    # Names are compared word by word: `memory-ci` is also `Memory CI`.
    letters = [char if char.isalnum() else " " for char in entry.text.lower()]
    text = f" {''.join(letters)} "
    for name in names:
        name_words = re.findall("[a-z0-9]+", name.lower())
        if f" {' '.join(name_words)} " in text:
            return False
    return SPECIFIC.search(entry.text) is None


def is_personal(entry: Entry) -> bool:
    """Return whether an entry is about the preference of a person."""
    return PERSONAL.search(entry.text) is not None


def wider_scope(place: Located) -> ScopeOf | None:
    """Return the next wider scope of an entry, or None if it is not promoted from its scope.

    A task of a job has the scope `team` and a file below the job's directory.
    """
    if place.scope.name == "team" and place.path.startswith(JOBS):
        job = place.path.removeprefix(JOBS).partition("/")[0]
        return ScopeOf("session", job)
    if place.scope.name in ("team", "session"):
        return None if LEGACY_SESSIONS.search(place.path) else ScopeOf("project")
    return ScopeOf("global") if place.scope.name == "project" else None


def _may_move(entry: Entry) -> bool:
    """Return whether an entry is in force, uncontradicted, and no matter of a phase or of taste."""
    if entry.status == "retired" or entry.adoption == "rejected" or entry.valid_until is not None:
        return False
    if entry.domain == "task" and entry.phase is not None:
        return False
    is_disputed = any(relation.kind == "contradicts" for relation in relations_of(entry))
    return not is_disputed and not is_personal(entry)


def _find_recurring(places: Sequence[Located], target: ScopeOf) -> Iterator[tuple[Located, ...]]:
    """Yield groups of similar entries that `RECURRENCES` sources say, the best entry first.

    Each entry is compared with the best of its group, and is in one group at most. A group that has
    an entry of the target scope is left out: the target has it already.

    Args:
        places: the entries, those of the target scope included.
        target: the scope that the groups would be promoted to.
    """
    if len(_list_sources(places)) < RECURRENCES:
        return
    target_ids = {place.entry.id for place in places if place.scope == target}
    # Only entries with the same claims are compared.
    by_claims: defaultdict[tuple[tuple[str, str], ...], list[ComparedEntry]] = defaultdict(list)
    for place in sorted(places, key=_survival_order):
        entry_words = parse_entry_words(place.entry)
        by_claims[entry_words.claims].append(ComparedEntry(place, entry_words.words))
    groups: list[tuple[Located, ...]] = []
    for compared in by_claims.values():
        groups += _group_similar(compared, target_ids)
    yield from sorted(groups, key=lambda members: _survival_order(members[0]))


def _survival_order(place: Located) -> tuple[object, ...]:
    """Return `survival_key` without the texts, then the path."""
    return (*survival_key(place)[:4], place.path)


def _group_similar(
    compared: Sequence[ComparedEntry], target_ids: Collection[str]
) -> Iterator[tuple[Located, ...]]:
    """Yield groups of similar entries, as `_find_recurring` does, among entries with one claim.

    Similar entries are searched only for those that start a group: thousands of them are then
    compared with the first, and not each with each.

    Args:
        compared: the entries in the order of survival.
        target_ids: ids of the entries that the target scope has.
    """
    grouped: set[int] = set()
    word_sets = [item.words for item in compared]
    for best, partners in find_partners(word_sets, range(len(compared)), RECURRING):
        if best in grouped:
            continue
        similar = [best, *sorted(set(partners) - {best})]
        if any(compared[index].place.entry.id in target_ids for index in similar):
            continue
        free = [index for index in similar if index not in grouped]
        members = tuple(compared[index].place for index in free)
        if len(_list_sources(members)) >= RECURRENCES:
            grouped.update(free)
            yield members


def _list_sources(members: Iterable[Located]) -> set[str]:
    """Return the changes and sessions that said entries; for an entry without any, its scope."""
    sources: set[str] = set()
    for place in members:
        sources |= list_occurrences(place.entry) or {place.scope.target}
    return sources


def _build_promoted(members: Sequence[Located], today: date) -> Entry:
    """Return the first entry with the counts and evidence of all; copies of an id count once."""
    best = members[0]
    entries = [place.entry for place in members]
    counts: dict[str, int] = {}
    superseded: set[str] = set()
    evidence: list[str] = []
    for entry in entries:
        counts[entry.id] = max(entry.reinforcement_count, counts.get(entry.id, 0))
        superseded.update((entry.id, *entry.supersedes))
        evidence += entry.evidence
    superseded.discard(best.entry.id)
    creation_days = [entry.created_at for entry in entries if entry.created_at]
    # A relation to an entry that becomes part of this one says nothing any more.
    relations = [line for line in best.entry.relations if superseded.isdisjoint(line.split())]
    return replace(
        best.entry,
        reinforcement_count=sum(counts.values()),
        last_reinforced=max(entry.last_reinforced for entry in entries),
        created_at=min(creation_days, default=None),
        supersedes=tuple(sorted(superseded)),
        evidence=tuple(dict.fromkeys(evidence)),
        occurrences=unite_occurrences(best.entry, entries),
        relations=tuple(relations),
        promoted_from=best.scope.target,
        promoted_at=today,
    )


def _plan_moves(
    members: Iterable[Located], survivor: Entry, target: ScopeOf, path: str, why: str
) -> Iterator[Change]:
    """Yield the removal of each entry of a group, then the addition of the entry that replaces it.

    Args:
        members: the entries in their narrow scopes.
        survivor: the entry that replaces them.
        target: the wider scope.
        path: the file of that scope.
        why: the reason for the promotion.
    """
    for place in members:
        if place.entry.id == survivor.id:
            reason = f"moves up to {target.target}"
        else:
            reason = f"is part of {survivor.id[:8]}, now in {target.target}"
        yield Change(step="promote", kind="remove", path=place.path, entry=place.entry, why=reason)
    yield Change(step="promote", kind="add", path=path, entry=survivor, why=why)
