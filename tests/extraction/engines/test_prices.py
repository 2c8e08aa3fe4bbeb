"""Tests of the cost of calls, and of the limit that stops a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.meter import (
    DEAREST,
    PRICES,
    Meter,
    compute_cost,
    compute_max_cost,
    find_price,
)
from memory_ci.records.candidate import Usage
from memory_ci.records.config import EngineConfig

HAIKU = "claude-haiku-5-5"
MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
tokens = st.integers(0, 200_000)
usages = st.builds(Usage, tokens, tokens, tokens, tokens, st.booleans())


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-haiku-5-5", "haiku-5-5"),
        ("anthropic.claude-haiku-5-5", "haiku-5-5"),
        ("claude-haiku-4-5-20251001", "haiku-4-5"),
        ("claude-sonnet-4-5@20250929", "sonnet-4-5"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "opus-4-5"),
        ("claude-opus-5", "opus-5"),
    ],
)
def test_a_model_has_the_price_of_its_family_with_every_provider(model: str, family: str) -> None:
    assert find_price(model) is PRICES[family]


@pytest.mark.parametrize(
    "model", ["claude-opus-5-9", "claude-fable-5-2", "gpt-9", "claude-sonnet-4-20250514", ""]
)
def test_a_model_without_a_price_has_no_cost_and_the_highest_bound(model: str) -> None:
    assert compute_cost(MILLION, model) is None
    assert compute_max_cost(MILLION, model) == pytest.approx(DEAREST.input + DEAREST.output)


@pytest.mark.parametrize(
    ("usage", "usd"),
    [
        (Usage(100_000), 0.01),
        (Usage(100_001), 0.0500005),
        (Usage(100_000, 1000), 0.0105),
        (Usage(50_000, 1000, cache_read_tokens=50_001), (50_000 + 5_000.1 + 5_000) * 0.5e-6),
        (Usage(cache_write_tokens=80_000), 0.01),
        (Usage(cache_read_tokens=100_000), 0.001),
        (Usage(100_000, 1000, is_batch=True), 0.00525),
    ],
)
def test_long_prompts_caches_and_batches_have_their_own_price(usage: Usage, usd: float) -> None:
    assert compute_cost(usage, HAIKU) == pytest.approx(usd)


def test_a_configured_price_overrides_the_table() -> None:
    assert compute_cost(MILLION, HAIKU, (3.0, 4.0)) == pytest.approx(7.0)
    assert compute_cost(MILLION, "local-model", (3.0, 4.0)) == pytest.approx(7.0)


@given(usages)
def test_no_model_costs_more_than_the_bound_of_an_unknown_one(usage: Usage) -> None:
    assert all(
        (compute_cost(usage, name) or 0.0) <= compute_max_cost(usage, "unknown") + 1e-9
        for name in PRICES
    )


def test_a_meter_adds_costs_and_has_none_for_an_unknown_price() -> None:
    priced, unknown = Meter(EngineConfig()), Meter(EngineConfig(model="claude-nine"))
    for meter in (priced, unknown):
        meter.add_try()
        meter.add_call(Usage(1000, 100, 10, 1))
        meter.add_call(Usage(1000, 100, 10, 1))
    assert (priced.spent.calls, priced.spent.tries, priced.spent.usage) == (
        2,
        1,
        Usage(2000, 200, 20, 2),
    )
    assert priced.spent.cost_usd == pytest.approx(2 * (1000 * 0.1 + 1.25 * 0.1 + 0.1 + 50) / 1e6)
    assert unknown.spent.cost_usd is None


def test_a_limit_applies_to_a_model_without_a_price_and_zero_means_no_limit() -> None:
    with pytest.raises(EngineError, match=r"limit of 5 USD") as caught:
        Meter(EngineConfig(model="claude-nine")).check_next_calls(MILLION)
    assert caught.value.slug == "cost-limit"
    Meter(EngineConfig(model="claude-nine", max_cost_usd=0)).check_next_calls(MILLION)


def test_a_limit_counts_the_sum_of_all_calls_of_a_batch() -> None:
    usage = Usage(60_000, is_batch=True)
    Meter(EngineConfig(max_cost_usd=0.006)).check_next_calls(usage, usage)
    with pytest.raises(EngineError):
        Meter(EngineConfig(max_cost_usd=0.006)).check_next_calls(usage, usage, usage)
