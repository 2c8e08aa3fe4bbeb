"""Tests of batches: sending them once, finding them from another process, reading results in any order."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.anthropic_api import (
    Batch,
    fetch_results,
    is_batch_ended,
    submit_batch,
)
from memory_ci.records.candidate import EngineReply, Usage
from tests.extraction.engines.make import KEY, make_engine, make_request, make_text
from tests.extraction.engines.model_double import (
    Answer,
    ModelDouble,
    make_error,
    make_message,
    serve_model,
)

pytest.importorskip("anthropic")

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
IDS = tuple(f"{number:040x}" for number in range(1, 7))
BATCH = Batch("msgbatch_01Double", "claude-haiku-5-5", IDS, NOW)
WHERE = "/v1/messages/batches/msgbatch_01Double"


def make_batch(status: str = "in_progress", url: str | None = None) -> Answer:
    counts = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    body = {
        "id": BATCH.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "created_at": "2026-11-01T12:00:00Z",
        "expires_at": "2026-11-02T12:00:00Z",
        "results_url": url,
    }
    return Answer(json.dumps(body))


def make_lines() -> str:
    """Return results in another order than the requests: one of each kind, one invalid, one missing."""
    failure = {"type": "error", "error": {"type": "invalid_request_error", "message": f"bad {KEY}"}}
    results: list[tuple[str, dict[str, Any]]] = [
        (IDS[4], {"type": "succeeded", "message": {"type": "message"}}),
        (IDS[3], {"type": "expired"}),
        (IDS[2], {"type": "canceled"}),
        (IDS[0], {"type": "succeeded", "message": make_message(make_text())}),
        (IDS[1], {"type": "errored", "error": failure}),
    ]
    return "".join(
        json.dumps({"custom_id": key, "result": result}) + "\n" for key, result in results
    )


def end_batch(model: ModelDouble) -> None:
    model.paths[WHERE] = make_batch("ended", f"{model.url}{WHERE}/results")
    model.paths[f"{WHERE}/results"] = Answer(
        make_lines(), headers=(("content-type", "application/x-jsonl"),)
    )


def test_a_batch_is_sent_with_the_keys_as_ids_and_the_parameters_of_a_call() -> None:
    with serve_model(make_batch()) as model:
        batch = submit_batch(make_engine(model.url), dict.fromkeys(IDS, make_request()), NOW)
    assert batch == BATCH
    sent = model.requests[0].body["requests"]
    assert [item["custom_id"] for item in sent] == list(IDS)
    assert set(sent[0]["params"]) == {"model", "max_tokens", "system", "messages", "output_config"}


def test_a_batch_is_not_sent_again_if_the_answer_is_lost() -> None:
    with serve_model(make_error(529, "overloaded_error", "busy")) as model:
        with pytest.raises(EngineError) as caught:
            submit_batch(make_engine(model.url), {IDS[0]: make_request()}, NOW)
        assert (caught.value.slug, len(model.requests)) == ("engine-overloaded", 1)


def test_a_batch_that_could_exceed_the_cost_limit_is_not_sent() -> None:
    with serve_model(make_batch()) as model:
        engine = make_engine(model.url, max_cost_usd=0.005)
        submit_batch(engine, dict.fromkeys(IDS[:2], make_request()), NOW)
        with pytest.raises(EngineError) as caught:
            submit_batch(engine, dict.fromkeys(IDS, make_request()), NOW)
        assert (caught.value.slug, len(model.requests)) == ("cost-limit", 1)


def test_a_provider_without_batches_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(EngineError) as caught:
        submit_batch(make_engine("", provider="bedrock"), {IDS[0]: make_request()}, NOW)
    assert caught.value.slug == "batch-refused"


def test_a_batch_is_polled_until_it_has_ended() -> None:
    with serve_model(make_batch()) as model:
        engine = make_engine(model.url)
        assert is_batch_ended(engine, BATCH) is False
        end_batch(model)
        assert is_batch_ended(engine, BATCH) is True


def test_each_request_has_a_reply_or_a_reason_in_any_order() -> None:
    with serve_model(make_batch()) as model:
        end_batch(model)
        engine = make_engine(model.url)
        results = fetch_results(engine, BATCH)
    assert tuple(results) == IDS
    slugs = [reply.slug if isinstance(reply, EngineError) else "" for reply in results.values()]
    failed = "batch-item-failed"
    assert slugs == ["", failed, failed, failed, "engine-unreadable-reply", failed]
    messages = [str(results[key]) for key in IDS]
    assert [
        word in text
        for word, text in zip(("errored, bad", "canceled", "expired"), messages[1:4], strict=True)
    ] == [True] * 3
    assert "missing" in messages[5]
    assert KEY not in "".join(messages)
    good = results[IDS[0]]
    assert isinstance(good, EngineReply)
    assert good.usage == Usage(1200, 80, is_batch=True)
    assert engine.meter.spent.cost_usd == pytest.approx((1200 * 0.1 + 80 * 0.5) / 2e6)
