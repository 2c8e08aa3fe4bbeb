"""Entries that are one relation away from the hits of a task, which agents may ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.commands.retrieve.options import SearchRequest
from memory_ci.commands.retrieve.ranking import TruthOf, judge_hits
from memory_ci.commands.retrieve.text import entry_cost
from memory_ci.lifecycle.relations import parse_relation
from memory_ci.lifecycle.similarity import words_of
from memory_ci.memory.edits import with_edits
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Located
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.search.database import Index
from memory_ci.search.neighbours import (
    Naming,
    Similar,
    find_by_ids,
    find_similar,
    list_entries_with_relations,
)
from memory_ci.search.rank import fit

STEP = 0.5
"""Factor of one step: an entry scores STEP x the hit's score x the weight of the relation."""

MAX_COMPARED = 10
"""The number of best hits whose similar entries are searched; stated relations count for all."""

BY_WORDS = "Similar entries were found by their words: the index has no vectors to compare."

PHRASES = {
    "supports": ("supports it", "supported by it"),
    "contradicts": ("contradicts it", "contradicted by it"),
    "duplicates": ("duplicates it", "duplicated by it"),
}
"""The phrase for an entry that states a relation to a hit, and for the object of a hit's."""

SIMILARITY_NAMES = {"vectors": "cosine", "words": "words in common"}


class _Link(NamedTuple):
    """A relation of some weight by which an entry is reached from a hit."""

    hit: Hit
    phrase: str
    weight: float

    @property
    def score(self) -> float:
        """The score of the entry that is reached."""
        return self.hit.score * STEP * self.weight


def add_related(
    retrieval: Retrieval,
    workspace: Workspace,
    index: Index,
    request: SearchRequest,
    max_chars: int,
    *,
    tree: str | None,
    stale: bool,
) -> Retrieval:
    """Return the retrieval with the entries that are one step away from its hits.

    Only entries that the task itself could have found are reached: the same filters hold, and
    withheld entries stay withheld. Hits keep their order and their share of the budget.

    Args:
        max_chars: the characters that all entries share.
        tree: the revision in which cited code is judged, as that of the hits.
    """
    links, is_by_words = _find_links(index, retrieval, request)
    located_by_id = find_by_ids(index, links.keys(), **request.filters)
    reached = [_make_hit(located, links[id_]) for id_, located in located_by_id.items()]
    reached.sort(key=_order)
    rerank = partial(_apply_truth, reached)
    hits, gone = judge_hits(workspace, reached, tree, rerank, stale=stale)
    free = max(0, request.limit - len(retrieval.hits))
    hits = with_edits(workspace, hits[:free], tree)

    remaining = max_chars - sum(entry_cost(hit) for hit in retrieval.hits)
    served, dropped = fit(hits, remaining, entry_cost)
    return replace(
        retrieval,
        hits=(*retrieval.hits, *served),
        hits_dropped=(*retrieval.hits_dropped, *dropped),
        withheld=(*retrieval.withheld, *gone),
        notes=(*retrieval.notes, BY_WORDS) if is_by_words else retrieval.notes,
    )


def _make_hit(located: Located, link: _Link) -> Hit:
    hit_id = link.hit.located.entry.id[:8]
    factors = (
        (f"score of {hit_id}", link.hit.score),
        ("step", STEP),
        ("weight", link.weight),
    )
    return Hit(located, link.score, factors, related=f"related to {hit_id}: {link.phrase}")


def _apply_truth(hits: Sequence[Hit], truth_of: TruthOf) -> list[Hit]:
    """Return the hits with their truth factor, best first, without those of truth 0."""
    weighed = []
    for hit in hits:
        truth = truth_of(hit.located.entry)
        if truth > 0:
            factors = (*hit.factors, ("truth", truth))
            weighed.append(replace(hit, score=hit.score * truth, factors=factors))
    return sorted(weighed, key=_order)


def _find_links(
    index: Index, retrieval: Retrieval, request: SearchRequest
) -> tuple[dict[str, _Link], bool]:
    """Find the best link to each entry that is one step away from a hit.

    Of several links to an entry the one of the highest score is taken, of equal ones that from
    the better hit.

    Returns:
        The links by entry id, and whether entries were compared by words instead of vectors.
    """
    naming = list_entries_with_relations(index, **request.filters)
    compared = retrieval.hits[:MAX_COMPARED]
    located = [hit.located for hit in compared]
    similar = find_similar(index, located, words_of, **request.filters)
    excluded_ids = _list_excluded(index, retrieval, request)

    best: dict[str, _Link] = {}
    for id_, link in (*_stated_links(retrieval.hits, naming), *_similar_links(compared, similar)):
        if id_ in excluded_ids:
            continue
        if id_ not in best or link.score > best[id_].score:
            best[id_] = link
    return best, any(result.basis == "words" for result in similar)


def _list_excluded(index: Index, retrieval: Retrieval, request: SearchRequest) -> set[str | None]:
    """List the ids of entries that are superseded, served already, or left out for a reason."""
    # A superseding entry counts even if it cannot be served itself: a norm, or another type.
    # Sessions stay apart: a note of one of them replaces nothing for another.
    superseding = list_entries_with_relations(
        index,
        scopes=None,
        session=request.filters.get("session"),
        all_sessions=request.filters.get("all_sessions", False),
    )
    ids: set[str | None] = set()
    for naming in superseding:
        ids.update(id_ for id_ in naming.supersedes if id_ != naming.id)
    withheld = [withheld.hit for withheld in retrieval.withheld]
    ids.update(
        hit.located.entry.id for hit in (*retrieval.hits, *retrieval.hits_dropped, *withheld)
    )
    ids.update(norm.entry_id for norm in (*retrieval.norms, *retrieval.norms_dropped))
    return ids


def _similar_links(hits: Sequence[Hit], similar: Sequence[Similar]) -> Iterator[tuple[str, _Link]]:
    """Yield the links from each hit to the entries that are similar to it."""
    for hit, result in zip(hits, similar, strict=True):
        measure = SIMILARITY_NAMES[result.basis]
        for neighbour in result.neighbours:
            phrase = f"similar to it ({measure} {neighbour.weight:.2f})"
            yield neighbour.located.entry.id, _Link(hit, phrase, neighbour.weight)


def _stated_links(hits: Sequence[Hit], naming: Sequence[Naming]) -> Iterator[tuple[str, _Link]]:
    """Yield the links from each hit to entries that it names, and to entries that name it."""
    hits_by_id = {hit.located.entry.id: hit for hit in hits}
    for entry in naming:
        for stated in entry.relations:
            relation = parse_relation(stated)
            if relation is None:
                continue
            to_hit, from_hit = PHRASES[relation.kind]
            if relation.id in hits_by_id:
                yield entry.id, _Link(hits_by_id[relation.id], to_hit, 1.0)
            if entry.id in hits_by_id:
                yield relation.id, _Link(hits_by_id[entry.id], from_hit, 1.0)
        for superseded_id in entry.supersedes:
            if superseded_id in hits_by_id:
                yield entry.id, _Link(hits_by_id[superseded_id], "supersedes it", 1.0)


def _order(hit: Hit) -> tuple[float, int, str]:
    entry = hit.located.entry
    return -hit.score, -entry.last_reinforced.toordinal(), entry.id
