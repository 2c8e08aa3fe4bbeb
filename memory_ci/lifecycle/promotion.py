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
from memory_ci.lifecycle.relations import parse_relations
from memory_ci.lifecycle.similarity import ComparedEntry, find_partners, parse_entry_words
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.plan import Change
from memory_ci.regex import Regex

RECURRENCES = 3
"""Changes or sessions that must say an entry before it is promoted."""

SIMILARITY = Fraction(7999, 10000)
"""Jaccard index above which two entries say the same: 0.8, for up to 2,000 different words."""

PERSONAL_PREFERENCE = Regex(
    r"\b(?i:i|we|he|she|they|users?|reviewers?|maintainers?|authors?|team|people|everyone)\s+"
    r"(?:(?:all|both|personally|usually|really|strongly|would|do|does|don't|doesn't|not)\s+)*"
    r"(?:prefers?|likes?|loves?|hates?|dislikes?|enjoys?|wants?|favou?rs?|rather)\b"
    r"|\b[A-Z][a-z]+ (?:personally )?(?:prefers|likes|loves|hates|dislikes|enjoys|wants|favou?rs)\b"
    r"|\b(?i:i|we|they|he|she)'d (?:prefer|like|rather)\b"
    r"|\b(?i:my|our|his|her|their|[a-z]+'s) (?:personal )?(?:preference|favou?rite|taste)\b"
    r"|\b(?i:preferred|preference) (?:by|of)\b"
)
"""Somebody's preference. `Prefer short names` is a rule and does not match."""

