"""OpenAI: POST /v1/embeddings (platform.openai.com/docs/api-reference/embeddings/create)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import msgspec

from memory_ci.index.embedders.remote import Service

DEFAULT_MODEL = "text-embedding-3-small"
DEFAULT_BASE = "https://api.openai.com/v1"

MAX_TOKENS = 8192
BATCH = 32  # The service takes 2,048 texts and 300,000 tokens in a request; so many of the longest texts stay below.


class OpenAIVector(msgspec.Struct):
    """One vector; `index` is the place of its text."""

    index: int
    embedding: list[float]


class OpenAIReply(msgspec.Struct):
    """What is read of a reply."""

    data: list[OpenAIVector]


def make_service(model: str, environ: Mapping[str, str]) -> Service:
    """The API as the environment says: OPENAI_API_KEY, and OPENAI_BASE_URL for a gateway."""
    chosen = model or DEFAULT_MODEL

    def payload(texts: Sequence[str]) -> dict[str, object]:
        return {"model": chosen, "input": texts, "encoding_format": "float"}

    return Service(
        model_id=f"openai:{chosen}",
        url=f"{(environ.get('OPENAI_BASE_URL') or DEFAULT_BASE).rstrip('/')}/embeddings",
        payload=payload,
        shape=OpenAIReply,
        rows=_rows,
        max_tokens=MAX_TOKENS,
        batch=BATCH,
        secrets={"authorization": f"Bearer {environ['OPENAI_API_KEY']}"},
    )


def _rows(reply: OpenAIReply) -> list[list[float]]:
    items = sorted(reply.data, key=attrgetter("index"))
    if [item.index for item in items] != list(range(len(items))):
        raise ValueError("vectors of which it is not clear whose they are")
    return [item.embedding for item in items]
