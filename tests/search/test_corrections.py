"""What corrects an entry comes before it, and what supersedes it comes instead of it."""

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


def contradicted(entry: Entry) -> list[str]:
    return [relation.removeprefix("contradicts ") for relation in entry.relations]


def numbers(hits: Iterable[Hit]) -> list[int]:
    return [int(hit.located.entry.id[:8], 16) for hit in hits]


def put(*hits: Hit) -> tuple[list[int], list[tuple[int, str]]]:
    served, withheld = order_corrections(hits, contradicted)
    return numbers(served), [(numbers([item.hit])[0], item.why) for item in withheld]


def test_what_supersedes_an_entry_takes_its_place() -> None:
    assert put(make_hit(1), make_hit(2), make_hit(3, [1])) == (
        [3, 2],
        [(1, f"superseded by {make_id(3)[:8]}")],
    )


def test_a_better_place_is_kept() -> None:
    assert put(make_hit(3, [2]), make_hit(1), make_hit(2))[0] == [3, 1]


def test_the_newest_of_a_chain_stands_for_all() -> None:
    served, withheld = put(make_hit(1), make_hit(9), make_hit(2, [1]), make_hit(3, [2]))
    assert served == [3, 9]
    assert withheld == [
        (1, f"superseded by {make_id(3)[:8]}"),
        (2, f"superseded by {make_id(3)[:8]}"),
    ]


def test_entries_that_supersede_one_another_all_stay() -> None:
    assert put(make_hit(1, [2]), make_hit(2, [1]), make_hit(3, [3])) == ([1, 2, 3], [])


def test_a_corrective_entry_comes_before_what_it_contradicts_and_both_stay() -> None:
    correction = make_hit(3, type="corrective", relations=(f"contradicts {make_id(1)}",))
    assert put(make_hit(1), make_hit(2), correction) == ([3, 1, 2], [])


def test_another_type_that_contradicts_keeps_its_place() -> None:
    assert put(make_hit(1), make_hit(3, relations=(f"contradicts {make_id(1)}",))) == ([1, 3], [])


def test_what_is_superseded_but_not_found_changes_nothing() -> None:
    assert put(make_hit(1), make_hit(2, [7])) == ([1, 2], [])


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=8))
def test_nothing_is_lost_and_something_is_always_served(links: list[list[int]]) -> None:
    hits = [make_hit(number, olders) for number, olders in enumerate(links)]
    served, withheld = order_corrections(hits, contradicted)
    assert sorted(numbers([*served, *(item.hit for item in withheld)])) == list(range(len(links)))
    assert bool(served) == bool(hits)
