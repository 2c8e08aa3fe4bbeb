"""Entries that are similar to an entry, and entries that name others. Computed, never stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple, Unpack

from memory_ci.records.entry import Entry, Located
from memory_ci.search.database import Index
from memory_ci.search.rows import read_entry_row, text_hash, unpack_front
from memory_ci.search.search import (
    COLUMNS,
    RANKED_SCOPES,
    SEARCHED_STATUSES,
    Filters,
    build_filter,
    search,
)
from memory_ci.search.vectors import find_nearest_to_texts
from memory_ci.text import jaccard

MAX_SIMILAR = 3  # Similar entries that are returned.
MIN_COSINE = 0.80  # From this cosine on entries are similar (Crewship).
MIN_JACCARD = 0.45
"""From this Jaccard index on entries are similar where there are no vectors
(docs/serving.md#relations)."""

NEAREST = 16
"""Nearest vectors that are read: the entry itself is among them, and its copies in other files."""

CANDIDATES = 100  # Entries whose words are compared.
MAX_TERMS = 40  # Words of the entry by which they are found, the longest first.

Basis = Literal["vectors", "words"]
Words = Callable[[Entry], AbstractSet[str]]
FIND = f"""
SELECT {COLUMNS} FROM entries AS e WHERE e.id IN (SELECT value FROM json_each(:ids)) AND {{filter}}
ORDER BY e.path DESC, e.line DESC
"""  # noqa: S608
LIST_NAMING = "SELECT e.id, e.front FROM entries AS e WHERE {filter} ORDER BY e.id, e.path, e.line"


class Neighbour(NamedTuple):
    """An entry and its similarity to another one, in [0, 1]."""

    located: Located
    weight: float


class Similar(NamedTuple):
    """The entries that are similar to an entry, nearest first, and how they were compared."""

    neighbours: tuple[Neighbour, ...]
    basis: Basis


class Naming(NamedTuple):
    """An entry that names others.

    Attributes:
        id: its id.
        relations: its relations, as written.
        supersedes: the ids of the entries that it supersedes.
    """

    id: str
    relations: tuple[str, ...]
    supersedes: tuple[str, ...]


def find_similar(
    index: Index, located_entries: Sequence[Located], list_words: Words, **filters: Unpack[Filters]
) -> tuple[Similar, ...]:
    """Return for each entry at most three other entries that are similar to it.

    Vectors are compared if the entry and nearly all others have one; else words, by their Jaccard
    index.

    Args:
        index: the index.
        located_entries: the entries.
        list_words: returns the words of an entry that are compared.
        filters: conditions on the similar entries, as for `search`.
    """
    hashes = [text_hash(located.entry) for located in located_entries]
    nearest_by_hash = find_nearest_to_texts(index, hashes, NEAREST, **filters)
    results: list[Similar] = []
    for located, entry_hash in zip(located_entries, hashes, strict=True):
        nearest = nearest_by_hash.get(entry_hash)
        if nearest is not None and nearest.is_covering:
            candidates = [Neighbour(near.located, near.cosine) for near in nearest.entries]
            neighbours = _choose_best(located, candidates, MIN_COSINE)
            results.append(Similar(neighbours, "vectors"))
        else:
            results.append(_compare_words(index, located, list_words, filters))
    return tuple(results)


def find_by_ids(
    index: Index, ids: Collection[str], **filters: Unpack[Filters]
) -> dict[str, Located]:
    """Return the entries of these ids; of several with one id the first by path and line.

    Args:
        index: the index.
        ids: the ids.
        filters: conditions on the entries, as for `search`.
    """
    condition, values = _build_filter(filters)
    values["ids"] = json.dumps(sorted(ids))
    # In descending order the first by path and line is the last to be put into the mapping.
    located_entries = index.read(FIND.format(filter=condition), values, read_entry_row)
    return {located.entry.id: located for located in located_entries}


def list_entries_with_relations(index: Index, **filters: Unpack[Filters]) -> list[Naming]:
    """Return the entries that state relations to others or supersede others, in order of ids.

    Args:
        index: the index.
        filters: conditions on the entries, as for `search`.
    """
    condition, values = _build_filter(filters)
    all_entries = index.read(LIST_NAMING.format(filter=condition), values, _read_naming)
    return [entry for entry in all_entries if entry.relations or entry.supersedes]


def _build_filter(filters: Filters) -> tuple[str, dict[str, object]]:
    """Return the condition of filters with the defaults of `search`."""
    return build_filter({"scopes": RANKED_SCOPES, "statuses": SEARCHED_STATUSES, **filters})


def _read_naming(row: tuple[str, bytes]) -> Naming:
    entry_id, packed_front = row
    front: Any = unpack_front(packed_front)
    return Naming(entry_id, front.relations, front.supersedes)


def _compare_words(index: Index, located: Located, list_words: Words, filters: Filters) -> Similar:
    """Return the entries with the most words in common with an entry, by Jaccard index.

    The index finds a hundred candidates by the longest words of the entry.

    Args:
        index: the index.
        located: the entry.
        list_words: returns the words of an entry that are compared.
        filters: conditions on the similar entries, as for `search`.
    """
    entry_words = list_words(located.entry)
    terms = sorted(entry_words, key=lambda word: (-len(word), word))[:MAX_TERMS]
    candidates: list[Neighbour] = []
    for match in search(index, terms, depth=CANDIDATES, **filters):
        similarity = jaccard(entry_words, list_words(match.located.entry))
        candidates.append(Neighbour(match.located, similarity))
    return Similar(_choose_best(located, candidates, MIN_JACCARD), "words")


def _choose_best(
    located: Located, candidates: Collection[Neighbour], min_similarity: float
) -> tuple[Neighbour, ...]:
    """Return the most similar candidates, without the entry itself and its copies in other files.

    Args:
        located: the entry.
        candidates: other entries, with their similarity; of several with one id the best counts.
        min_similarity: the least similarity of a neighbour.
    """
    best_by_id: dict[str, Neighbour] = {}
    for candidate in sorted(candidates, key=_sort_key):
        entry_id = candidate.located.entry.id
        if candidate.weight >= min_similarity and entry_id != located.entry.id:
            best_by_id.setdefault(entry_id, candidate)
    return tuple(best_by_id.values())[:MAX_SIMILAR]


def _sort_key(neighbour: Neighbour) -> tuple[float, str, str, int]:
    located = neighbour.located
    return -neighbour.weight, located.entry.id, located.path, located.line
