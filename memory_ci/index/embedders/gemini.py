"""Gemini: POST /v1beta/models/MODEL:batchEmbedContents (ai.google.dev/api/embeddings)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from memory_ci.index.embedders import Purpose
from memory_ci.index.embedders.remote import Service

DEFAULT_MODEL = "gemini-embedding-2"
DEFAULT_BASE = "https://generativelanguage.googleapis.com"

DIMENSIONS = 768
"""The least of the sizes that Google recommends (768, 1536, 3072): a quarter of the space of the default."""

MAX_TOKENS = 8192
BATCH = 32  # A request holds 100 texts at most.
PREFIXES: Mapping[Purpose, str] = {"entry": "title: none | text: ", "query": "task: search result | query: "}
"""How this model is told the purpose of a text; its predecessors had a field for it. Not
checked against the live service."""


class GeminiVector(msgspec.Struct):
    """One vector."""

    values: list[float]


class GeminiReply(msgspec.Struct):
    """What is read of a reply, whose vectors are in the order of the texts."""

    embeddings: list[GeminiVector]


def make_service(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: GEMINI_API_KEY, and GOOGLE_GEMINI_BASE_URL for a gateway."""
    chosen = model or DEFAULT_MODEL
    base = (environ.get("GOOGLE_GEMINI_BASE_URL") or DEFAULT_BASE).rstrip("/")

    def payload(texts: Sequence[str]) -> dict[str, object]:
        same = {"model": f"models/{chosen}", "outputDimensionality": DIMENSIONS}
        return {"requests": [{**same, "content": {"parts": [{"text": text}]}} for text in texts]}

    return Service(
        model_id=f"gemini:{chosen}:{DIMENSIONS}",
        url=f"{base}/v1beta/models/{chosen}:batchEmbedContents",
        payload=payload,
        shape=GeminiReply,
        rows=lambda reply: [item.values for item in reply.embeddings],
        max_tokens=MAX_TOKENS,
        batch=BATCH,
        secrets={"x-goog-api-key": environ["GEMINI_API_KEY"]},
        prefixes=PREFIXES,
    )
