"""Tests of corrections: an entry that corrects another comes before it, and one that supersedes it replaces it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit
from memory_ci.search.rank import order_corrections
from tests.make import make_id, make_located


def make_hit(number: int, supersedes: Iterable[int] = (), **fields: Any) -> Hit:
    return Hit(make_located(number, supersedes=tuple(map(make_id, supersedes)), **fields), 1.0, ())


def list_contradicted(entry: Entry) -> list[str]:
    return [relation.removeprefix("contradicts ") for relation in entry.relations]


def numbers(hits: Iterable[Hit]) -> list[int]:
    return [int(hit.located.entry.id[:8], 16) for hit in hits]


def correct(*hits: Hit) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the numbers of the ordered hits, and of the withheld ones with their reasons."""
    served, withheld = order_corrections(hits, list_contradicted)
    return numbers(served), [(numbers([item.hit])[0], item.why) for item in withheld]


def test_a_superseding_entry_takes_the_place_of_the_superseded() -> None:
    assert correct(make_hit(1), make_hit(2), make_hit(3, [1])) == (
        [3, 2],
        [(1, f"superseded by {make_id(3)[:8]}")],
    )


def test_a_superseding_entry_keeps_its_better_place() -> None:
    assert correct(make_hit(3, [2]), make_hit(1), make_hit(2))[0] == [3, 1]


def test_the_newest_of_a_chain_replaces_all_others() -> None:
    served, withheld = correct(make_hit(1), make_hit(9), make_hit(2, [1]), make_hit(3, [2]))
    assert served == [3, 9]
    assert withheld == [
        (1, f"superseded by {make_id(3)[:8]}"),
        (2, f"superseded by {make_id(3)[:8]}"),
    ]


def test_entries_that_supersede_each_other_all_stay() -> None:
    assert correct(make_hit(1, [2]), make_hit(2, [1]), make_hit(3, [3])) == ([1, 2, 3], [])


def test_a_corrective_entry_comes_before_what_it_contradicts_and_both_stay() -> None:
    correction = make_hit(3, type="corrective", relations=(f"contradicts {make_id(1)}",))
    assert correct(make_hit(1), make_hit(2), correction) == ([3, 1, 2], [])


def test_a_contradicting_entry_of_another_type_keeps_its_place() -> None:
    assert correct(make_hit(1), make_hit(3, relations=(f"contradicts {make_id(1)}",))) == (
        [1, 3],
        [],
    )


def test_a_superseded_entry_that_is_not_among_the_hits_changes_nothing() -> None:
    assert correct(make_hit(1), make_hit(2, [7])) == ([1, 2], [])


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=8))
def test_no_hit_is_lost_and_at_least_one_is_served(links: list[list[int]]) -> None:
    hits = [make_hit(number, olders) for number, olders in enumerate(links)]
    served, withheld = order_corrections(hits, list_contradicted)
    assert sorted(numbers([*served, *(item.hit for item in withheld)])) == list(range(len(links)))
    assert bool(served) == bool(hits)
