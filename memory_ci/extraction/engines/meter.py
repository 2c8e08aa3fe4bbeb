"""Meter: what a model costs, what a run has spent, and whether the next call may still be paid for.

Prices: https://platform.claude.com/docs/en/about-claude/pricing, and the page of each model, as they stood in October
2026. A batch costs half; writing to the five-minute cache 1.25 times the input price; reading from it a tenth, less
where a row says so. `engine.price` of the configuration overrides the table.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.records.candidate import Usage
from memory_ci.records.config import EngineConfig

MILLION = 1_000_000
# Above this many tokens (cache reads and writes counted) a whole request is billed at `Price.long_factor`.
LONG_PROMPT_TOKENS = 100_000
CACHE_WRITE = 1.25
BATCH = 0.5


class Price(NamedTuple):
    """USD per million tokens. `cache_read` is a share of `input`."""

    input: float
    output: float
    cache_read: float = 0.1
    long_factor: float = 1.0


# By family: the part of a model id that is the same with every provider and date.
PRICES = {
    **dict.fromkeys(("fable-5-1", "mythos-5-1"), Price(10, 50, cache_read=0.025)),
    **dict.fromkeys(("fable-5", "mythos-5"), Price(10, 50)),
    "opus-5-5": Price(4, 20, cache_read=0.05),
    **dict.fromkeys(("opus-5", "opus-4-8", "opus-4-7", "opus-4-6", "opus-4-5"), Price(5, 25)),
    "sonnet-5-5": Price(2, 10, cache_read=0.05),
    "sonnet-5": Price(2, 10),
    **dict.fromkeys(("sonnet-4-6", "sonnet-4-5"), Price(3, 15)),
    "haiku-5-5": Price(0.10, 0.50, long_factor=5),
    "haiku-4-5": Price(1, 5),
}
DEAREST = max(PRICES.values())


def find_price(model: str, price: tuple[float, float] | None = None) -> Price | None:
    """The price of `model`, or the configured `price` (input, output); None when neither is known.

    >>> find_price("us.anthropic.claude-haiku-4-5-20251001-v1:0").output
    5
    >>> find_price("claude-opus-5-9")
    """
    if price is not None:
        return Price(*price)
    # "opus-5" is no price for "opus-5-9"; a date (eight digits) may follow.
    return next(
        (row for name, row in PRICES.items() if re.search(rf"{name}(?!-?\d{{1,2}}(?!\d))", model)),
        None,
    )


def cost(usage: Usage, model: str, price: tuple[float, float] | None = None) -> float | None:
    """USD that one call with `usage` costs; None when the model's price is not known."""
    found = find_price(model, price)
    return None if found is None else _cost(usage, found)


def cost_bound(usage: Usage, model: str, price: tuple[float, float] | None = None) -> float:
    """USD that one call with `usage` costs at most: a model without a known price counts as the dearest family."""
    return _cost(usage, find_price(model, price) or DEAREST)


def _cost(usage: Usage, price: Price) -> float:
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    paid = usage.input_tokens + CACHE_WRITE * write + price.cache_read * read
    is_long = usage.input_tokens + write + read > LONG_PROMPT_TOKENS
    factor = (price.long_factor if is_long else 1.0) * (BATCH if usage.is_batch else 1.0)
    return factor * (paid * price.input + usage.output_tokens * price.output) / MILLION


class Spent(msgspec.Struct, frozen=True):
    """`calls` that were answered, `tries` they took (failed calls counted too), tokens, and USD. `cost_usd` is None
    when the price of the model is not known."""

    calls: int = 0
    tries: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = 0.0


class Meter:
    """Adds up one run. `spent` is a frozen value: what the report shows."""

    def __init__(self, settings: EngineConfig) -> None:
        self.spent = Spent()
        self._settings = settings
        self._bound = 0.0

    def check(self, *expected: Usage) -> None:
        """Raises EngineError [cost-limit] when calls that use at most `expected` could pass `max_cost_usd`."""
        limit = self._settings.max_cost_usd
        most = sum(
            cost_bound(usage, self._settings.model, self._settings.price) for usage in expected
        )
        if limit and self._bound + most > limit:
            raise EngineError(
                f"the next call to {self._settings.model} could cost {most:.4f} USD, {self._bound:.4f} USD are spent:"
                f" together more than the limit of {limit:g} USD a run",
                slug="cost-limit",
                hint="raise engine.max_cost_usd, or run again: what was recorded so far is not read a second time",
            )

    def add_try(self) -> None:
        """Count a request that is about to be sent."""
        self.spent = replace(self.spent, tries=self.spent.tries + 1)

    def add(self, usage: Usage) -> None:
        """Count one answered call."""
        model, price = self._settings.model, self._settings.price
        self._bound += cost_bound(usage, model, price)
        now, before = cost(usage, model, price), self.spent.cost_usd
        total = None if now is None or before is None else before + now
        self.spent = replace(
            self.spent,
            calls=self.spent.calls + 1,
            usage=_add(self.spent.usage, usage),
            cost_usd=total,
        )


def _add(left: Usage, right: Usage) -> Usage:
    """Tokens of both; `is_batch` says whether all of them were bought in batches."""
    sums = {
        name: getattr(left, name) + getattr(right, name)
        for name in Usage.__struct_fields__
        if name != "is_batch"
    }
    return Usage(**sums, is_batch=right.is_batch and (left.is_batch or left == Usage()))


def read_usage(told: Any) -> Usage:  # noqa: ANN401 - the SDK's, or that of the program `claude`
    """The usage under the names of the API."""
    return Usage(
        input_tokens=told.input_tokens or 0,
        output_tokens=told.output_tokens or 0,
        cache_read_tokens=told.cache_read_input_tokens or 0,
        cache_write_tokens=told.cache_creation_input_tokens or 0,
    )
