"""Tests of the metrics of an evaluation, and their confidence intervals."""

from __future__ import annotations

import pytest

from memory_ci.commands.evaluate.extraction_metrics import is_match, kappa
from memory_ci.commands.evaluate.records import GoldLabel, GoldLearning, GoldPiece, GoldWindow
from memory_ci.records.candidate import Quote
from memory_ci.records.proportion import compute_share
from tests.extraction.make import make_candidate


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    # Wilson 1927, as tabulated by Brown, Cai and DasGupta (Statistical Science 16, 2001)
    [(0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (5, 10, 0.237, 0.763), (81, 263, 0.255, 0.366)],
)
def test_a_share_has_its_wilson_interval(hits: int, total: int, low: float, high: float) -> None:
    share = compute_share(hits, total)
    assert share.low == pytest.approx(low, abs=0.001)
    assert share.high == pytest.approx(high, abs=0.001)
    assert share.value == hits / total


def test_a_share_of_nothing_is_none() -> None:
    assert (compute_share(0, 0).value, compute_share(0, 0).low) == (None, None)


def make_window(*labels: bool) -> GoldWindow:
    gold_labels = tuple(GoldLabel(name, label) for name, label in zip("ab", labels, strict=False))
    return GoldWindow(id="w", evidence=(GoldPiece("x"),), labels=gold_labels)


def test_kappa_is_agreement_beyond_chance() -> None:
    # Cohen's own example in the small: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no
    windows = [make_window(True, True)] * 20 + [make_window(True, False)] * 5
    windows += [make_window(False, True)] * 10 + [make_window(False, False)] * 15
    value, count = kappa(windows)
    assert value == pytest.approx(0.4)
    assert count == 50
    assert kappa([make_window(True, True)] * 3) == (1.0, 3)
    assert kappa([make_window(True)]) == (None, 0)


GOLD = GoldLearning("Retry only with a key", "never retry a POST without an idempotency key")


@pytest.mark.parametrize(
    ("quote", "is_right"),
    [
        ("never retry a POST without an idempotency key", True),
        ("never retry a  POST\nwithout an idempotency key, please", True),
        ("retry a POST without an idempotency key", True),
        ("never retry POST requests lacking the idempotency key", True),
        ("the build needs Node 20", False),
        ("an idempotency header is set by the gateway and never by us", False),
    ],
)
def test_a_candidate_matches_by_its_quotes(quote: str, is_right: bool) -> None:
    assert is_match(make_candidate(quotes=(Quote("e1", quote),)), GOLD) is is_right


def test_a_candidate_without_quotes_matches_nothing() -> None:
    assert not is_match(make_candidate(title=GOLD.says), GOLD)
