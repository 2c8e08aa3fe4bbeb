"""Corrections first: what corrects an entry comes before it, and what supersedes it comes instead of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit, Withheld

Ids = Iterable[str]


def put_corrections_first(
    hits: Sequence[Hit], contradicted: Callable[[Entry], Ids]
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(what is served, what is superseded), of hits with an id each, best first.

    A correction takes the best place among its own and those of what it corrects: the entries it supersedes, also by
    way of others, and, if its type is corrective, those that it contradicts, which stay behind it. Entries that
    supersede one another in a circle all stay: nobody can say which of them holds.
    """
    places = {hit.located.entry.id: place for place, hit in enumerate(hits)}
    olders = {hit.located.entry.id: _known(hit.located.entry.supersedes, places) for hit in hits}
    reached = {id_: _reach(id_, olders) for id_ in _newest(olders)}
    superseded = {older: newest for newest, ids in reached.items() for older in ids}

    def order(hit: Hit) -> tuple[int, int]:
        entry = hit.located.entry
        answered = contradicted(entry) if entry.type == "corrective" else ()
        own = places[entry.id]
        best = min([own, *(places[id_] for id_ in (*reached.get(entry.id, ()), *_known(answered, places)))])
        return best, own if best == own else -1

    served = [hit for hit in hits if hit.located.entry.id not in superseded]
    withheld = [(hit, superseded.get(hit.located.entry.id)) for hit in hits]
    return sorted(served, key=order), tuple(Withheld(hit, f"superseded by {by}") for hit, by in withheld if by)


def _known(ids: Ids, places: Mapping[str, int]) -> list[str]:
    return [id_ for id_ in ids if id_ in places]


def _newest(olders: Mapping[str, Ids]) -> list[str]:
    """The ids that nothing supersedes."""
    superseded = {older for ids in olders.values() for older in ids}
    return [id_ for id_ in olders if id_ not in superseded]


def _reach(start: str, olders: Mapping[str, Ids]) -> frozenset[str]:
    """What `start` supersedes, by whatever way; never itself."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = set(olders[waiting.pop()]) - found - {start}
        found |= fresh
        waiting.extend(fresh)
    return frozenset(found)
