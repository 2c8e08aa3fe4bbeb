"""The cost of a model's calls, and the limit on the cost of a run.

Prices are from https://platform.claude.com/docs/en/about-claude/pricing and the page of each model,
as of October 2026. A batch costs half. Writing to the five-minute cache costs 1.25 times the input
price, and reading from it a tenth, or less if a row says so. `engine.price` of the configuration
overrides the table.
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
LONG_PROMPT_TOKENS = 100_000
"""Number of input tokens, with cache reads and writes, above which `Price.long_factor` applies."""

CACHE_WRITE_FACTOR = 1.25
BATCH_FACTOR = 0.5


class Price(NamedTuple):
    """A price in USD per million tokens.

    Attributes:
        input: the price of input tokens.
        output: the price of output tokens.
        cache_read: the price of tokens read from the cache, as a share of `input`.
        long_factor: the factor for a whole request with a long prompt.
    """

    input: float
    output: float
    cache_read: float = 0.1
    long_factor: float = 1.0


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
"""Prices by family: the part of a model id that all providers and dates share."""

DEAREST = max(PRICES.values())


def find_price(model: str, price: tuple[float, float] | None = None) -> Price | None:
    """Return the price of a model, or None if it is not known.

    >>> find_price("us.anthropic.claude-haiku-4-5-20251001-v1:0").output
    5
    >>> find_price("claude-opus-5-9")

    Args:
        model: the id of the model.
        price: the configured price of input and output, which overrides the table.
    """
    if price is not None:
        return Price(*price)
    for family, family_price in PRICES.items():
        # "opus-5" does not match "opus-5-9"; a date (eight digits) may follow.
        if re.search(rf"{family}(?!-?\d{{1,2}}(?!\d))", model):
            return family_price
    return None


def compute_cost(
    usage: Usage, model: str, price: tuple[float, float] | None = None
) -> float | None:
    """Return the cost of a call in USD, or None if the price of the model is not known."""
    model_price = find_price(model, price)
    return None if model_price is None else _multiply_by_price(usage, model_price)


def compute_max_cost(usage: Usage, model: str, price: tuple[float, float] | None = None) -> float:
    """Return the highest cost of a call in USD.

    A model without a known price counts as the dearest family.
    """
    return _multiply_by_price(usage, find_price(model, price) or DEAREST)


def _multiply_by_price(usage: Usage, price: Price) -> float:
    """Return the cost of a call in USD.

    Args:
        usage: the tokens of the call.
        price: the price of the model, for a million tokens.
    """
    cache_read = usage.cache_read_tokens
    cache_write = usage.cache_write_tokens
    # Tokens of the cache are counted as the input tokens that would cost the same.
    input_units = (
        usage.input_tokens + CACHE_WRITE_FACTOR * cache_write + price.cache_read * cache_read
    )
    is_long = usage.input_tokens + cache_write + cache_read > LONG_PROMPT_TOKENS
    factor = price.long_factor if is_long else 1.0
    if usage.is_batch:
        factor *= BATCH_FACTOR
    return factor * (input_units * price.input + usage.output_tokens * price.output) / MILLION


class Spent(msgspec.Struct, frozen=True):
    """The tokens and the money that a run has spent.

    Attributes:
        calls: the number of calls that were answered.
        tries: the number of requests sent, including failed ones.
        usage: the tokens of all calls.
        cost_usd: the cost in USD, None if the price of the model is not known.
    """

    calls: int = 0
    tries: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = 0.0


class Meter:
    """Adds up the calls of one run in `spent`, which the report shows."""

    def __init__(self, settings: EngineConfig) -> None:
        self.spent = Spent()
        self._settings = settings
        self._max_cost_so_far = 0.0

    def check_next_calls(self, *expected: Usage) -> None:
        """Check that the run stays below `max_cost_usd` with the next calls.

        Args:
            expected: the highest usage of each call.

        Raises:
            EngineError: cost-limit, if it might not.
        """
        model = self._settings.model
        limit = self._settings.max_cost_usd
        next_max_cost = sum(
            compute_max_cost(usage, model, self._settings.price) for usage in expected
        )
        if limit and self._max_cost_so_far + next_max_cost > limit:
            raise EngineError(
                f"the next call to {model} could cost {next_max_cost:.4f} USD,"
                f" {self._max_cost_so_far:.4f} USD are spent:"
                f" together more than the limit of {limit:g} USD a run",
                slug="cost-limit",
                hint="raise engine.max_cost_usd, or run again: what was recorded so far is not read"
                " a second time",
            )

    def add_try(self) -> None:
        """Count a request that is about to be sent."""
        self.spent = replace(self.spent, tries=self.spent.tries + 1)

    def add_call(self, usage: Usage) -> None:
        """Count one answered call: its tokens and its cost.

        The cost of the run is unknown (None) from the first call on whose price is unknown.
        """
        model = self._settings.model
        price = self._settings.price
        self._max_cost_so_far += compute_max_cost(usage, model, price)
        call_cost = compute_cost(usage, model, price)
        total = self.spent.cost_usd
        if call_cost is None or total is None:
            total = None
        else:
            total += call_cost
        self.spent = replace(
            self.spent,
            calls=self.spent.calls + 1,
            usage=_add_usages(self.spent.usage, usage),
            cost_usd=total,
        )


def _add_usages(left: Usage, right: Usage) -> Usage:
    """Return the sum of two usages; it is that of batches if all tokens are."""
    counts = [name for name in Usage.__struct_fields__ if name != "is_batch"]
    sums = {name: getattr(left, name) + getattr(right, name) for name in counts}
    is_batch = right.is_batch and (left.is_batch or left == Usage())
    return Usage(**sums, is_batch=is_batch)


def read_usage(api_usage: Any) -> Usage:  # noqa: ANN401 - of the SDK, or of the program `claude`
    """Return the tokens of a call as our record, from an object with the API's names for them."""
    return Usage(
        input_tokens=api_usage.input_tokens or 0,
        output_tokens=api_usage.output_tokens or 0,
        cache_read_tokens=api_usage.cache_read_input_tokens or 0,
        cache_write_tokens=api_usage.cache_creation_input_tokens or 0,
    )
