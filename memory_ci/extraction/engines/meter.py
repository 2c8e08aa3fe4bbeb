"""Meter: what a run has spent so far, and whether the next call may still be paid for."""

from __future__ import annotations

import msgspec

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.prices import cost, cost_bound
from memory_ci.records.config import EngineConfig
from memory_ci.records.engine import Usage


class Spent(msgspec.Struct, frozen=True):
    """`calls` that were answered, `tries` they took (failed calls counted too), tokens, and USD.

    `cost_usd` is None when the price of the model is not known.
    """

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
        most = sum(cost_bound(usage, self._settings.model, self._settings.price) for usage in expected)
        if limit and self._bound + most > limit:
            raise EngineError(
                f"the next call to {self._settings.model} could cost {most:.4f} USD, {self._bound:.4f} USD are spent:"
                f" together more than the limit of {limit:g} USD a run",
                slug="cost-limit",
                hint="raise engine.max_cost_usd, or run again: what was recorded so far is not read a second time",
            )

    def add_try(self) -> None:
        """Count a request that is about to be sent."""
        self.spent = msgspec.structs.replace(self.spent, tries=self.spent.tries + 1)

    def add(self, usage: Usage) -> None:
        """Count one answered call."""
        model, price = self._settings.model, self._settings.price
        self._bound += cost_bound(usage, model, price)
        self.spent = msgspec.structs.replace(
            self.spent,
            calls=self.spent.calls + 1,
            usage=_add(self.spent.usage, usage),
            cost_usd=_add_known(self.spent.cost_usd, cost(usage, model, price)),
        )


def _add(left: Usage, right: Usage) -> Usage:
    """Tokens of both; `is_batch` says whether all of them were bought in batches."""
    return Usage(
        input_tokens=left.input_tokens + right.input_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        cache_read_tokens=left.cache_read_tokens + right.cache_read_tokens,
        cache_write_tokens=left.cache_write_tokens + right.cache_write_tokens,
        is_batch=right.is_batch and (left.is_batch or left == Usage()),
    )


def _add_known(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
