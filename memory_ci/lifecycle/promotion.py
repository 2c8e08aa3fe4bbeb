"""Promotion: what several changes or sessions said holds in a wider scope than the one it was learned in.

The way up is team, session, project, global: a task of a job goes up to the session of that job, the directory of a
team and a session go up to the project. What the project is told always to do becomes a norm once changes of several
directories have said so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.compaction import rank
from memory_ci.lifecycle.consolidation import JOBS
from memory_ci.lifecycle.reinforcement import list_occurrences, unite_occurrences
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import said, similar_pairs
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.plan import Change

RECURRENCES = 3
RECURRING = Fraction(
    7999, 10000
)  # Jaccard above this is 0.8 or more, for up to 2000 different words.
PERSONAL = re.compile(
    r"\b(?i:i|we|he|she|they|users?|reviewers?|maintainers?|authors?|team|people|everyone)\s+"
    r"(?:(?:all|both|personally|usually|really|strongly|would|do|does|don't|doesn't|not)\s+)*"
    r"(?:prefers?|likes?|loves?|hates?|dislikes?|enjoys?|wants?|favou?rs?|rather)\b"
    r"|\b[A-Z][a-z]+ (?:personally )?(?:prefers|likes|loves|hates|dislikes|enjoys|wants|favou?rs)\b"
    r"|\b(?i:i|we|they|he|she)'d (?:prefer|like|rather)\b"
    r"|\b(?i:my|our|his|her|their|[a-z]+'s) (?:personal )?(?:preference|favou?rite|taste)\b"
    r"|\b(?i:preferred|preference) (?:by|of)\b"
)  # Somebody prefers: that is a fact about a person, not about the work. `Prefer short names` is a rule.
SPECIFIC = re.compile(
    r"\d|[`@#/\\_]|\w\.\w|\w\(|[a-z][A-Z]"
    r"|\b(?i:this|our|the) (?:repo|repository|project|codebase|package|module|service)\b"
)  # A number, code, a path, a URL, an identifier: what may hold in one repository alone.


LEGACY = re.compile(r"(?:^|/)\.sessions/")  # Memory of before: read, never written.


class GlobalProposal(NamedTuple):
    """An entry for global memory, as it would stand there, and the entries that it is made of."""

    entry: Entry
    merged: tuple[Located, ...]
    why: str


class Promotion(NamedTuple):
    """Changes inside the repository, and what is proposed for the memory outside of it."""

    changes: tuple[Change, ...]
    proposals: tuple[GlobalProposal, ...]


def plan_promotion(
    located: Iterable[Located],
    today: date,
    path_of: Callable[[ScopeOf], str | None],
    names: Collection[str],
) -> Promotion:
    """Moves of what three or more distinct changes or sessions said one scope up: removals, then an addition.
    `path_of` gives the file of a scope, None where it has none; `names` are those of the repository and its packages.
    The best of the entries keeps its id and supersedes the others. What the wider scope says already stays where it is,
    so that planning again on the outcome gives nothing. Global memory lies elsewhere: only agnostic entries are
    proposed for it."""
    changes: list[Change] = []
    proposals: list[GlobalProposal] = []
    places = sorted(located, key=lambda place: (place.entry.id, place.path, place.line))
    moving: defaultdict[ScopeOf, list[Located]] = defaultdict(list)
    for place in places:
        if (wider := wider_scope(place)) is not None and _may_move(place.entry):
            moving[wider].append(place)
    for target in sorted(moving, key=lambda scope: (scope.name, scope.where)):
        path, held = path_of(target), [place for place in places if place.scope == target]
        changes += _remove_left_over(moving[target], held)
        for members in _recurring(moving[target] + held, target):
            entry = _promoted(members, today)
            why = f"said in {len(_said_by(members))} changes or sessions"
            if target.name == "global":
                proposals += (
                    [GlobalProposal(entry, members, why)] if is_agnostic(entry, names) else []
                )
            elif path is not None:
                changes += _moves(members, entry, target, path, why)
    return Promotion(tuple(changes), tuple(proposals))


def _remove_left_over(narrow: Iterable[Located], wide: Iterable[Located]) -> Iterator[Change]:
    """Removals of entries that went up before and stand below still: a person committed half of a killed run."""
    promoted = [place.entry for place in wide if place.entry.promoted_from is not None]
    survivors = {name: entry for entry in promoted for name in (entry.id, *entry.supersedes)}
    for place in narrow:
        survivor = survivors.get(place.entry.id)
        if survivor is not None:
            why = f"went up to {survivor.id[:8]} before"
            yield Change(step="promote", kind="remove", path=place.path, entry=place.entry, why=why)


def plan_norms(
    located: Iterable[Located],
    today: date,
    path_of: Callable[[ScopeOf], str | None],
    folders: Callable[[], Mapping[str, str]],
) -> tuple[Change, ...]:
    """Moves of directives of the project to institutional memory that changes of three different directories said.
    `folders` tells the directory of each merged change by what entries call it (`pr:128`). What came up once stays
    where people put it."""
    target = ScopeOf("institutional")
    path = path_of(target)
    said = {
        place: {*place.entry.occurrences, *(place.entry.source or "").split()} for place in located
    }
    rules = [
        place for place in said if place.scope.name == "project" and place.entry.type == "directive"
    ]
    active = [
        place
        for place in rules
        if place.entry.status == "active" and place.entry.promoted_from != "project"
    ]
    near = [place for place in active if len(said[place]) >= RECURRENCES and _may_move(place.entry)]
    where = folders() if near and path is not None else {}
    changes: list[Change] = []
    for place in near:
        told = {where[ref] for ref in said[place] if ref in where}
        if path is not None and len(told) >= RECURRENCES:
            entry = _promoted([place], today)
            changes += _moves(
                [place], entry, target, path, f"said in changes of {len(told)} directories"
            )
    return tuple(changes)


def is_agnostic(entry: Entry, names: Collection[str]) -> bool:
    """Whether an entry can hold in any repository: it names no place, thing or amount of this one. Doubt means no."""
    text = entry.text
    spelled = "".join(char if char.isalnum() else " " for char in text.lower())
    is_named = any(
        f" {' '.join(re.findall('[a-z0-9]+', name.lower()))} " in f" {spelled} " for name in names
    )
    return not is_named and SPECIFIC.search(text) is None


def is_personal(entry: Entry) -> bool:
    return PERSONAL.search(entry.text) is not None


def wider_scope(place: Located) -> ScopeOf | None:
    """The scope one up; None from where nothing is promoted."""
    if place.scope.name == "team" and place.path.startswith(JOBS):
        return ScopeOf("session", place.path.removeprefix(JOBS).partition("/")[0])
    if place.scope.name in ("team", "session"):
        return None if LEGACY.search(place.path) else ScopeOf("project")
    return ScopeOf("global") if place.scope.name == "project" else None


def _may_move(entry: Entry) -> bool:
    """Not what is over, disputed, bound to a phase of the work, or a matter of taste."""
    is_over = (
        entry.status == "retired" or entry.adoption == "rejected" or entry.valid_until is not None
    )
    is_passing = entry.domain == "task" and entry.phase is not None
    is_disputed = any(relation.kind == "contradicts" for relation in relations_of(entry))
    return not (is_over or is_passing or is_disputed or is_personal(entry))


def plan_shared(
    shared: Mapping[str, Sequence[Located]], known: Iterable[Located], least: int = RECURRENCES
) -> tuple[tuple[frozenset[str], tuple[Located, ...]], ...]:
    """Groups of entries that say the same in `least` repositories, and `known` does not: (who says so, the entries).
    `shared` has the entries by the id of their repository, which the scope of each that is returned names."""
    target = ScopeOf("global")
    group = [
        Located(place.entry, f"{name}/{place.path}", place.line, ScopeOf("team", name))
        for name, places in sorted(shared.items())
        for place in places
        if _may_move(place.entry)
    ]
    group += [Located(place.entry, place.path, place.line, target) for place in known]

    def where(places: Iterable[Located]) -> set[str]:
        return {place.scope.where for place in places}

    return tuple(
        (frozenset(where(members)), members) for members in _recurring(group, target, where, least)
    )


def _recurring(
    group: Sequence[Located],
    target: ScopeOf,
    said_by: Callable[[Iterable[Located]], set[str]] | None = None,
    least: int = RECURRENCES,
) -> Iterator[tuple[Located, ...]]:
    """Entries alike from enough sessions, the best first; each is compared with the best itself, and taken once."""
    said_by = said_by or _said_by
    spoken = [said(place.entry) for place in group]
    near: defaultdict[int, list[int]] = defaultdict(list)
    for one, other in similar_pairs([text.words for text in spoken], RECURRING):
        if spoken[one].claims == spoken[other].claims:
            near[one].append(other)
            near[other].append(one)
    known = {place.entry.id for place in group if place.scope == target}
    taken: set[int] = set()
    order = [(*rank(place)[:4], place.path) for place in group]
    for best in sorted(range(len(group)), key=order.__getitem__):
        alike = [best, *sorted(near[best], key=order.__getitem__)]
        is_known = any(group[at].entry.id in known for at in alike)
        members = [at for at in alike if at not in taken]
        if best in taken or is_known or len(said_by(group[at] for at in members)) < least:
            continue
        taken.update(members)
        yield tuple(group[at] for at in members)


def _said_by(places: Iterable[Located]) -> set[str]:
    """The changes and sessions that said one of these; where none is known, the places where they stand."""
    return set().union(*(list_occurrences(place.entry) or {place.scope.target} for place in places))


def _promoted(members: Sequence[Located], today: date) -> Entry:
    """The best entry with what the others count and prove; copies of one id count once."""
    best = members[0]
    entries = [place.entry for place in members]
    counts = {
        entry.id: entry.reinforcement_count
        for entry in sorted(entries, key=lambda one: one.reinforcement_count)
    }
    old = {name for entry in entries for name in (entry.id, *entry.supersedes)} - {best.entry.id}
    return replace(
        best.entry,
        reinforcement_count=sum(counts.values()),
        last_reinforced=max(entry.last_reinforced for entry in entries),
        created_at=min((entry.created_at for entry in entries if entry.created_at), default=None),
        supersedes=tuple(sorted(old)),
        evidence=tuple(dict.fromkeys(line for entry in entries for line in entry.evidence)),
        occurrences=unite_occurrences(best.entry, entries),
        relations=tuple(line for line in best.entry.relations if old.isdisjoint(line.split())),
        promoted_from=best.scope.target,
        promoted_at=today,
    )


def _moves(
    members: Iterable[Located], survivor: Entry, target: ScopeOf, path: str, why: str
) -> Iterator[Change]:
    """The removal of each of the members, then the addition of what stands for them."""
    for one in members:
        gone = (
            "moves up to"
            if one.entry.id == survivor.id
            else f"is part of {survivor.id[:8]}, now in"
        )
        yield Change(
            step="promote",
            kind="remove",
            path=one.path,
            entry=one.entry,
            why=f"{gone} {target.target}",
        )
    yield Change(step="promote", kind="add", path=path, entry=survivor, why=why)
