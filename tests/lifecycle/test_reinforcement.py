"""Tests of reinforcement: a merged change counts once for the entries that it was served or touched."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

import pytest

from memory_ci.lifecycle.reinforcement import Use, find_touched, plan_reinforcement
from tests.make import make_entry, make_id, make_located

DAY = date(2026, 10, 1)


def test_each_merged_change_counts_once_and_the_latest_day_stays() -> None:
    located = {make_id(1): make_located(1, reinforcement_count=2)}
    later, earlier = date(2026, 10, 5), date(2026, 10, 1)
    (change,) = plan_reinforcement(
        [
            Use("#1", "pr:1", later, frozenset({make_id(1)})),
            Use("#2", "pr:2", earlier, frozenset({make_id(1)})),
        ],
        located,
    )
    assert (change.entry.reinforcement_count, change.entry.last_reinforced) == (4, later)
    assert (change.kind, change.path, change.why) == ("update", "MEMORY.md", "for #1, #2")


def test_a_retired_entry_is_left_alone_and_a_compacted_one_is_not() -> None:
    located = {
        make_id(1): make_located(1, status="retired"),
        make_id(2): make_located(2, status="compacted"),
    }
    changes = plan_reinforcement(
        [Use("#1", "pr:1", DAY, frozenset({make_id(1), make_id(2), make_id(3)}))], located
    )
    assert [change.entry.id for change in changes] == [make_id(2)]


def test_an_earlier_merge_does_not_lower_the_date_of_reinforcement() -> None:
    located = {make_id(1): make_located(1, last_reinforced=date(2026, 11, 1))}
    (change,) = plan_reinforcement([Use("#1", "pr:1", DAY, frozenset({make_id(1)}))], located)
    assert change.entry.last_reinforced == date(2026, 11, 1)


ENTRY = make_entry(
    1,
    title="Send a key with each charge",
    body="`make_charge_key` has it.",
    cites=("src/client.py@0123456789ab",),
)


@pytest.mark.parametrize(
    ("paths", "message", "added", "is_touched"),
    [
        (["src/client.py"], "Send the key of a charge once", "", True),
        (["src/client.py"], "Rename it", "    return make_charge_key(order)", True),
        (["docs/a.md"], "A charge has a key to send", "make_charge_key(order)", True),
        (["src/client.py"], "Rename it", "return order", False),
        (["docs/a.md"], "Rename it", "make_charge_key(order)", False),
    ],
)
def test_an_entry_is_touched_if_two_of_three_signs_hold(
    paths: Collection[str], message: str, added: str, is_touched: bool
) -> None:
    assert bool(find_touched([ENTRY], [ENTRY], paths, message, lambda: added)) == is_touched


def test_an_identifier_that_three_entries_name_is_not_rare() -> None:
    others = [make_entry(number, body="`make_charge_key` is old.") for number in (2, 3)]
    assert (
        find_touched([ENTRY], [ENTRY, *others], ["src/client.py"], "", lambda: "make_charge_key()")
        == frozenset()
    )
    assert find_touched(
        [ENTRY], [ENTRY, others[0]], ["src/client.py"], "", lambda: "make_charge_key()"
    ) == {ENTRY.id}
