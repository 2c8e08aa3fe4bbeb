"""Walk: the entries one relation away from those that a task's words found, after them and in what room they leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.flows.edits import with_edits
from memory_ci.flows.serve.options import SearchRequest
from memory_ci.flows.serve.ranking import may_be_judged
from memory_ci.flows.workspace import Workspace
from memory_ci.index.database import Index
from memory_ci.index.neighbours import Naming, find_by_ids, find_similar, list_naming
from memory_ci.lifecycle.relations import parse_relation
from memory_ci.lifecycle.similarity import words_of
from memory_ci.records.config import Config
from memory_ci.records.entry import Located
from memory_ci.records.retrieval import Hit, Retrieval, Withheld
from memory_ci.rendering.context import entry_cost
from memory_ci.retrieval.rank import fit

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


class RelatedEntries(NamedTuple):
    """The best way to each entry that is reached, by id, and whether words had to do for vectors."""

    ways: Mapping[str, Way]
    is_by_words: bool


def add_related(
    answer: Retrieval,
    workspace: Workspace,
    index: Index,
    asked: SearchRequest,
    room: int,
    *,
    tree: str | None,
    is_stale_shown: bool,
) -> Retrieval:
    """The answer with what is one step away from its hits, in the `room` of characters that all of them share.

    Only what the query itself could have found is reached: the same filters hold, and what was withheld stays so.
    Hits keep their places and their room. Cited code is judged in `tree`, as that of the hits.
    """
    found = _find_ways(index, answer, asked)
    located = find_by_ids(index, found.ways.keys(), **asked.filters)
    hits, gone = _judge(workspace, _rank(located, found.ways), tree, is_stale_shown=is_stale_shown)
    best = with_edits(workspace, hits[: max(0, asked.limit - len(answer.hits))], tree)
    kept, dropped = _fit(answer.hits, best, room, workspace.config)
    return replace(
        answer,
        hits=(*answer.hits, *kept),
        hits_dropped=(*answer.hits_dropped, *dropped),
        withheld=(*answer.withheld, *gone),
        notes=(*answer.notes, BY_WORDS) if found.is_by_words else answer.notes,
    )


def _find_ways(index: Index, answer: Retrieval, asked: SearchRequest) -> RelatedEntries:
    """Of several ways to an entry the one that counts most, of equal ones the one from the better hit."""
    naming = list_naming(index, **asked.filters)
    around = answer.hits[:LOOKED_AROUND]
    similar = find_similar(index, [hit.located for hit in around], words_of, **asked.filters)
    names = {"vectors": "cosine", "words": "words in common"}
    alike = (
        (near.located.entry.id, Way(hit, f"similar to it ({names[found.basis]} {near.weight:.2f})", near.weight))
        for hit, found in zip(around, similar, strict=True)
        for near in found.near
    )
    barred = _list_barred(answer, _list_replaced(index, asked))
    ways: dict[str, Way] = {}
    for id_, way in (*_stated_ways(answer.hits, naming), *alike):
        if id_ not in barred and (id_ not in ways or way.score > ways[id_].score):
            ways[id_] = way
    return RelatedEntries(ways, any(found.basis == "words" for found in similar))


def _list_replaced(index: Index, asked: SearchRequest) -> set[str]:
    """What another entry has replaced, whether or not that one may answer: a norm, or a type that was not asked for.

    Jobs stay apart all the same: what one of them noted replaces nothing for another.
    """
    filters = asked.filters
    session, is_open = filters.get("session"), filters.get("all_sessions", False)
    naming = list_naming(index, scopes=None, session=session, all_sessions=is_open)
    return {older for one in naming for older in one.supersedes if older != one.id}


def _list_barred(answer: Retrieval, replaced: Set[str]) -> set[str]:
    """What is in the answer already or was left out of it for a reason, and what another entry has replaced."""
    hits = (*answer.hits, *answer.hits_dropped, *(one.hit for one in answer.withheld))
    norms = (norm.entry_id for norm in (*answer.norms, *answer.norms_dropped) if norm.entry_id)
    return {*(hit.located.entry.id for hit in hits), *norms, *replaced}


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


def _rank(located: Mapping[str, Located], ways: Mapping[str, Way]) -> list[Hit]:
    """Hits in the order of their scores; ties as in retrieval: last reinforced first, then by id."""
    hits = [_hit(place, ways[id_]) for id_, place in located.items()]
    return sorted(hits, key=_order)


def _hit(place: Located, way: Way) -> Hit:
    origin = way.hit.located.entry.id[:8]
    factors = ((f"score of {origin}", way.hit.score), ("step", STEP), ("weight", way.weight))
    return Hit(place, way.score, factors, related=f"related to {origin}: {way.what}")


def _order(hit: Hit) -> tuple[float, int, str]:
    entry = hit.located.entry
    return -hit.score, -entry.last_reinforced.toordinal(), entry.id


def _judge(
    workspace: Workspace, hits: list[Hit], tree: str | None, *, is_stale_shown: bool
) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(the hits weighed by the truth of what they cite, those withheld because it is gone), as retrieval does it."""
    citing = [hit.located for hit in hits if may_be_judged(hit.located)]
    if not citing:
        return hits, ()
    from memory_ci.flows.serve.anchor_verdicts import judge_located, list_gone, weigh_truth  # 10 ms that others spare

    truth = judge_located(workspace, citing, tree)
    weighed = [(hit, weigh_truth(truth, hit.located.entry, stale=is_stale_shown)) for hit in hits]
    judged = [
        replace(
            hit,
            score=hit.score * factor,
            factors=(*hit.factors, ("truth", factor)),
            verdicts=truth.get(hit.located.entry, ()),
        )
        for hit, factor in weighed
        if factor > 0
    ]
    return sorted(judged, key=_order), () if is_stale_shown else list_gone(hits, truth)


def _fit(
    given: Sequence[Hit], hits: Sequence[Hit], room: int, config: Config
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """(kept, dropped) of `hits` in what those `given` leave of the room, and of that of each type."""
    by_type = dict(config.retrieve.type_max_chars)
    for hit in given:
        cost, kind = entry_cost(hit), hit.located.entry.type
        room -= cost
        if kind in by_type:
            by_type[kind] -= cost
    return fit(hits, room, entry_cost, by_type)
