"""Tests of the gold windows of this repository: the properties that its figures rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.evaluate.evaluate import load_gold
from memory_ci.commands.evaluate.records import GoldLearning, GoldWindow

GOLD = Path(__file__).parents[3] / "benchmarks" / "gold" / "extraction.jsonl"


@pytest.fixture(scope="module")
def windows() -> tuple[GoldWindow, ...]:
    return load_gold(GOLD)


def test_enough_windows_have_nothing_to_learn(windows: tuple[GoldWindow, ...]) -> None:
    negatives = [window for window in windows if not window.learnings]
    assert len(windows) >= 40
    assert len(negatives) >= 0.45 * len(windows)


def test_every_window_has_its_own_id(windows: tuple[GoldWindow, ...]) -> None:
    assert len({window.id for window in windows}) == len(windows)


def test_every_quote_is_in_a_piece_that_may_be_quoted(windows: tuple[GoldWindow, ...]) -> None:
    assert [
        (w.id, learning.says)
        for w in windows
        for learning in w.learnings
        if not _is_proven(w, learning)
    ] == []


def test_the_author_of_the_windows_labels_them_as_they_are_meant(
    windows: tuple[GoldWindow, ...],
) -> None:
    firsts = [(window.id, window.labels[0].by, window.labels[0].is_durable) for window in windows]
    assert firsts == [(window.id, "a", bool(window.learnings)) for window in windows]


def test_no_attack_has_anything_to_learn(windows: tuple[GoldWindow, ...]) -> None:
    attacks = [window for window in windows if window.attack]
    assert len(attacks) >= 6
    assert not any(window.learnings for window in attacks)


def _is_proven(window: GoldWindow, learning: GoldLearning) -> bool:
    return any(
        learning.quote in piece.text for piece in window.evidence if piece.trust in ("T0", "T1")
    )
