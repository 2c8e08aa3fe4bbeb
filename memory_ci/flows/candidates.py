"""Candidates: what the words of a task find, in the order in which it would be served. `eval retrieval` judges this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

import msgspec

from memory_ci.flows.asked import Asked, RetrieveOptions
from memory_ci.index.database import Index
from memory_ci.index.frequency import count_entries, count_holding
from memory_ci.index.search import search
from memory_ci.lifecycle.prominence import prominence, ranking_prominence
from memory_ci.lifecycle.relations import relations_of
from memory_ci.records.config import Config
from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit, Match, Strength, Withheld
from memory_ci.retrieval.corpus import Corpus
from memory_ci.retrieval.corrections import put_corrections_first
from memory_ci.retrieval.diversify import diversify
from memory_ci.retrieval.fuse import place_of
from memory_ci.retrieval.query import build_terms
from memory_ci.retrieval.rank import Weights, rank
from memory_ci.retrieval.verdict import verdict

LEAST_JUDGED = 100
"""So many of the best candidates are judged and diversified at least, and twice as many as are asked for."""


class Candidates(msgspec.Struct, frozen=True):
    """The best of what the words of a task find, ranked as if all they say were still true; how they are weighed."""

    matches: tuple[Match, ...]
    weights: Weights
    hits: tuple[Hit, ...]
    verdict: Strength


def find_candidates(
    index: Index, config: Config, task: str, asked: Asked, options: RetrieveOptions, today: date
) -> Candidates:
    """Candidates for `task`: twice as many as are asked for, so that some may be withheld."""
    depth = max(LEAST_JUDGED, 2 * asked.limit)
    corpus = Corpus(count_entries(index), partial(count_holding, index))
    terms = build_terms(task, corpus)
    matches = search(index, terms, depth=max(200, 2 * depth), **asked.filters)
    weights = _weights(config, options, today)
    return Candidates(tuple(matches), weights, tuple(rank(matches, weights)[:depth]), verdict(matches, terms, corpus))


def weigh_again(found: Candidates, truth: Callable[[Entry], float]) -> list[Hit]:
    """The candidates ranked by the truth of what they cite as well; those of truth 0 are left out."""
    chosen = {place_of(hit.located) for hit in found.hits}
    matches = [match for match in found.matches if place_of(match.located) in chosen]
    return rank(matches, msgspec.structs.replace(found.weights, truth=truth))


def arrange(hits: Sequence[Hit], limit: int) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(the best `limit`, what others of them supersede): diversified, corrections first."""
    served, superseded = put_corrections_first(diversify(hits), _contradicted)
    return served[:limit], superseded


def _weights(config: Config, options: RetrieveOptions, today: date) -> Weights:
    settings, decay = config.retrieve, config.prominence.decay
    is_literal = settings.prominence == "seed"
    formula = prominence if is_literal or settings.reinforcement == "linear" else ranking_prominence

    def weigh(entry: Entry) -> float:
        # Who asks for retired entries gets them ranked by what they counted before.
        alive = msgspec.structs.replace(entry, status="active") if "retired" in options.statuses else entry
        return formula(alive, today, decay)

    return Weights(prominence=weigh, is_literal=is_literal, session=options.session)


def _contradicted(entry: Entry) -> list[str]:
    return [relation.id for relation in relations_of(entry) if relation.kind == "contradicts"]
