"""Embedding services over HTTP, bounded in time, size and number of tries.

A redirect is not followed: neither the key nor a text goes to a host that was not configured.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from memory_ci.errors import EngineError
from memory_ci.forge.http import (
    FailedTry,
    Limits,
    exchange,
    is_loopback,
    is_secure,
    open_pool,
    try_again,
)
from memory_ci.search.embedders import Purpose, Vectors, make_embedder_error, pack_vectors
from memory_ci.text import estimate_tokens

T = TypeVar("T")
MAX_BYTES = 100_000_000
TRANSIENT = frozenset({429, 500, 502, 503, 504, 529})
REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class TimeLimits(NamedTuple):
    """Time limits for a service, in seconds.

    Attributes:
        connect: to connect.
        read: without a byte of the reply.
        total: for all requests together.
        pauses: between tries where the service does not say how long to wait; after the last of
            them it is given up.
    """

    connect: float = 3.0
    read: float = 10.0
    total: float = 15.0
    pauses: tuple[float, ...] = (0.5, 1.0)


AGENT_LIMITS = TimeLimits()
"""While an agent waits."""

INDEX_LIMITS = TimeLimits(connect=10.0, read=60.0, total=3600.0, pauses=(1.0, 5.0, 20.0))
"""While a whole index is embedded."""


class Service(NamedTuple):
    """The API of an embedding service.

    Attributes:
        model_id: the name of the vector space.
        url: the address of the API.
        payload: returns the request for some texts.
        shape: the type of the reply.
        rows: returns the vectors of a reply.
        max_tokens: how much of one text the model reads.
        batch: how many texts fit in a request.
        secrets: headers with the key.
        prefixes: the prefix of a text, by its purpose.
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
    """An embedder that calls a service. Texts leave the machine: callers redact them first."""

    def __init__(self, service: Service, limits: TimeLimits = AGENT_LIMITS) -> None:
        """Prepare an embedder; its total time begins now.

        Args:
            service: the API.
            limits: time limits of its requests.

        Raises:
            EngineError: a header cannot hold the key, which the HTTP library would then print
                (embedder-unauthorised), or the key would travel unencrypted (embedder-failed).
        """
        self.model_id = service.model_id
        self._service = service
        self._time_limits = limits
        self._host = urlsplit(service.url).hostname or "the embedder"
        self._headers = {
            "content-type": "application/json",
            "user-agent": "memory-ci",
            **service.secrets,
        }
        self._end = time.monotonic() + limits.total
        for secret in service.secrets.values():
            if not (secret.isascii() and secret.isprintable()):
                raise self._make_unauthorised_error()
        is_private = is_secure(service.url) or is_loopback(service.url)
        if service.secrets and not is_private:
            raise make_embedder_error(self._host, "was not asked: a key travels by https only")

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        """Return a vector for each text, in order.

        Raises:
            EngineError: there are no vectors (embedder-failed, embedder-unauthorised).
        """
        service = self._service
        prefix = service.prefixes.get(purpose, "")
        dim = 0
        data = array("f")
        for start in range(0, len(texts), service.batch):
            batch = texts[start : start + service.batch]
            vectors = self._embed_batch(
                [prefix + cut_text(text, service.max_tokens) for text in batch]
            )
            if vectors.dim != (dim or vectors.dim):
                raise make_embedder_error(
                    self._host, f"gave vectors of {dim} and of {vectors.dim} numbers"
                )
            dim = vectors.dim
            data += vectors.data
        return Vectors(dim, data)

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of the texts of one request, which is tried several times.

        Raises:
            EngineError: there are no vectors (embedder-failed, embedder-unauthorised).
        """
        body = msgspec.json.encode(self._service.payload(texts))
        rows = try_again(
            partial(self._try, body), self._time_limits.pauses, self._wait_before_retry
        )
        if isinstance(rows, FailedTry):
            raise rows.error
        try:
            if len(rows) != len(texts):
                raise ValueError(f"{len(rows)} vectors for {len(texts)} texts")
            return pack_vectors(rows)
        except ValueError as error:
            raise make_embedder_error(self._host, f"gave {error}") from error

    def _wait_before_retry(self, seconds: float) -> bool:
        """Wait before another try; return False at once if no time would remain."""
        if time.monotonic() + seconds >= self._end:
            return False
        time.sleep(seconds)
        return True

    def _try(self, body: bytes) -> Sequence[Sequence[float]] | FailedTry:
        """Send one request; return the vectors of its reply, or the failure."""
        remaining_seconds = self._end - time.monotonic()
        if remaining_seconds <= 0:
            return self._make_failure("took all the time that there was")
        limits = Limits(
            min(self._time_limits.connect, remaining_seconds),
            min(self._time_limits.read, remaining_seconds),
            remaining_seconds,
            MAX_BYTES,
        )
        try:
            with open_pool() as pool:
                reply = exchange(
                    pool, "POST", self._service.url, limits, headers=self._headers, body=body
                )
        except TimeoutError:
            return self._make_failure("did not finish its answer in time")
        except ConnectionError as error:
            return FailedTry(make_embedder_error(self._host, f"could not be read: {error}"))
        except OverflowError:
            return self._make_failure(f"answered with more than {MAX_BYTES:,} bytes")
        if reply.status != HTTPStatus.OK:
            return self._make_refusal(reply.status, reply.headers.get("retry-after", ""))
        try:
            return self._service.rows(msgspec.json.decode(reply.body, type=self._service.shape))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._make_failure("answered with something else than vectors")
        except ValueError as error:
            return self._make_failure(f"gave {error}")

    def _make_failure(self, predicate: str) -> FailedTry:
        """Return a failure after which there is no other try; the message begins with the host."""
        return FailedTry(make_embedder_error(self._host, predicate), is_final=True)

    def _make_refusal(self, status: int, retry_after: str) -> FailedTry:
        """Return the failure of a reply with another status than 200.

        Args:
            status: the status.
            retry_after: the header `Retry-After`; "" if the reply does not have it.
        """
        if status in REFUSALS:
            return FailedTry(self._make_unauthorised_error(), is_final=True)
        message = f"answered with status {status}"
        pause: float | None = None
        if status == HTTPStatus.NOT_FOUND:
            message = "does not know the model that it was asked for"
        elif status == HTTPStatus.TOO_MANY_REQUESTS:
            when = "later"
            if retry_after.isdecimal():
                pause = float(retry_after[:9])
                when = f"in {retry_after} s"
            message = f"limits how often it is asked; it may be asked again {when}"
        return FailedTry(
            make_embedder_error(self._host, message), pause, is_final=status not in TRANSIENT
        )

    def _make_unauthorised_error(self) -> EngineError:
        """Return the error that the service does not accept the key."""
        hint = (
            "Give a key for embeddings (`memory-ci help models#embedders`), "
            "or set retrieve.embedder to local or none."
        )
        return EngineError(
            f"{self._host} does not accept the key", slug="embedder-unauthorised", hint=hint
        )


def cut_text(text: str, max_tokens: int) -> str:
    """Return the beginning of a text that has at most `max_tokens` tokens, cut at a word.

    A service would refuse a longer text. The tokens are estimated.

    >>> cut_text("never retry a POST", 4)
    'never retry'
    """
    if estimate_tokens(text) <= max_tokens:
        return text
    # By the estimate, a token is at most three characters. A binary search finds the length.
    lengths = range(1, 3 * max_tokens + 1)
    length = bisect_right(lengths, max_tokens, key=lambda size: estimate_tokens(text[:size]))
    head = text[:length]
    next_character = text[length : length + 1]
    if next_character.isspace():
        return head.rstrip() or head
    return head.rpartition(" ")[0].rstrip() or head


class OpenAIVector(msgspec.Struct):
    """One vector; `index` is the place of its text."""

    index: int
    embedding: list[float]


class OpenAIReply(msgspec.Struct):
    """The fields of a reply that are read."""

    data: list[OpenAIVector]


def make_openai(model: str, environ: Mapping[str, str]) -> Service:
    """Return the API of OpenAI: POST /v1/embeddings.

    Its reference is platform.openai.com/docs/api-reference/embeddings/create.

    Args:
        model: the model; "" for the default.
        environ: has OPENAI_API_KEY, and OPENAI_BASE_URL for a gateway.
    """
    model = model or "text-embedding-3-small"
    base = environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    return Service(
        model_id=f"openai:{model}",
        url=f"{base.rstrip('/')}/embeddings",
        payload=lambda texts: {"model": model, "input": texts, "encoding_format": "float"},
        shape=OpenAIReply,
        rows=_read_openai,
        max_tokens=8192,
        # A request may have 300,000 tokens, and 32 texts have at most 32 x 8,192.
        batch=32,
        secrets={"authorization": f"Bearer {environ['OPENAI_API_KEY']}"},
    )


def _read_openai(reply: OpenAIReply) -> list[list[float]]:
    """Return the vectors of a reply in the order of the texts.

    Raises:
        ValueError: the indices of the vectors are not 0, 1, 2 and so on.
    """
    vectors = sorted(reply.data, key=attrgetter("index"))
    if [vector.index for vector in vectors] != list(range(len(vectors))):
        raise ValueError("vectors of which it is not clear whose they are")
    return [vector.embedding for vector in vectors]


GEMINI_DIMENSIONS = 768
"""The least of the sizes that Google recommends (768, 1536, 3072).

