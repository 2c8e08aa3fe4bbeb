"""What the services have in common: batches, limits of length, and checks of what comes back."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from memory_ci.index.embedders import Purpose, Vectors, failed, pack_vectors
from memory_ci.index.embedders.wire import HURRIED, Patience, Wire
from memory_ci.text import estimate_tokens


class Service(NamedTuple):
    """One API. `payload` of texts is what it is sent, `rows` what is read of its reply, of type `shape`.

    `max_tokens` is what the model reads of one text, `batch` how many texts fit in a request; `prefixes` stand before a
    text, by its purpose.
    """

    model_id: str
    url: str
    payload: Callable[[Sequence[str]], Mapping[str, object]]
    shape: type[Any]
    rows: Callable[[Any], Sequence[Sequence[float]]]
    max_tokens: int
    batch: int
    secrets: Mapping[str, str] = {}
    prefixes: Mapping[Purpose, str] = {}


class RemoteEmbedder:
    """An embedder that asks `service`, within `patience`. Texts leave the machine: callers redact them first."""

    def __init__(self, service: Service, patience: Patience = HURRIED) -> None:
        self.model_id = service.model_id
        self._service = service
        self._wire = Wire(service.url, patience, secrets=service.secrets)

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        """A vector for each text, in order. Raises EngineError (embedder-failed, embedder-unauthorised)."""
        prefix, batch = self._service.prefixes.get(purpose, ""), self._service.batch
        dim, data = 0, array("f")
        for start in range(0, len(texts), batch):
            part = self._ask([prefix + cut(text, self._service.max_tokens) for text in texts[start : start + batch]])
            if part.dim != (dim or part.dim):
                raise failed(self._wire.host, f"gave vectors of {dim} and of {part.dim} numbers")
            dim = part.dim
            data += part.data
        return Vectors(dim, data)

    def _ask(self, texts: Sequence[str]) -> Vectors:
        reply = self._wire.post(self._service.payload(texts), self._service.shape)
        try:
            rows = self._service.rows(reply)
            if len(rows) != len(texts):
                raise ValueError(f"{len(rows)} vectors for {len(texts)} texts")
            return pack_vectors(rows)
        except ValueError as error:
            raise failed(self._wire.host, f"gave {error}") from error


def cut(text: str, max_tokens: int) -> str:
    """As much of `text` as a model with `max_tokens` reads for sure, cut at a word; a longer one would be refused.

    >>> cut("never retry a POST", 4)
    'never retry'
    """
    if estimate_tokens(text) <= max_tokens:
        return text
    lengths = range(1, 3 * max_tokens + 1)  # a token is three ASCII characters, by the estimate
    fitting = bisect_right(lengths, max_tokens, key=lambda length: estimate_tokens(text[:length]))
    head = text[:fitting]
    at_word = head if text[fitting : fitting + 1].isspace() else head.rpartition(" ")[0]
    return at_word.rstrip() or head
