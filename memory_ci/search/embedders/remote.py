"""Embedding services over HTTP: batches, limits of length, checks of the reply; bounded in time, size and tries.

A redirect is not followed at all: neither the key nor a text goes to a host that was not named.
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
from memory_ci.search.embedders import Purpose, Vectors, failed, pack_vectors
from memory_ci.text import estimate_tokens

T = TypeVar("T")
MAX_BYTES = 100_000_000
TRANSIENT = frozenset({429, 500, 502, 503, 504, 529})
REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class Patience(NamedTuple):
    """What may be spent on one service, all in seconds: connecting, one silence, all requests together. `pauses` are
    the waits between tries where the service names none; after the last of them it is given up."""

    connect: float = 3.0
    read: float = 10.0
    total: float = 15.0
    pauses: tuple[float, ...] = (0.5, 1.0)


HURRIED = Patience()  # While an agent waits.
UNHURRIED = Patience(
    connect=10.0, read=60.0, total=3600.0, pauses=(1.0, 5.0, 20.0)
)  # While a whole index is embedded.


class Service(NamedTuple):
    """One API. `payload` of texts is what it is sent, `rows` what is read of its reply, of type `shape`. `max_tokens`
    is what the model reads of one text, `batch` how many texts fit in a request; `prefixes` stand before a text, by its
    purpose."""

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
    """An embedder that asks `service`, within `patience`. Texts leave the machine: callers redact them first. Raises
    EngineError: embedder-unauthorised for a key that no header can hold (the library below would print it),
    embedder-failed for a key that would travel unencrypted."""

    def __init__(self, service: Service, patience: Patience = HURRIED) -> None:
        self.model_id = service.model_id
        self._service, self._patience = service, patience
        self._host = urlsplit(service.url).hostname or "the embedder"
        self._headers = {
            "content-type": "application/json",
            "user-agent": "memory-ci",
            **service.secrets,
        }
        self._end = time.monotonic() + patience.total
        if not all(value.isascii() and value.isprintable() for value in service.secrets.values()):
            raise self._unauthorised()
        if service.secrets and not (is_secure(service.url) or is_loopback(service.url)):
            raise failed(self._host, "was not asked: a key travels by https only")

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        """A vector for each text, in order. Raises EngineError (embedder-failed, embedder-unauthorised)."""
        prefix, batch = self._service.prefixes.get(purpose, ""), self._service.batch
        dim, data = 0, array("f")
        for start in range(0, len(texts), batch):
            part = self._ask(
                [
                    prefix + cut(text, self._service.max_tokens)
                    for text in texts[start : start + batch]
                ]
            )
            if part.dim != (dim or part.dim):
                raise failed(self._host, f"gave vectors of {dim} and of {part.dim} numbers")
            dim = part.dim
            data += part.data
        return Vectors(dim, data)

    def _ask(self, texts: Sequence[str]) -> Vectors:
        body = msgspec.json.encode(self._service.payload(texts))
        rows = try_again(partial(self._try, body), self._patience.pauses, self._wait)
        if isinstance(rows, FailedTry):
            raise rows.error
        try:
            if len(rows) != len(texts):
                raise ValueError(f"{len(rows)} vectors for {len(texts)} texts")
            return pack_vectors(rows)
        except ValueError as error:
            raise failed(self._host, f"gave {error}") from error

    def _wait(self, seconds: float) -> bool:
        if time.monotonic() + seconds >= self._end:
            return False
        time.sleep(seconds)
        return True

    def _try(self, body: bytes) -> Sequence[Sequence[float]] | FailedTry:
        def final(what: str) -> FailedTry:
            return FailedTry(failed(self._host, what), is_final=True)

        left = self._end - time.monotonic()
        if left <= 0:
            return final("took all the time that there was")
        limits = Limits(
            min(self._patience.connect, left), min(self._patience.read, left), left, MAX_BYTES
        )
        try:
            with open_pool() as pool:
                reply = exchange(
                    pool, "POST", self._service.url, limits, headers=self._headers, body=body
                )
        except TimeoutError:
            return final("did not finish its answer in time")
        except ConnectionError as error:
            return FailedTry(failed(self._host, f"could not be read: {error}"))
        except OverflowError:
            return final(f"answered with more than {MAX_BYTES:,} bytes")
        if reply.status != HTTPStatus.OK:
            return self._trouble(reply.status, reply.headers.get("retry-after", ""))
        try:
            return self._service.rows(msgspec.json.decode(reply.body, type=self._service.shape))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return final("answered with something else than vectors")
        except ValueError as error:
            return final(f"gave {error}")

    def _trouble(self, status: int, retry_after: str) -> FailedTry:
        if status in REFUSALS:
            return FailedTry(self._unauthorised(), is_final=True)
        what, pause = f"answered with status {status}", None
        if status == HTTPStatus.NOT_FOUND:
            what = "does not know the model that it was asked for"
        elif status == HTTPStatus.TOO_MANY_REQUESTS:
            pause = float(retry_after[:9]) if retry_after.isdecimal() else None
            when = "later" if pause is None else f"in {retry_after} s"
            what = f"limits how often it is asked; it may be asked again {when}"
        return FailedTry(failed(self._host, what), pause, is_final=status not in TRANSIENT)

    def _unauthorised(self) -> EngineError:
        hint = "Give a key for embeddings (`memory-ci help embedders`), or set retrieve.embedder to local or none."
        return EngineError(
            f"{self._host} does not accept the key", slug="embedder-unauthorised", hint=hint
        )


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


class OpenAIVector(msgspec.Struct):
    """One vector; `index` is the place of its text."""

    index: int
    embedding: list[float]


class OpenAIReply(msgspec.Struct):
    """What is read of a reply."""

    data: list[OpenAIVector]


def make_openai(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: OPENAI_API_KEY, and OPENAI_BASE_URL for a gateway. OpenAI: POST /v1/embeddings
    (platform.openai.com/docs/api-reference/embeddings/create)."""
    chosen = model or "text-embedding-3-small"

    def rows(reply: OpenAIReply) -> list[list[float]]:
        items = sorted(reply.data, key=attrgetter("index"))
        if [item.index for item in items] != list(range(len(items))):
            raise ValueError("vectors of which it is not clear whose they are")
        return [item.embedding for item in items]

    return Service(
        model_id=f"openai:{chosen}",
        url=f"{(environ.get('OPENAI_BASE_URL') or 'https://api.openai.com/v1').rstrip('/')}/embeddings",
        payload=lambda texts: {"model": chosen, "input": texts, "encoding_format": "float"},
        shape=OpenAIReply,
        rows=rows,
        max_tokens=8192,
        batch=32,  # A request holds 2,048 texts and 300,000 tokens at most: so many of the longest stay below.
        secrets={"authorization": f"Bearer {environ['OPENAI_API_KEY']}"},
    )


