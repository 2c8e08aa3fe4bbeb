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
from memory_ci.lifecycle.similarity import list_entry_words
from memory_ci.memory.edits import add_edits_to_hits
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
from memory_ci.search.rank import fit_hits

STEP_FACTOR = 0.5
"""A related entry scores STEP_FACTOR x the hit's score x the weight of the relation."""

MAX_COMPARED = 10
"""The number of best hits whose similar entries are searched; stated relations count for all."""

FOUND_BY_WORDS_NOTE = (
    "Similar entries were found by their words: the index has no vectors to compare."
)

PHRASES = {
    "supports": ("supports it", "supported by it"),
    "contradicts": ("contradicts it", "contradicted by it"),
    "duplicates": ("duplicates it", "duplicated by it"),
}
"""The phrase for an entry that states a relation to a hit, and for the object of a hit's."""

SIMILARITY_NAMES = {"vectors": "cosine", "words": "words in common"}


class _Link(NamedTuple):
    """A relation of some weight that leads from a hit to another entry.

    Attributes:
        entry_id: the id of the other entry.
        hit: the hit.
        phrase: the relation in words, such as "supports it".
        weight: from 0 to 1.
    """

    entry_id: str
    hit: Hit
    phrase: str
    weight: float

    @property
    def score(self) -> float:
        """The score of the other entry."""
        return self.hit.score * STEP_FACTOR * self.weight


