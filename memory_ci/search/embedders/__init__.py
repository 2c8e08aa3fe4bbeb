"""Embedders: vectors of texts, computed in this process or by a service.

A service is called only if the configuration names it: no key that happens to be set sends memory
anywhere.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from memory_ci.errors import EngineError, MemoryCIError, UsageError
from memory_ci.records.config import RetrieveConfig

if TYPE_CHECKING:
    from memory_ci.search.embedders.remote import TimeLimits

Purpose = Literal["entry", "query"]
"""Use of a text: it is found, or searched for. Some models distinguish the two."""

NOT_INSTALLED = "the local embedder is not installed: pip install 'memory-ci[vectors]'"
KEYS = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


class Vectors(msgspec.Struct, frozen=True):
    """Vectors of length one, or zero.

    Attributes:
        dim: numbers in one vector.
        data: the numbers of all vectors, one vector after another, as float32.
    """

    dim: int
    data: array[float]


class Embedder(Protocol):
    """A model that returns a vector for a text."""

    @property
    def model_id(self) -> str:
        """The name of the vector space: vectors of two spaces are never compared."""

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        """Return a vector for each text, in order.

        Raises:
            EngineError: there are no vectors (embedder-failed, embedder-unauthorised).
        """


def pack_vectors(rows: Iterable[Sequence[float]]) -> Vectors:
    """Return vectors scaled to length one, as float32; a vector of zeros is not changed.

    Raises:
        ValueError: the vectors have different dimensions, or numbers that are not finite.
    """
    data = array("f")
    dim = 0
    for row in rows:
        length = math.hypot(*row)
        if not math.isfinite(length):
            raise ValueError("a vector with a number that is not finite")
        has_other_dim = dim != 0 and len(row) != dim
        if not row or has_other_dim:
            raise ValueError(f"a vector of {len(row)} numbers instead of {dim or 1}")
        dim = len(row)
        data.extend(value / length if length else 0.0 for value in row)
    return Vectors(dim, data)


def make_embedder_error(service: str, predicate: str) -> EngineError:
    """Return the error of an embedder that returned no vectors.

    Its message has no key, no text and nothing of a reply.

    Args:
        service: the name of the embedder.
        predicate: the predicate of the message.
    """
    hint = "Retrieval goes on without vectors: `memory-ci help models#embedders`."
    return EngineError(f"{service} {predicate}", slug="embedder-failed", hint=hint)


class EmbedderChoice(msgspec.Struct, frozen=True):
    """The embedder of a run.

    Attributes:
        embedder: the embedder, or None.
        mode: "degraded" if an embedder is configured and not available.
        reason: why it was chosen.
    """

    embedder: Embedder | None
    mode: Literal["lexical", "hybrid", "degraded"]
    reason: str


def choose_embedder(
    settings: RetrieveConfig, environ: Mapping[str, str], limits: TimeLimits | None = None
) -> EmbedderChoice:
    """Return the embedder that the configuration names, and why. Never raises.

    The embedder is not called yet: it may fail later.

    Args:
        settings: the configuration.
        environ: the environment. `MEMORY_CI_EMBEDDER=none` switches the vector lane off, whatever
            the configuration says.
        limits: the time limits of a service; `AGENT_LIMITS` by default.
    """
    if environ.get("MEMORY_CI_EMBEDDER") == "none":
        return EmbedderChoice(None, "lexical", "MEMORY_CI_EMBEDDER is none")
    name = settings.embedder
    if name == "none":
        return EmbedderChoice(None, "lexical", "retrieve.embedder is none")
    if name in ("auto", "local"):
        from memory_ci.search.embedders.local import LocalEmbedder, find_model

        path = find_model()
        if path is None:
            mode: Literal["lexical", "degraded"] = "degraded" if name == "local" else "lexical"
            return EmbedderChoice(None, mode, NOT_INSTALLED)
        return EmbedderChoice(LocalEmbedder(path), "hybrid", LocalEmbedder.model_id)
    key = KEYS.get(name)
    if key and not environ.get(key):
        reason = f"retrieve.embedder is {name}, and {key} is not set"
        return EmbedderChoice(None, "degraded", reason)
    from memory_ci.search.embedders.remote import AGENT_LIMITS, MAKERS, RemoteEmbedder

    try:
        service = MAKERS[name](settings.embedder_model, environ)
        embedder = RemoteEmbedder(service, limits or AGENT_LIMITS)
    except (MemoryCIError, ValueError) as error:
        return EmbedderChoice(None, "degraded", f"retrieve.embedder is {name}, and {error}")
    return EmbedderChoice(embedder, "hybrid", embedder.model_id)


def require_embedder(
    settings: RetrieveConfig, environ: Mapping[str, str], limits: TimeLimits
) -> Embedder:
    """Return the embedder of a run.

    Raises:
        UsageError: no embedder is available (no-embedder).
    """
    choice = choose_embedder(settings, environ, limits)
    if choice.embedder is None:
        hint = (
            "Install memory-ci[vectors], or name a service in retrieve.embedder "
            "(`memory-ci help models#embedders`)."
        )
        raise UsageError(f"there is no embedder: {choice.reason}", slug="no-embedder", hint=hint)
    return choice.embedder
