"""Embedders: texts into vectors, in this process or by a service."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from memory_ci.errors import EngineError

Purpose = Literal["entry", "query"]  # Some models want to be told whether a text is searched for or is what is found.


class Vectors(NamedTuple):
    """float32 rows of `dim` numbers, one after another; each has length one, or is all zero."""

    dim: int
    data: array[float]


class Embedder(Protocol):
    """Gives each text a vector. `model_id` names the space: vectors of two spaces are never compared."""

    @property
    def model_id(self) -> str: ...

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        """A vector for each text, in order. Raises EngineError (embedder-failed, embedder-unauthorised)."""
        ...


def pack_vectors(rows: Iterable[Sequence[float]]) -> Vectors:
    """`rows` at length one, as float32; a row of zeros stays as it is.

    Raises ValueError, with the fault in words, for rows of different dimensions and for numbers that are none.
    """
    data, dim = array("f"), -1
    for row in rows:
        length = math.hypot(*row)
        if not math.isfinite(length):
            raise ValueError("a vector with a number that is not finite")
        if not row or len(row) != (dim if dim >= 0 else len(row)):
            raise ValueError(f"a vector of {len(row)} numbers instead of {max(dim, 1)}")
        dim = len(row)
        data.extend(value / length if length else 0.0 for value in row)
    return Vectors(max(dim, 0), data)


def failed(service: str, what: str) -> EngineError:
    """An embedder did not give what was asked for. The message names no key, no text and nothing of a reply."""
    return EngineError(
        f"{service} {what}",
        slug="embedder-failed",
        hint="Retrieval goes on without vectors: `memory-ci help embedders`.",
    )
