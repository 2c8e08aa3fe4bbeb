"""Tests of every known fault of the Messages API: the error or the surviving learnings, and the cost."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from memory_ci.errors import EngineError
from memory_ci.extraction.reply import parse_reply
from tests.deadlines import give_up_when
from tests.extraction.engines.make import (
    KEY,
    FakeClock,
    make_engine,
    make_learning,
    make_request,
    make_text,
)
from tests.extraction.engines.model_double import Answer, make_answer, make_error, serve_model

pytest.importorskip("anthropic")

FIRST, SECOND = make_learning("Retry only GET"), make_learning("Name the queue")
GOOD = make_text(FIRST, SECOND)
BOTH = ("Retry only GET", "Name the queue")
PAGE = Answer("<html><title>Sign in</title></html>", headers=(("content-type", "text/html"),))


class Row(NamedTuple):
    """A fault of the server, and its result: the error's slug, or the stop reason and the surviving titles."""

    case: str
    answer: Answer
    slug: str = ""
    stop_reason: str = "end_turn"
    survivors: tuple[str, ...] | None = ()
    requests: int = 1
    slept: tuple[float, ...] = ()


TRIED = (1.0, 2.0)
"""The waits between three tries if the server gives no time."""

ROWS = (
    Row("good", make_answer(GOOD), survivors=BOTH),
    Row("good, after thinking", make_answer(GOOD, thinking=True), survivors=BOTH),
    Row("nothing to learn", make_answer(make_text())),
    Row(
        "truncated",
        make_answer(GOOD[: GOOD.index("Name the")], "max_tokens"),
        "",
        "max_tokens",
        BOTH[:1],
    ),
    Row(
        "refusal with text", make_answer("I can't help with that.", "refusal"), "", "refusal", None
    ),
    Row("refusal without text", make_answer(None, "refusal"), "", "refusal", None),
    Row("fence", make_answer(f"```json\n{GOOD}\n```"), survivors=BOTH),
    Row(
        "prose around",
        make_answer(f"Here is what I found:\n{GOOD}\nAnything else?"),
        survivors=BOTH,
    ),
    Row(
        "wrong enum",
        make_answer(make_text(make_learning("x", adoption="guess"), SECOND)),
        survivors=BOTH[1:],
    ),
    Row(
        "wrong type",
        make_answer(make_text(FIRST, make_learning("x", instead=7))),
        survivors=BOTH[:1],
    ),
    Row("empty content", make_answer(None), survivors=None),
    Row("HTML with 200", PAGE, "engine-unreadable-reply"),
    Row("JSON of another kind with 200", Answer('{"ok": true}'), "engine-unreadable-reply"),
    Row(
        "400",
        make_error(400, "invalid_request_error", "max_tokens: too large"),
        "engine-rejected-request",
    ),
    Row("401", make_error(401, "authentication_error", "invalid x-api-key"), "engine-unauthorised"),
    Row(
        "403", make_error(403, "permission_error", "not for this workspace"), "engine-unauthorised"
    ),
    Row(
        "404",
        make_error(404, "not_found_error", "model: claude-haiku-5-5"),
        "engine-rejected-request",
    ),
    Row("413", make_error(413, "request_too_large", "too large"), "engine-rejected-request"),
    Row(
        "429 with a long Retry-After",
        make_error(429, "rate_limit_error", "slow down", retry_after="3600"),
        "engine-rate-limited",
        requests=3,
        slept=(60.0, 60.0),
    ),
    Row(
        "429 with a Retry-After that is a date",
        make_error(
            429, "rate_limit_error", "slow down", retry_after="Wed, 21 Oct 2026 07:28:00 GMT"
        ),
        "engine-rate-limited",
        requests=3,
        slept=TRIED,
    ),
    Row(
        "500",
        make_error(500, "api_error", "internal"),
        "engine-overloaded",
        requests=3,
        slept=TRIED,
    ),
    Row(
        "529",
        make_error(529, "overloaded_error", "overloaded"),
        "engine-overloaded",
        requests=3,
        slept=TRIED,
    ),
    Row("timeout", Answer("", manner="hang"), "engine-timeout", requests=3, slept=TRIED),
    Row(
        "slow trickle",
        make_answer(GOOD)._replace(manner="trickle"),
        "engine-timeout",
        requests=3,
        slept=TRIED,
    ),
    Row(
        "cut connection",
        make_answer(GOOD)._replace(manner="cut"),
        "engine-unreachable",
        requests=3,
        slept=TRIED,
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.case)
def test_a_fault_ends_as_the_manual_says(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    with serve_model(row.answer) as model:
        if row.slug == "engine-timeout":
            give_up_when(model.stuck, monkeypatch)
        engine = make_engine(model.url, clock)
        if row.slug:
            with pytest.raises(EngineError) as caught:
                engine.extract(make_request())
            assert (caught.value.slug, bool(caught.value.hint)) == (row.slug, True)
            assert KEY not in f"{caught.value} {caught.value.hint}"
        else:
            reply = engine.extract(make_request())
            assert reply.stop_reason == row.stop_reason
            assert find_survivors(reply.text) == row.survivors
        assert len(model.requests) == row.requests
        assert tuple(clock.slept) == row.slept
        assert engine.meter.spent.tries == row.requests
        assert engine.meter.spent.calls == (0 if row.slug else 1)


def find_survivors(text: str) -> tuple[str, ...] | None:
    """Return the titles of the readable learnings; None if the reply contains no list of them."""
    try:
        return tuple(learning.title for learning in parse_reply(text).learnings)
    except EngineError:
        return None


def test_a_closed_port_is_unreachable() -> None:
    with serve_model(make_answer(GOOD)) as model:
        url = model.url
    clock = FakeClock()
    with pytest.raises(EngineError) as caught:
        make_engine(url, clock).extract(make_request())
    assert (caught.value.slug, tuple(clock.slept)) == ("engine-unreachable", TRIED)


def test_a_call_that_succeeds_at_the_second_try_is_a_success() -> None:
    clock = FakeClock()
    with serve_model(make_error(529, "overloaded_error", "busy"), make_answer(GOOD)) as model:
        reply = make_engine(model.url, clock).extract(make_request())
    assert (find_survivors(reply.text), reply.tries, clock.slept) == (BOTH, 2, [1.0])


def test_a_wait_past_the_deadline_of_the_run_is_not_started() -> None:
    clock = FakeClock()
    with serve_model(make_error(429, "rate_limit_error", "slow down", retry_after="50")) as model:
        engine = make_engine(model.url, clock, deadline_seconds=80)
        with pytest.raises(EngineError) as caught:
            engine.extract(make_request())
        assert (caught.value.slug, clock.slept, len(model.requests)) == (
            "engine-deadline",
            [50.0],
            2,
        )
        clock.time += 40
        with pytest.raises(EngineError) as caught:
            engine.extract(make_request())
        assert (caught.value.slug, len(model.requests)) == ("engine-deadline", 2)


@pytest.mark.parametrize("status", [400, 401])
def test_a_key_that_a_server_sends_back_is_masked(status: int) -> None:
    message = f"no {KEY}, no sk-ant-api03-{'abcdefghij' * 3}"
    answer = make_error(status, "invalid_request_error", message)
    with serve_model(answer) as model, pytest.raises(EngineError) as caught:
        make_engine(model.url).extract(make_request())
    assert "[redacted]" in str(caught.value)
    assert KEY not in str(caught.value)
    assert "abcdefghij" not in str(caught.value)


def test_a_404_names_the_model() -> None:
    answer = make_error(404, "not_found_error", "not found")
    with serve_model(answer) as model, pytest.raises(EngineError, match="claude-nine"):
        make_engine(model.url, model="claude-nine").extract(make_request())