REPOSITORY_SPECIFIC = Regex(
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

    A scope is whom a memory file is for: a directory (team), a session, the project, or all
    repositories (global). An entry recurs if `RECURRENCES` distinct changes or sessions stated it
    or a similar entry. Then the similar entries are removed from the files of their scopes, and one
    of them is added to the file of the wider scope: the best one, with its id. The ids of the
    others go into its `supersedes`. Entries that the wider scope has already are not moved, so
    planning again after the changes gives none.

    Global memory is outside of the repository, so entries are only proposed for it, and only if
    they name nothing of this repository.

    Args:
        located: all entries.
        today: the date of the promotion.
        path_of: returns the memory file of a scope, or None if it has none.
        names: names of the repository and of its packages.
    """
    changes: list[Change] = []
    proposals: list[GlobalProposal] = []
    entries = sorted(
        located,
        key=lambda located_entry: (located_entry.entry.id, located_entry.path, located_entry.line),
    )
    entries_by_target: defaultdict[ScopeOf, list[Located]] = defaultdict(list)
    for located_entry in entries:
        target = find_wider_scope(located_entry)
        if target is not None and _may_be_promoted(located_entry.entry):
            entries_by_target[target].append(located_entry)

    for target in sorted(entries_by_target, key=lambda scope: (scope.name, scope.where)):
        target_path = path_of(target)
        narrow_entries = entries_by_target[target]
        wide_entries = [entry for entry in entries if entry.scope == target]
        changes += _plan_leftover_removals(narrow_entries, wide_entries)
        for members in _find_recurring(narrow_entries + wide_entries, target):
            promoted_entry = _build_promoted(members, today)
            why = f"said in {len(_list_sources(members))} changes or sessions"
            if target.name != "global" and target_path is not None:
                changes += _plan_moves(members, promoted_entry, target, target_path, why)
            elif target.name == "global" and is_repository_independent(promoted_entry, names):
                proposals.append(GlobalProposal(promoted_entry, members, why))
    return Promotion(tuple(changes), tuple(proposals))


def _plan_leftover_removals(
    narrow_scope_entries: Iterable[Located], wide_scope_entries: Iterable[Located]
) -> Iterator[Change]:
    """Yield removals of entries that were promoted earlier, and whose old copy still exists.

    This happens when a run was killed after it wrote the new copy and before it removed the old
    one, and a person committed that.

    Args:
        narrow_scope_entries: the entries that could be promoted to the wide scope.
        wide_scope_entries: the entries of the wide scope. Those with the field `promoted_from` came
            from a narrower scope.
    """
    promoted_by_old_id: dict[str, Entry] = {}
    for wide_copy in wide_scope_entries:
        entry = wide_copy.entry
        if entry.promoted_from is not None:
            for old_id in (entry.id, *entry.supersedes):
                promoted_by_old_id[old_id] = entry
    for old_copy in narrow_scope_entries:
        promoted = promoted_by_old_id.get(old_copy.entry.id)
        if promoted is not None:
            why = f"was promoted to {promoted.id[:8]} before"
            yield Change(
                step="promote", kind="remove", path=old_copy.path, entry=old_copy.entry, why=why
            )


def plan_norm_promotion(
    located: Iterable[Located],
    today: date,
    path_of: Callable[[ScopeOf], str | None],
    list_directories: Callable[[], Mapping[str, str]],
) -> tuple[Change, ...]:
    """Plan the moves of rules of the project to institutional memory, where they are norms.

    A norm is a rule that agents are always served, whatever their task. A rule (an entry of type
    `directive`) becomes a norm if changes of `RECURRENCES` different directories stated it. If it
    was promoted before, people have moved it back, so it is not moved again.

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
    candidates = [candidate for candidate in located if _is_norm_candidate(candidate)]
    if not candidates:
        return ()
    directory_by_source = list_directories()
    changes: list[Change] = []
    for candidate in candidates:
        sources = _list_norm_sources(candidate.entry)
        directories = {directory_by_source[name] for name in sources if name in directory_by_source}
        if len(directories) >= RECURRENCES:
            norm = _build_promoted([candidate], today)
            why = f"said in changes of {len(directories)} directories"
            changes += _plan_moves([candidate], norm, target, path, why)
    return tuple(changes)


def _is_norm_candidate(located_entry: Located) -> bool:
    """Return whether an entry is an active directive of the project with enough sources."""
    entry = located_entry.entry
    is_rule = located_entry.scope.name == "project" and entry.type == "directive"
    is_open = entry.status == "active" and entry.promoted_from != "project"
    has_sources = len(_list_norm_sources(entry)) >= RECURRENCES
    return is_rule and is_open and has_sources and _may_be_promoted(entry)


def _list_norm_sources(entry: Entry) -> set[str]:
    return {*entry.occurrences, *(entry.source or "").split()}


def is_repository_independent(entry: Entry, names: Collection[str]) -> bool:
    """Return whether an entry can apply in any repository, and not in one alone.

    An entry that names the repository or a package of it, or that has a number, a path or an
    identifier, does not.

    Args:
        entry: the entry.
        names: names of the repository and of its packages.
    """
    # Names are compared as words, so that the name `memory-ci` is found in the text `Memory CI`.
    letters = [char if char.isalnum() else " " for char in entry.text.lower()]
    text_of_words = f" {''.join(letters)} "
    for name in names:
        name_words = re.findall("[a-z0-9]+", name.lower())
        if f" {' '.join(name_words)} " in text_of_words:
            return False
    return REPOSITORY_SPECIFIC.search(entry.text) is None


def is_personal(entry: Entry) -> bool:
    """Return whether an entry is about the preference of a person."""
    return PERSONAL_PREFERENCE.search(entry.text) is not None


def find_wider_scope(located_entry: Located) -> ScopeOf | None:
    """Return the next wider scope of an entry, or None if it is not promoted from its scope.

    From a task of an agent's job to the session of the job, from a session or a team's directory to
    the project, from the project to all repositories.
    """
    scope_name = located_entry.scope.name
    # A task of a job has the scope `team`, too: its file is below the directory of the job.
    if scope_name == "team" and located_entry.path.startswith(JOBS):
        job = located_entry.path.removeprefix(JOBS).partition("/")[0]
        return ScopeOf("session", job)
    if scope_name in ("team", "session"):
        is_legacy_file = (
            LEGACY_SESSIONS.search(located_entry.path) is not None
        )  # it is never written
        return None if is_legacy_file else ScopeOf("project")
    if scope_name == "project":
        return ScopeOf("global")
    return None


def _may_be_promoted(entry: Entry) -> bool:
    """Return whether an entry may move to a wider scope.

    It must be in force and not contradicted by another entry. It must not be about one phase of
    work, or about what a person likes.
    """
    if entry.status == "retired" or entry.adoption == "rejected" or entry.valid_until is not None:
        return False
    if entry.domain == "task" and entry.phase is not None:
        return False
    is_contradicted = any(relation.kind == "contradicts" for relation in parse_relations(entry))
    return not is_contradicted and not is_personal(entry)


def _find_recurring(
    located_entries: Sequence[Located], target: ScopeOf
) -> Iterator[tuple[Located, ...]]:
    """Yield groups of similar entries that enough sources state, the best entry of each first.

    A source is a change or a session in which the entry was learned. The best entry is the one that
    would stay if all were merged (`survival_key`). An entry is in a group if it is similar to the
    best one, and is in one group at most. A group that has an entry of the target scope is left
    out: the target has it already.

    Args:
        located_entries: the entries, those of the target scope included.
        target: the scope that the groups would be promoted to.
    """
    if len(_list_sources(located_entries)) < RECURRENCES:
        return
    target_ids = {
        located_entry.entry.id for located_entry in located_entries if located_entry.scope == target
    }
    # Only entries that negate the same words and name the same numbers are compared.
    entries_by_claims: defaultdict[object, list[ComparedEntry]] = defaultdict(list)
    for located_entry in sorted(located_entries, key=_rank_survival):
        entry_words = parse_entry_words(located_entry.entry)
        entries_by_claims[entry_words.claims].append(
            ComparedEntry(located_entry, entry_words.words)
        )
    groups: list[tuple[Located, ...]] = []
    for compared_entries in entries_by_claims.values():
        groups += _group_similar(compared_entries, target_ids)
    yield from sorted(groups, key=lambda members: _rank_survival(members[0]))


def _rank_survival(located_entry: Located) -> tuple[object, ...]:
    """Return `survival_key` with the path instead of the texts, which it has at the end."""
    is_unproved, importance, length, entry_id, *_ = survival_key(located_entry)
    return is_unproved, importance, length, entry_id, located_entry.path


def _group_similar(
    compared_entries: Sequence[ComparedEntry], target_ids: Collection[str]
) -> Iterator[tuple[Located, ...]]:
    """Yield groups of similar entries that enough sources state, the best entry of each first.

    Each entry that is in no group yet is compared with all others, and with those that are similar
    it forms a group. `find_partners` compares only when its iterators are consumed, so entries that
    are in a group already cost nothing.

    Args:
        compared_entries: the entries that may be in one group, the best first.
        target_ids: ids of the entries that the target scope has; a group with one is left out.
    """
    grouped_indices: set[int] = set()
    word_sets = [compared.words for compared in compared_entries]
    searches = find_partners(word_sets, range(len(word_sets)), SIMILARITY)
    for best_index, partners in searches:
        if best_index in grouped_indices:
            continue
        similar_indices = [best_index, *sorted(set(partners) - {best_index})]
        if any(
            compared_entries[index].located_entry.entry.id in target_ids
            for index in similar_indices
        ):
            continue
        free_indices = [index for index in similar_indices if index not in grouped_indices]
        members = tuple(compared_entries[index].located_entry for index in free_indices)
        if len(_list_sources(members)) >= RECURRENCES:
            grouped_indices.update(free_indices)
            yield members


def _list_sources(members: Iterable[Located]) -> set[str]:
    """Return the changes and sessions that said entries; for an entry without any, its scope."""
    sources: set[str] = set()
    for located_entry in members:
        sources |= list_occurrences(located_entry.entry) or {located_entry.scope.target}
    return sources


def _build_promoted(members: Sequence[Located], today: date) -> Entry:
    """Return the entry that replaces similar ones in a wider scope.

    It is the first of them, with the counts and the evidence of all. Copies of one id count the
    same uses, so they count once.

    Args:
        members: the similar entries, the best first.
        today: the date of the promotion.
    """
    best = members[0]
    entries = [member.entry for member in members]
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
    for located_entry in members:
        if located_entry.entry.id == survivor.id:
            reason = f"moves up to {target.target}"
        else:
            reason = f"is part of {survivor.id[:8]}, now in {target.target}"
        yield Change(
            step="promote",
            kind="remove",
            path=located_entry.path,
            entry=located_entry.entry,
            why=reason,
        )
    yield Change(step="promote", kind="add", path=path, entry=survivor, why=why)
