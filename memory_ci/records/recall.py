"""Recall: the episodes that answer a question, and why in this order."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.episode import Episode

Ranking = Literal["similar", "mempalace", "t4dm"]
"""The orders in which episodes are recalled; `episodes.ranking` names one of them."""


class Factor(msgspec.Struct, frozen=True):
    """A part of a score: one of a product, or with a `weight` one of a sum of weight x value."""

    name: str
    value: float
    weight: float | None = None


class RecalledEpisode(msgspec.Struct, frozen=True):
    """An episode and its score. `still` of its `files` are there today; None where nobody looked."""

    episode: Episode
    score: float
    factors: tuple[Factor, ...]
    still: int | None = None


class Recalled(msgspec.Struct, frozen=True):
    """The episodes, best first, by which ranking, and what the caller should know.

    `likeness` says how words were compared: `tf-idf`, or the name of the model whose vectors were; "" if neither was.
    """

    ranking: Ranking
    likeness: str = ""
    hits: tuple[RecalledEpisode, ...] = ()
    notes: tuple[str, ...] = ()