# The least of the sizes that Google recommends (768, 1536, 3072): a quarter of the space of the default.
GEMINI_DIMENSIONS = 768
# How this model is told the purpose of a text; its predecessors had a field for it. Not checked live.
GEMINI_PREFIXES: Mapping[Purpose, str] = {
    "entry": "title: none | text: ",
    "query": "task: search result | query: ",
}


class GeminiVector(msgspec.Struct):
    """One vector."""

    values: list[float]


class GeminiReply(msgspec.Struct):
    """What is read of a reply, whose vectors are in the order of the texts."""

    embeddings: list[GeminiVector]


def make_gemini(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: GEMINI_API_KEY, and GOOGLE_GEMINI_BASE_URL for a gateway. Gemini: POST
    /v1beta/models/MODEL:batchEmbedContents (ai.google.dev/api/embeddings)."""
    chosen = model or "gemini-embedding-2"
    base = (
        environ.get("GOOGLE_GEMINI_BASE_URL") or "https://generativelanguage.googleapis.com"
    ).rstrip("/")

    def payload(texts: Sequence[str]) -> dict[str, object]:
        same = {"model": f"models/{chosen}", "outputDimensionality": GEMINI_DIMENSIONS}
        return {"requests": [{**same, "content": {"parts": [{"text": text}]}} for text in texts]}

    return Service(
        model_id=f"gemini:{chosen}:{GEMINI_DIMENSIONS}",
        url=f"{base}/v1beta/models/{chosen}:batchEmbedContents",
        payload=payload,
        shape=GeminiReply,
        rows=lambda reply: [item.values for item in reply.embeddings],
        max_tokens=8192,
        batch=32,  # A request holds 100 texts at most.
        secrets={"x-goog-api-key": environ["GEMINI_API_KEY"]},
        prefixes=GEMINI_PREFIXES,
    )


# What the model was trained with (huggingface.co/nomic-ai/nomic-embed-text-v1.5, "Usage").
NOMIC: Mapping[Purpose, str] = {"entry": "search_document: ", "query": "search_query: "}


class OllamaReply(msgspec.Struct):
    """What is read of a reply."""

    embeddings: list[list[float]]


def make_ollama(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: OLLAMA_HOST, or this machine. It takes no key. Ollama: POST /api/embed
    (docs.ollama.com/api/embed). Texts stay on the machine that OLLAMA_HOST names."""
    chosen = model or "nomic-embed-text"
    return Service(
        model_id=f"ollama:{chosen}",
        url=f"{address(environ.get('OLLAMA_HOST', ''))}/api/embed",
        payload=lambda texts: {"model": chosen, "input": texts, "truncate": True},
        shape=OllamaReply,
        rows=lambda reply: reply.embeddings,
        max_tokens=2048,  # What nomic-embed-text reads as Ollama serves it.
        batch=32,
        prefixes=NOMIC if chosen.startswith("nomic-embed-text") else {},
    )


def address(host: str) -> str:
    """The address that OLLAMA_HOST means: it may lack the scheme and the port, and be a server's `0.0.0.0`.

    >>> address(""), address("0.0.0.0:8080"), address("https://models.example/")
    ('http://127.0.0.1:11434', 'http://127.0.0.1:8080', 'https://models.example')
    """
    written = host.strip().rstrip("/") or "127.0.0.1"
    if "://" in written:
        return written
    place = written.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - replaced, not bound to
    return f"http://{place}" if urlsplit(f"http://{place}").port else f"http://{place}:11434"


MAKERS = {"openai": make_openai, "gemini": make_gemini, "ollama": make_ollama}
