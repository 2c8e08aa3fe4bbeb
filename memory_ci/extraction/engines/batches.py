"""Message Batches: the calls of a long history at half price, answered within a day, in any order.

A batch outlives the process that sent it, so what is needed to fetch it later is a frozen value, kept by
`flows.record.learn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.anthropic_api import AnthropicEngine, read_message
from memory_ci.extraction.engines.faults import scrub
from memory_ci.extraction.prompt import build_prompt
from memory_ci.records.candidate import EngineReply, Request, Usage

MAX_REQUESTS = 100_000
MAX_BYTES = 200_000_000  # The API's limits are 100,000 requests and 256 MB of JSON.


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch that was sent. `ids` are the keys of its requests (`prompt.request_key`), as the API's custom_id."""

    id: str
    model: str
    ids: tuple[str, ...]
    submitted_at: datetime


def submit(engine: AnthropicEngine, requests: Mapping[str, Request], now: datetime) -> Batch:
    """Send `requests`, by their keys. It is tried once: a lost answer may stand for a paid batch.

    Raises EngineError, also [cost-limit] when the whole batch could cost more than the run may.
    """
    if engine.settings.provider != "anthropic":
        raise _refuse(f"engine.provider {engine.settings.provider} has no batches", "use provider anthropic")
    parts = {key: _build_part(engine, request) for key, request in requests.items()}
    size = sum(len(msgspec.json.encode(parameters)) for parameters, _ in parts.values())
    if size > MAX_BYTES or len(parts) > MAX_REQUESTS:
        raise _refuse(f"{len(parts)} requests of {size} bytes are too many for one batch", "take a shorter range")
    engine.meter.check(*(expected for _, expected in parts.values()))
    items = [{"custom_id": key, "params": parameters} for key, (parameters, _) in parts.items()]
    sent = engine.ask(lambda client, seconds: client.messages.batches.create(requests=items, timeout=seconds).id, 1)
    return Batch(str(sent), engine.settings.model, tuple(requests), now)


def poll(engine: AnthropicEngine, batch: Batch) -> bool:
    """Has the batch ended, so that `results` may be read? Raises EngineError."""
    status = engine.ask(
        lambda client, seconds: client.messages.batches.retrieve(batch.id, timeout=seconds).processing_status
    )
    return bool(status == "ended")


def results(engine: AnthropicEngine, batch: Batch) -> dict[str, EngineReply | EngineError]:
    """For each id of an ended batch its reply, or why it has none. Raises EngineError when none can be read."""
    lines = engine.ask(
        lambda client, seconds: {
            line.custom_id: line.result for line in client.messages.batches.results(batch.id, timeout=seconds)
        }
    )
    found = {key: _read(engine, key, lines.get(key)) for key in batch.ids}
    for reply in found.values():
        if isinstance(reply, EngineReply):
            engine.meter.add(reply.usage)
    return found


def _build_part(engine: AnthropicEngine, request: Request) -> tuple[dict[str, Any], Usage]:
    prompt = build_prompt(request)
    return engine.build_parameters(prompt), replace(engine.expect(prompt), is_batch=True)


def _read(engine: AnthropicEngine, key: str, result: Any) -> EngineReply | EngineError:  # noqa: ANN401
    if result is None:
        return _fail(key, "it is missing from the results")
    if result.type != "succeeded":
        said = getattr(getattr(getattr(result, "error", None), "error", None), "message", None)
        return _fail(key, scrub(f"{result.type}{f', {said}' if said else ''}", engine.environ))
    try:
        reply = read_message(result.message)
    except Exception as error:  # noqa: BLE001 - one odd line costs only itself
        return engine.explain(error).error
    return replace(reply, usage=replace(reply.usage, is_batch=True))


def _fail(key: str, why: str) -> EngineError:
    return EngineError(
        f"request {key[:12]} of a batch has no reply: {why}",
        slug="batch-item-failed",
        hint="it is asked again by itself; if that fails too, the next run takes it again",
    )


def _refuse(what: str, hint: str) -> EngineError:
    return EngineError(f"the batch was not sent: {what}", slug="batch-refused", hint=hint)
