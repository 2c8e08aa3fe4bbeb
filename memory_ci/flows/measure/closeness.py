"""Closeness: how near entries are to each other and to questions, by vectors that are made for this once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import msgspec

from memory_ci.errors import EngineError
from memory_ci.evidence.content import redact
from memory_ci.index.database import Index
from memory_ci.index.embedders import Embedder, Vectors, choose_embedder
from memory_ci.index.embedders.remote import UNHURRIED
from memory_ci.index.vectors import Nearest, missing, nearest, nearest_to, store
from memory_ci.lifecycle.health import LINKS, TOP_K
from memory_ci.records.config import RetrieveConfig

MAX_ENTRIES = 1_000
"""Of more entries than this the vectors are not made: that takes minutes."""


class Closeness(msgspec.Struct, frozen=True):
    """For each text the cosines of its nearest others, for each question those of its best hits, both best first.

    `silence` says why there are none.
    """

    near: tuple[tuple[float, ...], ...] = ()
    hits: tuple[tuple[float, ...], ...] = ()
    silence: str = ""


def measure_closeness(
    index: Index, settings: RetrieveConfig, questions: Sequence[str], environ: Mapping[str, str]
) -> Closeness:
    """The closeness of the active entries of an index in memory, which keeps their vectors. Never raises for what an
    embedder does."""
    choice = choose_embedder(settings, environ, UNHURRIED)
    if choice.embedder is None:
        return Closeness(silence=f"there are no vectors: {choice.reason}")
    texts = missing(index, choice.embedder.model_id, statuses=("active",))
    if len(texts) > MAX_ENTRIES:
        return Closeness(silence=f"more than {MAX_ENTRIES} texts are not embedded for this")
    try:
        return _measure(index, choice.embedder, texts, [redact(question).text for question in questions])
    except EngineError as error:
        return Closeness(silence=f"there are no vectors: {error.message}")


def _measure(index: Index, embedder: Embedder, texts: Mapping[bytes, str], questions: Sequence[str]) -> Closeness:
    if not texts:
        return Closeness(silence="there is no entry with a vector")
    entries = embedder.embed(list(texts.values()))
    store(index, embedder.model_id, tuple(texts), entries)
    found = nearest_to(index, list(texts), LINKS + 1, statuses=("active",))
    near = tuple(_cosines(found[name])[1:] for name in texts if name in found)  # the nearest to a text is itself
    asked = _rows(embedder.embed(questions, "query")) if questions else []
    hits = tuple(_cosines(nearest(index, row, embedder.model_id, TOP_K, statuses=("active",))) for row in asked)
    silence = "" if questions else "nothing was merged in the last 90 days that could be asked for"
    return Closeness(near if len(texts) > 1 else (), hits, silence or "there is one text alone")


def _cosines(found: Nearest) -> tuple[float, ...]:
    return tuple(near.cosine for near in found.near)


def _rows(vectors: Vectors) -> list[Vectors]:
    dim, data = vectors
    return [Vectors(dim, array("f", data[start : start + dim])) for start in range(0, len(data), max(1, dim))]
