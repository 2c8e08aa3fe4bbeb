"""Compaction: one id in one place, like entries in one, retired ones out; and retirement. git is the archive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from math import comb
from typing import TypeVar

from msgspec.structs import replace

from memory_ci.lifecycle.fold import is_proved
from memory_ci.lifecycle.prominence import effective_importance, priority_floor
from memory_ci.lifecycle.reinforcement import unite_occurrences
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import said, similar_pairs, title_stems
from memory_ci.records.entry import Entry, EntryType, Located, Phase, ScopeName
from memory_ci.records.plan import Change

# Of one id in several places the widest stays: promotion moved it up, and a merge brought the old place back.
WIDTHS: Mapping[ScopeName, int] = {
    "institutional": 0,
    "global": 1,
    "project": 2,
    "session": 3,
    "team": 4,
}
RULES: frozenset[EntryType] = frozenset(
    ("directive", "procedural")
)  # One title is one rule, whatever its reason.
MORE_WORDS = Fraction(
    7499, 10000
)  # Of two titles, one of which has all words of the other, 3 in 4 are shared.
T = TypeVar("T")
Planned = tuple[Located, Change]  # A change and where the entry that it is about stands now.


def plan_compaction(
    located: Sequence[Located],
    older: Collection[Located] = (),
    same: Collection[frozenset[str]] = (),
) -> tuple[Change, ...]:
    """Updates of the entries that stay and removals of the others; the same for any order of `located`.
    `located` are entries of files that may be rewritten: no inbox fragments, nothing outside of the repository. `older`
    are those of which history says that a copy of the same id replaced them. Copies of one id that say different
    things, and are no versions of each other, stay as they are. `same` are ids of entries of which a model says that
    they say the same. Every id is afterwards an entry, or in the `supersedes` of one, unless a copy of it was retired.
    Doing the changes and planning again gives none."""
    live = {
        entry_id: copies for entry_id, copies in _by_id(located).items() if _is_one(copies, older)
    }
    # By whichever copy says so: were a tombstone taken out alone, an older active copy would come back to life.
    retired = {place.entry.id for place in located if place.entry.status == "retired"} & live.keys()
    planned = [_removal(place, "retired") for entry_id in retired for place in live.pop(entry_id)]
    for copies in live.values():
        planned += [_removal(place, f"stands in {copies[0].path}") for place in copies[1:]]
    clusters = list(_clusters([_unite(copies, older) for copies in live.values()]))
    for members in _joined(clusters, same):
        survivor, *others = members
        planned += [
            _removal(live[other.entry.id][0], f"part of {survivor.entry.id[:8]}")
            for other in others
        ]
        planned += _update(live[survivor.entry.id], members)
    return tuple(change for _, change in sorted(planned, key=_turn))


def list_unlike(located: Iterable[Located]) -> tuple[tuple[Located, ...], ...]:
    """The copies of each id under which different things are said."""
    return tuple(tuple(copies) for copies in _by_id(located).values() if not _is_one(copies, ()))


def _by_id(located: Iterable[Located]) -> dict[str, list[Located]]:
    copies: dict[str, list[Located]] = defaultdict(list)
    for place in sorted(
        located, key=lambda place: (WIDTHS[place.scope.name], place.path, place.line)
    ):
        copies[place.entry.id].append(place)
    return copies


def _is_one(copies: Sequence[Located], older: Collection[Located]) -> bool:
    """Whether the copies of one id are one learning: each is like every other, but for those that another replaced."""
    if len(copies) == 1:
        return True
    spoken = {said(place.entry) for place in copies if place not in older}
    texts = [text.words for text in spoken]
    is_alike = len({text.claims for text in spoken}) == 1 and len(similar_pairs(texts)) == comb(
        len(texts), 2
    )
    kept = {key for key, _ in copies[0].entry.extra}
    return is_alike and all(kept.issuperset(dict(place.entry.extra)) for place in copies)


def _clusters(places: Iterable[Located]) -> Iterator[list[Located]]:
    """The places in groups that become one entry each, the survivor first. Only entries of one file, one type, one
    validity and one adoption are compared, and only if they make the same claims. An entry is always compared with the
    survivor itself: a chain of likenesses does not make its ends alike."""
    groups: dict[object, list[tuple[Located, frozenset[str]]]] = defaultdict(list)
    for place in sorted(places, key=rank):
        entry, (words, claims) = place.entry, said(place.entry)
        if entry.status != "retired":
            groups[place.path, entry.type, entry.adoption, entry.valid_until, claims].append(
                (place, words)
            )
        else:
            yield [place]
    for group in groups.values():
        yield from _split(group)


def _split(group: Sequence[tuple[Located, frozenset[str]]]) -> Iterator[list[Located]]:
    """The clusters of a group, best entry first: each takes in what is like it and not yet taken."""
    views = [_neighbours([words for _, words in group])]
    if group[0][0].entry.type in RULES:
        views.append(_neighbours([title_stems(place.entry) for place, _ in group], is_part=True))
    taken: set[str] = set()
    for at, (place, _) in enumerate(group):
        if place.entry.id not in taken:
            taken.add(place.entry.id)
            like = {other for near in views for other in near(at)}
            free = (
                group[other][0] for other in sorted(like) if group[other][0].entry.id not in taken
            )
            members = _take_in(place, free)
            taken |= {member.entry.id for member in members}
            yield members


def _neighbours(
    texts: Sequence[frozenset[str]], *, is_part: bool = False
) -> Callable[[int], Iterator[int]]:
    """What gives for the place of a text the places of those like it, its own among them if it says anything.
    `is_part`: like is what has all words of the other, and few more; one that has another word instead is not."""
    saying: dict[frozenset[str], list[int]] = defaultdict(list)
    for at, text in enumerate(texts):
        saying[text].append(at)
    known = tuple(saying)
    near = {text: [text] if text else [] for text in known}
    for one, other in similar_pairs(known, MORE_WORDS) if is_part else similar_pairs(known):
        if not is_part or known[one] <= known[other] or known[other] <= known[one]:
            near[known[one]].append(known[other])
            near[known[other]].append(known[one])
    return lambda at: (other for words in near[texts[at]] for other in saying[words])


def _joined(
    clusters: Sequence[list[Located]], same: Collection[frozenset[str]]
) -> Iterator[list[Located]]:
    """The clusters, those that hold entries of one set of `same` as one, where they could be one entry."""
    joined: dict[object, list[Located]] = {}
    for members in clusters:
        entry, ids = members[0].entry, {member.entry.id for member in members}
        named = next((group for group in same if group & ids), None)
        is_open = named is not None and entry.status != "retired"
        key = (named, members[0].path, entry.adoption, entry.valid_until) if is_open else entry.id
        joined.setdefault(key, []).extend(members)
    for places in joined.values():
        best, *others = sorted(places, key=rank)
        members = _take_in(best, others)
        left = [place for place in others if place not in members]
        yield members
        yield from ([place] for place in left)


def _take_in(survivor: Located, others: Iterable[Located]) -> list[Located]:
    """The survivor and the others that contradict no member by their relations, and say nothing it could not keep."""
    members = [survivor]
    names, opposed = _names_and_opposed(survivor.entry)
    unknown = {key for key, _ in survivor.entry.extra}
    for other in others:
        own, against = _names_and_opposed(other.entry)
        if (
            opposed.isdisjoint(own)
            and names.isdisjoint(against)
            and unknown.issuperset(dict(other.entry.extra))
        ):
            members.append(other)
            names |= own
            opposed |= against
    return members


def _names_and_opposed(entry: Entry) -> tuple[set[str], set[str]]:
    """The ids that an entry stands for, and those that it contradicts."""
    opposed = {relation.id for relation in relations_of(entry) if relation.kind == "contradicts"}
    return {entry.id, *map(str.lower, entry.supersedes)}, opposed - {entry.id}


def _unite(copies: Sequence[Located], older: Collection[Located]) -> Located:
    """The first of several places of one id, with what all copies say. The count is of the same uses: the highest."""
    if len(copies) == 1:
        return copies[0]
    ranked = [
        place.entry for place in sorted(copies, key=lambda place: (place in older, *rank(place)))
    ]
    merged = _merge(copies[0].entry, ranked, max)
    origin = {
        name: _first(getattr(entry, name) for entry in ranked)
        for name in ("source", "session", "engine")
    }
    return replace(copies[0], entry=replace(merged, **origin))


def _merge(kept: Entry, ranked: Sequence[Entry], count: Callable[[Iterable[int]], int]) -> Entry:
    """`kept` with what the entries say together, best one first; its type and its unknown keys stay its own. Retirement
    by stage takes `task` entries of one phase: the result is only open to it where all of them were."""
    ids = {entry.id for entry in ranked}
    phases = {entry.phase for entry in ranked}
    return replace(
        kept,
        title=ranked[0].title,
        body=ranked[0].body,
        domain="team" if any(entry.domain == "team" for entry in ranked) else "task",
        phase=kept.phase if len(phases) == 1 else None,
        status="compacted" if any(entry.status == "compacted" for entry in ranked) else "active",
        importance=max(entry.importance for entry in ranked),
        priority=max((entry.priority for entry in ranked), key=priority_floor),
        reinforcement_count=count(entry.reinforcement_count for entry in ranked),
        last_reinforced=max(entry.last_reinforced for entry in ranked),
        created_at=_earliest(entry.created_at for entry in ranked),
        occurred_at=_earliest(entry.occurred_at for entry in ranked),
        valid_until=_earliest(entry.valid_until for entry in ranked),
        supersedes=_union(
            (old for old in (entry.id, *entry.supersedes) if old != kept.id) for entry in ranked
        ),
        evidence=_union(entry.evidence for entry in ranked),
        occurrences=unite_occurrences(kept, ranked),
        cites=_union(entry.cites for entry in ranked),
        aka=_first(entry.aka for entry in ranked),
        relations=_union(
            (r for r in entry.relations if ids.isdisjoint(r.split()[1:])) for entry in ranked
        ),
        adoption=_first(entry.adoption for entry in ranked),
        instead=_first(entry.instead for entry in ranked),
    )


def rank(place: Located) -> tuple[bool, float, int, str, str, str]:
    """The order in which entries survive: those that are proved, the most important, then the longest, then by id. What
    is proved lends its evidence to no other words. Copies of one id that say the same are told apart by nothing here:
    they keep the order of their places."""
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


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _union(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for items in lists for item in items))


def _update(copies: Sequence[Located], members: Sequence[Located]) -> list[Planned]:
    """The update of the survivor, if anything came to it; `members` begins with it."""
    place, others = copies[0], members[1:]
    entry = (
        _merge(members[0].entry, [member.entry for member in members], sum)
        if others
        else members[0].entry
    )
    if entry == place.entry:
        return []
    why = [f"one of {len(copies)} copies"] if len(copies) > 1 else []
    why += [f"merged with {', '.join(other.entry.id[:8] for other in others)}"] if others else []
    return [
        (
            place,
            Change(step="compact", kind="update", path=place.path, entry=entry, why="; ".join(why)),
        )
    ]


def _removal(place: Located, why: str) -> Planned:
    return place, Change(step="compact", kind="remove", path=place.path, entry=place.entry, why=why)


def _turn(planned: Planned) -> tuple[str, bool, int, str]:
    """By file: updates from the top, then removals from the bottom, as each takes out the last entry of its id."""
    place, change = planned
    is_removal = change.kind == "remove"
    return place.path, is_removal, -place.line if is_removal else place.line, place.entry.id


KEPT = ("pin", "permanent")  # Priorities that only a person gives, and only a person takes back.


def plan_stage_retirement(
    located: Iterable[Located], ended: Phase, today: date
) -> tuple[Change, ...]:
    """Retire the task entries of the phase that has ended, in every scope; a compacted one is like an active one. What
    the team knows outlives a stage, and so does what a person pinned. Of what is retired already nothing changes."""
    why = f"the stage {ended} ended, seen {today.isoformat()}"
    of_stage = (
        place for place in located if place.entry.domain == "task" and place.entry.phase == ended
    )
    return tuple(retire(place, why) for place in of_stage if may_retire(place.entry))


def may_retire(entry: Entry) -> bool:
    return entry.status != "retired" and entry.priority not in KEPT


def retire(place: Located, why: str) -> Change:
    entry = replace(place.entry, status="retired")
    return Change(step="retire", kind="update", path=place.path, entry=entry, why=why)
