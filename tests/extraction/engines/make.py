"""Functions that make engines, requests and replies, and a clock that does not wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from memory_ci.extraction.engines.anthropic_api import AnthropicEngine
from memory_ci.extraction.engines.faults import Clock
from memory_ci.records.candidate import Request
from memory_ci.records.config import EngineConfig
from tests.extraction.make import make_piece

KEY = "key-of-the-test-0123456789"


MADE: list[AnthropicEngine] = []
"""Engines that tests made; the fixture `close_engines` closes them."""


class FakeClock:
    """A clock that sleeping moves on.

    Without jitter the longest wait is taken.

    Attributes:
        slept: the waits, in seconds.
    """

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    @property
    def clock(self) -> Clock:
        now: Callable[[], float] = lambda: self.time  # noqa: E731
        return Clock(now, self.sleep, lambda: 0.0)


def make_request(text: str = "Never retry a POST without an idempotency key.") -> Request:
    return Request(change="#128", evidence=(make_piece(text),))


def make_learning(title: str, **fields: Any) -> dict[str, Any]:
    quotes = [{"evidence": "e1", "text": "Never retry a POST without an idempotency key."}]
    return {"title": title, "body": "", "quotes": quotes} | fields


def make_text(*learnings: dict[str, Any]) -> str:
    return json.dumps({"learnings": list(learnings)})


def make_engine(
    url: str,
    clock: FakeClock | None = None,
    call_seconds: float = 600.0,
    environ: dict[str, str] | None = None,
    **settings: Any,
) -> AnthropicEngine:
    """Return an engine for the Messages API at an address, with a key by default."""
    variables = environ if environ is not None else {"ANTHROPIC_API_KEY": KEY}
    config, environ = EngineConfig(**settings), {"ANTHROPIC_BASE_URL": url} | variables
    MADE.append(AnthropicEngine(config, environ, (clock or FakeClock()).clock, call_seconds))
    return MADE[-1]
