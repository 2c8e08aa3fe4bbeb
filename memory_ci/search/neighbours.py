"""Neighbours: the entries that are like an entry, and those that name others. Derived when asked, never stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Literal, NamedTuple, Unpack

from memory_ci.records.entry import Entry, Located
from memory_ci.search.database import Index
from memory_ci.search.rows import located_of, text_hash, unpack_front
from memory_ci.search.search import (
    COLUMNS,
    RANKED_SCOPES,
    SHOWN_STATUSES,
    Filters,
    build_filter,
    search,
)
from memory_ci.search.vectors import LEAST_COVERAGE, nearest_to
from memory_ci.text import jaccard

MOST = 3
LEAST_COSINE = (
    0.80  # Similar to an entry are the three others nearest to it, from this cosine on (Crewship).
)
LEAST_JACCARD = 0.45
"""From which share of common words on an entry is similar where there are no vectors (docs/relations.md)."""

NEAREST = 16
"""Vectors that are looked at: the entry itself is among the nearest, and so are copies of it in other files."""

CANDIDATES = 100
MAX_TERMS = 40
"""Entries whose words are compared, and the words of the entry by which they are found, the longest first."""

Basis = Literal["vectors", "words"]
Words = Callable[[Entry], AbstractSet[str]]
FIND = f"SELECT {COLUMNS} FROM entries AS e WHERE e.id IN (SELECT value FROM json_each(:ids)) AND {{filter}}"  # noqa: S608
LIST_NAMING = "SELECT e.id, e.front FROM entries AS e WHERE {filter} ORDER BY e.id, e.path, e.line"


class Neighbour(NamedTuple):
    """An entry, and how like another it is, in [0, 1]."""

    located: Located
    weight: float


class Similar(NamedTuple):
    """The entries that are like one, nearest first, and what they were compared by."""

    near: tuple[Neighbour, ...]
    basis: Basis


class Naming(NamedTuple):
    """An entry that names others: its relations as they are written, and what it supersedes."""

    id: str
    relations: tuple[str, ...]
    supersedes: tuple[str, ...]


def find_similar(
    index: Index, places: Sequence[Located], words: Words, **filters: Unpack[Filters]
) -> tuple[Similar, ...]:
    """For each entry at most three others like it, of those that `search` would look at with the same filters. Vectors
    are compared if the entry has one and nearly all others have; else `words` of each, by their Jaccard index."""
    names = [text_hash(place.entry) for place in places]
    nearest = nearest_to(index, names, NEAREST, **filters)
    return tuple(
        Similar(_best(place, [Neighbour(*one) for one in near.near], LEAST_COSINE), "vectors")
        if (near := nearest.get(name)) is not None and near.seen >= LEAST_COVERAGE * near.total
        else _by_words(index, place, words, filters)
        for place, name in zip(places, names, strict=True)
    )


def find_by_ids(
    index: Index, ids: Collection[str], **filters: Unpack[Filters]
) -> dict[str, Located]:
    """The entries of these ids that `search` would look at with the same filters, each where it stands first."""
    condition, values = _shown(filters)
    bound = {**values, "ids": json.dumps(sorted(ids))}
    rows = index.read(
        f"{FIND.format(filter=condition)} ORDER BY e.path DESC, e.line DESC", bound, located_of
    )
    return {place.entry.id: place for place in rows}


def list_naming(index: Index, **filters: Unpack[Filters]) -> list[Naming]:
    """Of the entries that `search` would look at with the same filters those that name others, in order of ids."""
    condition, values = _shown(filters)
    found = index.read(LIST_NAMING.format(filter=condition), values, _naming)
    return [one for one in found if one.relations or one.supersedes]


def _shown(filters: Filters) -> tuple[str, dict[str, object]]:
    return build_filter({"scopes": RANKED_SCOPES, "statuses": SHOWN_STATUSES, **filters})


def _naming(row: tuple[str, bytes]) -> Naming:
    front: Any = unpack_front(row[1])
    return Naming(row[0], front.relations, front.supersedes)


def _by_words(index: Index, place: Located, words: Words, filters: Filters) -> Similar:
    """Of the hundred entries that share most words with this one by BM25 those of the highest Jaccard index."""
    own = words(place.entry)
    terms = sorted(own, key=lambda word: (-len(word), word))[:MAX_TERMS]
    matches = search(index, terms, depth=CANDIDATES, **filters)
    found = [
        Neighbour(match.located, jaccard(own, words(match.located.entry))) for match in matches
    ]
    return Similar(_best(place, found, LEAST_JACCARD), "words")


def _best(place: Located, found: Collection[Neighbour], least: float) -> tuple[Neighbour, ...]:
    """The nearest from `least` on, without the entry itself; an id that stands in two files counts once."""
    ranked = sorted(
        found,
        key=lambda one: (-one.weight, one.located.entry.id, one.located.path, one.located.line),
    )
    others = {one.located.entry.id: one for one in reversed(ranked) if one.weight >= least}
    others.pop(place.entry.id, None)
    return tuple(islice((one for one in ranked if others.get(one.located.entry.id) is one), MOST))