class RelatedHits(NamedTuple):
    """Entries that are related to the hits of a retrieval, best first, and notes on the search."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...]


def find_related(index: Index, retrieval: Retrieval, request: SearchRequest) -> RelatedHits:
    """Return the entries that are related to the hits of a retrieval or similar to them.

    Only entries that the task itself could have found are returned: the same filters hold. If
    similar entries were found by their words, for want of vectors, a note says so.

    Args:
        index: the index.
        retrieval: the retrieval.
        request: the filters of the retrieval.
    """
    similar_by_hit = _find_similar_to_hits(index, retrieval, request)
    links = _find_links(index, retrieval, similar_by_hit, request)
    located_by_id = find_by_ids(index, links.keys(), **request.filters)
    related_hits = [
        _make_related_hit(located, links[entry_id]) for entry_id, located in located_by_id.items()
    ]
    related_hits.sort(key=_sort_key)
    is_by_words = any(similar_entries.basis == "words" for similar_entries in similar_by_hit)
    return RelatedHits(tuple(related_hits), (FOUND_BY_WORDS_NOTE,) if is_by_words else ())


def add_related(
    retrieval: Retrieval,
    related: RelatedHits,
    workspace: Workspace,
    request: SearchRequest,
    max_chars: int,
    *,
    tree: str | None,
    serves_stale: bool,
) -> Retrieval:
    """Return the retrieval with related entries, which fill the rest of the budget.

    Withheld entries stay withheld. The index must be closed: what is found about cited code is
    cached in it.

    Args:
        retrieval: the retrieval.
        related: the related entries.
        workspace: the repository and its configuration.
        request: the limit of the retrieval.
        max_chars: how many characters all entries have.
        tree: the revision in which cited code is judged, as that of the hits.
        serves_stale: whether entries whose cited code is gone are served.
    """
    # Entries whose cited code changed or is gone score less, or are withheld.
    rerank = partial(_rank_by_truth, related.hits)
    judged_hits, gone_hits = judge_hits(
        workspace, related.hits, tree, rerank, serves_stale=serves_stale
    )
    free_count = max(0, request.limit - len(retrieval.hits))
    new_hits = add_edits_to_hits(workspace, judged_hits[:free_count], tree)

    remaining_chars = max_chars - sum(entry_cost(hit) for hit in retrieval.hits)
    served_hits, dropped_hits = fit_hits(new_hits, remaining_chars, entry_cost)
    return replace(
        retrieval,
        hits=(*retrieval.hits, *served_hits),
        hits_dropped=(*retrieval.hits_dropped, *dropped_hits),
        withheld=(*retrieval.withheld, *gone_hits),
        notes=(*retrieval.notes, *related.notes),
    )


def _make_related_hit(located: Located, link: _Link) -> Hit:
    """Return a related entry as a hit, with a sentence on the relation that leads to it.

    Its score is the score of the hit at the other end of the relation, times two factors below 1.
    """
    hit_id = link.hit.located.entry.id[:8]
    factors = (
        (f"score of {hit_id}", link.hit.score),
        ("step", STEP_FACTOR),
        ("weight", link.weight),
    )
    return Hit(located, link.score, factors, related=f"related to {hit_id}: {link.phrase}")


def _rank_by_truth(hits: Sequence[Hit], truth_of: TruthOf) -> list[Hit]:
    """Return hits by their scores with a truth factor: whether the code that they cite changed.

    Args:
        hits: the hits.
        truth_of: returns the factor of an entry, from 1 (unchanged code) to 0 (all of it is gone);
            hits with the factor 0 are dropped.
    """
    weighed_hits = []
    for hit in hits:
        truth_factor = truth_of(hit.located.entry)
        if truth_factor > 0:
            factors = (*hit.factors, ("truth", truth_factor))
            weighed_hits.append(replace(hit, score=hit.score * truth_factor, factors=factors))
    return sorted(weighed_hits, key=_sort_key)


def _find_similar_to_hits(
    index: Index, retrieval: Retrieval, request: SearchRequest
) -> tuple[Similar, ...]:
    """Return for each of the best hits the entries that are similar to it."""
    compared_entries = [hit.located for hit in retrieval.hits[:MAX_COMPARED]]
    return find_similar(index, compared_entries, list_entry_words, **request.filters)


def _find_links(
    index: Index, retrieval: Retrieval, similar_by_hit: Sequence[Similar], request: SearchRequest
) -> dict[str, _Link]:
    """Return the best link to each entry that is related to a hit or similar to one, by its id.

    The best link is the one with the highest score; of equal ones, that from the better hit.
    Entries that are served already, or left out for a reason, have no link.

    Args:
        index: the index.
        retrieval: the hits.
        similar_by_hit: the entries that are similar to each of the best hits.
        request: the filters of the retrieval.
    """
    naming_entries = list_entries_with_relations(index, **request.filters)
    excluded_ids = _list_excluded_ids(index, retrieval, request)
    stated_links = _iter_stated_links(retrieval.hits, naming_entries)
    compared_hits = retrieval.hits[: len(similar_by_hit)]

    best_links: dict[str, _Link] = {}
    for link in (*stated_links, *_iter_similarity_links(compared_hits, similar_by_hit)):
        if link.entry_id in excluded_ids:
            continue
        best_link = best_links.get(link.entry_id)
        if best_link is None or link.score > best_link.score:
            best_links[link.entry_id] = link
    return best_links


def _list_excluded_ids(
    index: Index, retrieval: Retrieval, request: SearchRequest
) -> set[str | None]:
    """Return the ids of entries that are superseded, served already, or left out for a reason."""
    # A superseding entry counts even if it cannot be served itself: a norm, or another type.
    # Sessions stay apart: a note of one of them replaces nothing for another.
    superseding_entries = list_entries_with_relations(
        index,
        scopes=None,
        session=request.filters.get("session"),
        all_sessions=request.filters.get("all_sessions", False),
    )
    excluded_ids: set[str | None] = set()
    for naming in superseding_entries:
        superseded_ids = [older_id for older_id in naming.supersedes if older_id != naming.id]
        excluded_ids.update(superseded_ids)
    withheld_hits = [withheld.hit for withheld in retrieval.withheld]
    for hit in (*retrieval.hits, *retrieval.hits_dropped, *withheld_hits):
        excluded_ids.add(hit.located.entry.id)
    for norm in (*retrieval.norms, *retrieval.norms_dropped):
        excluded_ids.add(norm.entry_id)
    return excluded_ids


def _iter_similarity_links(
    hits: Sequence[Hit], similar_by_hit: Sequence[Similar]
) -> Iterator[_Link]:
    """Yield a link from each hit to each of the entries that are similar to it."""
    for hit, similar_entries in zip(hits, similar_by_hit, strict=True):
        measure = SIMILARITY_NAMES[similar_entries.basis]
        for neighbour in similar_entries.neighbours:
            phrase = f"similar to it ({measure} {neighbour.weight:.2f})"
            yield _Link(neighbour.located.entry.id, hit, phrase, weight=neighbour.weight)


def _iter_stated_links(hits: Sequence[Hit], naming_entries: Sequence[Naming]) -> Iterator[_Link]:
    """Yield a link from a hit for each relation that the hit, or another entry to it, states.

    Args:
        hits: the hits.
        naming_entries: the entries that name others: by a relation, or as superseded.
    """
    hits_by_id = {hit.located.entry.id: hit for hit in hits}
    for entry in naming_entries:
        for relation_text in entry.relations:
            relation = parse_relation(relation_text)
            if relation is None:
                continue
            active_phrase, passive_phrase = PHRASES[relation.kind]
            if relation.id in hits_by_id:
                yield _Link(entry.id, hits_by_id[relation.id], active_phrase, weight=1.0)
            if entry.id in hits_by_id:
                yield _Link(relation.id, hits_by_id[entry.id], passive_phrase, weight=1.0)
        for superseded_id in entry.supersedes:
            if superseded_id in hits_by_id:
                hit = hits_by_id[superseded_id]
                yield _Link(entry.id, hit, "supersedes it", weight=1.0)


def _sort_key(hit: Hit) -> tuple[float, int, str]:
    """Return the key that sorts the best and, of equals, the last reinforced hit first."""
    entry = hit.located.entry
    return -hit.score, -entry.last_reinforced.toordinal(), entry.id
