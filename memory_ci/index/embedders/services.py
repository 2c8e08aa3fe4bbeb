"""The embedding services: OpenAI, Gemini, and Ollama, whose texts stay on the machine that OLLAMA_HOST names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from urllib.parse import urlsplit

import msgspec

from memory_ci.index.embedders import Purpose
from memory_ci.index.embedders.remote import Service

OPENAI_MODEL = "text-embedding-3-small"
OPENAI_BASE = "https://api.openai.com/v1"

OPENAI_MAX_TOKENS = 8192
OPENAI_BATCH = 32  # A request holds 2,048 texts and 300,000 tokens at most: so many of the longest stay below.


class OpenAIVector(msgspec.Struct):
    """One vector; `index` is the place of its text."""

    index: int
    embedding: list[float]


class OpenAIReply(msgspec.Struct):
    """What is read of a reply."""

    data: list[OpenAIVector]


def make_openai(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: OPENAI_API_KEY, and OPENAI_BASE_URL for a gateway.

    OpenAI: POST /v1/embeddings (platform.openai.com/docs/api-reference/embeddings/create).
    """
    chosen = model or OPENAI_MODEL

    def payload(texts: Sequence[str]) -> dict[str, object]:
        return {"model": chosen, "input": texts, "encoding_format": "float"}

    return Service(
        model_id=f"openai:{chosen}",
        url=f"{(environ.get('OPENAI_BASE_URL') or OPENAI_BASE).rstrip('/')}/embeddings",
        payload=payload,
        shape=OpenAIReply,
        rows=_openai_rows,
        max_tokens=OPENAI_MAX_TOKENS,
        batch=OPENAI_BATCH,
        secrets={"authorization": f"Bearer {environ['OPENAI_API_KEY']}"},
    )


def _openai_rows(reply: OpenAIReply) -> list[list[float]]:
    items = sorted(reply.data, key=attrgetter("index"))
    if [item.index for item in items] != list(range(len(items))):
        raise ValueError("vectors of which it is not clear whose they are")
    return [item.embedding for item in items]


GEMINI_MODEL = "gemini-embedding-2"
GEMINI_BASE = "https://generativelanguage.googleapis.com"

GEMINI_DIMENSIONS = 768
"""The least of the sizes that Google recommends (768, 1536, 3072): a quarter of the space of the default."""

GEMINI_MAX_TOKENS = 8192
GEMINI_BATCH = 32  # A request holds 100 texts at most.
GEMINI_PREFIXES: Mapping[Purpose, str] = {"entry": "title: none | text: ", "query": "task: search result | query: "}
"""How this model is told the purpose of a text; its predecessors had a field for it. Not checked live."""


class GeminiVector(msgspec.Struct):
    """One vector."""

    values: list[float]


class GeminiReply(msgspec.Struct):
    """What is read of a reply, whose vectors are in the order of the texts."""

    embeddings: list[GeminiVector]


def make_gemini(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: GEMINI_API_KEY, and GOOGLE_GEMINI_BASE_URL for a gateway.

    Gemini: POST /v1beta/models/MODEL:batchEmbedContents (ai.google.dev/api/embeddings).
    """
    chosen = model or GEMINI_MODEL
    base = (environ.get("GOOGLE_GEMINI_BASE_URL") or GEMINI_BASE).rstrip("/")

    def payload(texts: Sequence[str]) -> dict[str, object]:
        same = {"model": f"models/{chosen}", "outputDimensionality": GEMINI_DIMENSIONS}
        return {"requests": [{**same, "content": {"parts": [{"text": text}]}} for text in texts]}

    return Service(
        model_id=f"gemini:{chosen}:{GEMINI_DIMENSIONS}",
        url=f"{base}/v1beta/models/{chosen}:batchEmbedContents",
        payload=payload,
        shape=GeminiReply,
        rows=lambda reply: [item.values for item in reply.embeddings],
        max_tokens=GEMINI_MAX_TOKENS,
        batch=GEMINI_BATCH,
        secrets={"x-goog-api-key": environ["GEMINI_API_KEY"]},
        prefixes=GEMINI_PREFIXES,
    )


OLLAMA_MODEL = "nomic-embed-text"
OLLAMA_PORT = 11434

OLLAMA_MAX_TOKENS = 2048  # What nomic-embed-text reads as Ollama serves it.
NOMIC: Mapping[Purpose, str] = {"entry": "search_document: ", "query": "search_query: "}
"""What the model was trained with (huggingface.co/nomic-ai/nomic-embed-text-v1.5, "Usage")."""


class OllamaReply(msgspec.Struct):
    """What is read of a reply."""

    embeddings: list[list[float]]


def make_ollama(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: OLLAMA_HOST, or this machine. It takes no key.

    Ollama: POST /api/embed (docs.ollama.com/api/embed). Texts stay on the machine that OLLAMA_HOST names.
    """
    chosen = model or OLLAMA_MODEL

    def payload(texts: Sequence[str]) -> dict[str, object]:
        return {"model": chosen, "input": texts, "truncate": True}

    return Service(
        model_id=f"ollama:{chosen}",
        url=f"{address(environ.get('OLLAMA_HOST', ''))}/api/embed",
        payload=payload,
        shape=OllamaReply,
        rows=lambda reply: reply.embeddings,
        max_tokens=OLLAMA_MAX_TOKENS,
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
    return f"http://{place}" if urlsplit(f"http://{place}").port else f"http://{place}:{OLLAMA_PORT}"


MAKERS = {"openai": make_openai, "gemini": make_gemini, "ollama": make_ollama}