It takes a quarter of the space of the default.
"""

GEMINI_PREFIXES: Mapping[Purpose, str] = {
    "entry": "title: none | text: ",
    "query": "task: search result | query: ",
}
"""Prefixes by purpose; predecessors of this model had a field for it. Not checked live."""


class GeminiVector(msgspec.Struct):
    """One vector."""

    values: list[float]


class GeminiReply(msgspec.Struct):
    """The field of a reply that is read: vectors in the order of the texts."""

    embeddings: list[GeminiVector]


def make_gemini(model: str, environ: Mapping[str, str]) -> Service:
    """Return the API of Gemini: POST /v1beta/models/MODEL:batchEmbedContents.

    Its reference is ai.google.dev/api/embeddings.

    Args:
        model: the model; "" for the default.
        environ: has GEMINI_API_KEY, and GOOGLE_GEMINI_BASE_URL for a gateway.
    """
    model = model or "gemini-embedding-2"
    base = environ.get("GOOGLE_GEMINI_BASE_URL") or "https://generativelanguage.googleapis.com"

    def payload(texts: Sequence[str]) -> dict[str, object]:
        settings = {"model": f"models/{model}", "outputDimensionality": GEMINI_DIMENSIONS}
        requests = [{**settings, "content": {"parts": [{"text": text}]}} for text in texts]
        return {"requests": requests}

    return Service(
        model_id=f"gemini:{model}:{GEMINI_DIMENSIONS}",
        url=f"{base.rstrip('/')}/v1beta/models/{model}:batchEmbedContents",
        payload=payload,
        shape=GeminiReply,
        rows=lambda reply: [item.values for item in reply.embeddings],
        max_tokens=8192,
        batch=32,  # A request has 100 texts at most.
        secrets={"x-goog-api-key": environ["GEMINI_API_KEY"]},
        prefixes=GEMINI_PREFIXES,
    )


NOMIC_PREFIXES: Mapping[Purpose, str] = {
    "entry": "search_document: ",
    "query": "search_query: ",
}
"""Prefixes of its training (huggingface.co/nomic-ai/nomic-embed-text-v1.5, "Usage")."""


class OllamaReply(msgspec.Struct):
    """The field of a reply that is read."""

    embeddings: list[list[float]]


def make_ollama(model: str, environ: Mapping[str, str]) -> Service:
    """Return the API of Ollama: POST /api/embed. It needs no key.

    Texts stay on the machine that OLLAMA_HOST names. Its reference is docs.ollama.com/api/embed.

    Args:
        model: the model; "" for the default.
        environ: may have OLLAMA_HOST; this machine by default.
    """
    model = model or "nomic-embed-text"
    return Service(
        model_id=f"ollama:{model}",
        url=f"{make_ollama_url(environ.get('OLLAMA_HOST', ''))}/api/embed",
        payload=lambda texts: {"model": model, "input": texts, "truncate": True},
        shape=OllamaReply,
        rows=lambda reply: reply.embeddings,
        max_tokens=2048,  # nomic-embed-text as Ollama serves it.
        batch=32,
        prefixes=NOMIC_PREFIXES if model.startswith("nomic-embed-text") else {},
    )


def make_ollama_url(host: str) -> str:
    """Return the URL of the Ollama server that the variable OLLAMA_HOST names.

    Its value may lack the scheme and the port, and may be the address `0.0.0.0` of the server.

    >>> make_ollama_url(""), make_ollama_url("0.0.0.0:8080"), make_ollama_url("https://models.example/")
    ('http://127.0.0.1:11434', 'http://127.0.0.1:8080', 'https://models.example')
    """
    host = host.strip().rstrip("/") or "127.0.0.1"
    if "://" in host:
        return host
    url = f"http://{host.replace('0.0.0.0', '127.0.0.1')}"  # noqa: S104 - replaced, not bound to
    return url if urlsplit(url).port else f"{url}:11434"


MAKERS = {"openai": make_openai, "gemini": make_gemini, "ollama": make_ollama}
