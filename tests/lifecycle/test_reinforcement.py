"""Reinforcement: once per merged change, for what was given to it."""

from __future__ import annotations

from datetime import date

from memory_ci.lifecycle.reinforcement import Use, plan_reinforcement
from tests.make import make_id, make_located

DAY = date(2026, 10, 1)


def test_each_merged_change_counts_once_and_the_latest_day_stays() -> None:
    located = {make_id(1): make_located(1, reinforcement_count=2)}
    later, earlier = date(2026, 10, 5), date(2026, 10, 1)
    (change,) = plan_reinforcement(
        [Use("#1", "pr:1", later, frozenset({make_id(1)})), Use("#2", "pr:2", earlier, frozenset({make_id(1)}))],
        located,
    )
    assert (change.entry.reinforcement_count, change.entry.last_reinforced) == (4, later)
    assert (change.kind, change.path, change.why) == ("update", "MEMORY.md", "for #1, #2")


def test_a_retired_entry_is_left_alone_and_a_compacted_one_is_not() -> None:
    located = {make_id(1): make_located(1, status="retired"), make_id(2): make_located(2, status="compacted")}
    changes = plan_reinforcement([Use("#1", "pr:1", DAY, frozenset({make_id(1), make_id(2), make_id(3)}))], located)
    assert [change.entry.id for change in changes] == [make_id(2)]


def test_a_merge_before_the_last_reinforcement_does_not_turn_the_clock_back() -> None:
    located = {make_id(1): make_located(1, last_reinforced=date(2026, 11, 1))}
    (change,) = plan_reinforcement([Use("#1", "pr:1", DAY, frozenset({make_id(1)}))], located)
    assert change.entry.last_reinforced == date(2026, 11, 1)
