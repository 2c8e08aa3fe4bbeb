"""Ollama: POST /api/embed (docs.ollama.com/api/embed). Texts stay on the machine that OLLAMA_HOST names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from memory_ci.index.embedders import Purpose
from memory_ci.index.embedders.remote import Service

DEFAULT_MODEL = "nomic-embed-text"
DEFAULT_PORT = 11434

MAX_TOKENS = 2048  # What nomic-embed-text reads as Ollama serves it.
NOMIC: Mapping[Purpose, str] = {"entry": "search_document: ", "query": "search_query: "}
"""What the model was trained with (huggingface.co/nomic-ai/nomic-embed-text-v1.5, "Usage")."""


class OllamaReply(msgspec.Struct):
    """What is read of a reply."""

    embeddings: list[list[float]]


def make_service(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: OLLAMA_HOST, or this machine. It takes no key."""
    chosen = model or DEFAULT_MODEL

    def payload(texts: Sequence[str]) -> dict[str, object]:
        return {"model": chosen, "input": texts, "truncate": True}

    return Service(
        model_id=f"ollama:{chosen}",
        url=f"{address(environ.get('OLLAMA_HOST', ''))}/api/embed",
        payload=payload,
        shape=OllamaReply,
        rows=lambda reply: reply.embeddings,
        max_tokens=MAX_TOKENS,
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
    return f"http://{place}" if urlsplit(f"http://{place}").port else f"http://{place}:{DEFAULT_PORT}"
