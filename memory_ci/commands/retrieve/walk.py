"""Walk: the entries one relation away from those that a task's words found, after them and in what room they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.commands.retrieve.options import SearchRequest
from memory_ci.commands.retrieve.ranking import judge_hits
from memory_ci.commands.retrieve.text import entry_cost
from memory_ci.lifecycle.relations import parse_relation
from memory_ci.lifecycle.similarity import words_of
from memory_ci.memory.edits import with_edits
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.search.database import Index
from memory_ci.search.neighbours import Naming, find_by_ids, find_similar, list_naming
from memory_ci.search.rank import fit

STEP = 0.5
"""What one step costs: an entry one step away scores half of the hit's score x the weight of what leads to it."""

LOOKED_AROUND = 10
"""Of so many of the best hits the similar entries are looked for; what entries state of each other, of all."""

BY_WORDS = "Similar entries were found by their words: the index has no vectors to compare."

STATED = {
    "supports": ("supports it", "supported by it"),
    "contradicts": ("contradicts it", "contradicted by it"),
    "duplicates": ("duplicates it", "duplicated by it"),
}
"""What is said of an entry that states a relation to a hit, and of one that a hit states a relation to."""


class Way(NamedTuple):
    """How an entry is reached: from which hit, by what, and what that counts."""

    hit: Hit
    what: str
    weight: float

    @property
    def score(self) -> float:
        return self.hit.score * STEP * self.weight


def add_related(
    answer: Retrieval,
    workspace: Workspace,
    index: Index,
    asked: SearchRequest,
    room: int,
    *,
    tree: str | None,
    stale: bool,
) -> Retrieval:
    """The answer with what is one step away from its hits, in the `room` of characters that all of them share.

    Only what the query itself could have found is reached: the same filters hold, and what was withheld stays so.
    Hits keep their places and their room. Cited code is judged in `tree`, as that of the hits.
    """
    ways, is_by_words = _find_ways(index, answer, asked)
    reached = []
    for id_, place in find_by_ids(index, ways.keys(), **asked.filters).items():
        way = ways[id_]
        origin = way.hit.located.entry.id[:8]
        factors = ((f"score of {origin}", way.hit.score), ("step", STEP), ("weight", way.weight))
        reached.append(Hit(place, way.score, factors, related=f"related to {origin}: {way.what}"))
    reached.sort(key=_order)

    def weigh(truth: Callable[[Entry], float]) -> list[Hit]:
        factors = [(hit, truth(hit.located.entry)) for hit in reached]
        weighed = (
            replace(hit, score=hit.score * factor, factors=(*hit.factors, ("truth", factor)))
            for hit, factor in factors
            if factor > 0
        )
        return sorted(weighed, key=_order)

    hits, gone = judge_hits(workspace, reached, tree, weigh, stale=stale)
    best = with_edits(workspace, hits[: max(0, asked.limit - len(answer.hits))], tree)
    by_type = dict(workspace.config.retrieve.type_max_chars)
    for hit in (
        answer.hits
    ):  # What they take of the room, and of that of each type, is not left for others.
        cost, kind = entry_cost(hit), hit.located.entry.type
        room -= cost
        if kind in by_type:
            by_type[kind] -= cost
    kept, dropped = fit(best, room, entry_cost, by_type)
    return replace(
        answer,
        hits=(*answer.hits, *kept),
        hits_dropped=(*answer.hits_dropped, *dropped),
        withheld=(*answer.withheld, *gone),
        notes=(*answer.notes, BY_WORDS) if is_by_words else answer.notes,
    )


def _find_ways(
    index: Index, answer: Retrieval, asked: SearchRequest
) -> tuple[dict[str, Way], bool]:
    """(the best way to each entry that is reached, by id; whether words had to do for vectors). Of several ways to an
    entry the one that counts most is taken, of equal ones the one from the better hit."""
    naming = list_naming(index, **asked.filters)
    around = answer.hits[:LOOKED_AROUND]
    similar = find_similar(index, [hit.located for hit in around], words_of, **asked.filters)
    names = {"vectors": "cosine", "words": "words in common"}
    alike = (
        (
            near.located.entry.id,
            Way(hit, f"similar to it ({names[found.basis]} {near.weight:.2f})", near.weight),
        )
        for hit, found in zip(around, similar, strict=True)
        for near in found.near
    )
    # What another entry has replaced, whether or not that one may answer: a norm, or a type that was not asked for.
    # Jobs stay apart all the same: what one of them noted replaces nothing for another.
    session, is_open = asked.filters.get("session"), asked.filters.get("all_sessions", False)
    replacing = list_naming(index, scopes=None, session=session, all_sessions=is_open)
    # And what is in the answer already, or was left out of it for a reason.
    hits = (*answer.hits, *answer.hits_dropped, *(one.hit for one in answer.withheld))
    barred = {
        *(older for one in replacing for older in one.supersedes if older != one.id),
        *(hit.located.entry.id for hit in hits),
        *(norm.entry_id for norm in (*answer.norms, *answer.norms_dropped)),
    }
    ways: dict[str, Way] = {}
    for id_, way in (*_stated_ways(answer.hits, naming), *alike):
        if id_ not in barred and (id_ not in ways or way.score > ways[id_].score):
            ways[id_] = way
    return ways, any(found.basis == "words" for found in similar)


def _stated_ways(hits: Sequence[Hit], naming: Sequence[Naming]) -> Iterator[tuple[str, Way]]:
    """The ways that entries state: from a hit to what it names, and from a hit to what names it."""
    by_id = {hit.located.entry.id: hit for hit in hits}
    for one in naming:
        for relation in filter(None, map(parse_relation, one.relations)):
            to_it, by_it = STATED[relation.kind]
            if relation.id in by_id:
                yield one.id, Way(by_id[relation.id], to_it, 1.0)
            if one.id in by_id:
                yield relation.id, Way(by_id[one.id], by_it, 1.0)
        for older in one.supersedes:
            if older in by_id:
                yield one.id, Way(by_id[older], "supersedes it", 1.0)


def _order(hit: Hit) -> tuple[float, int, str]:
    entry = hit.located.entry
    return -hit.score, -entry.last_reinforced.toordinal(), entry.id
