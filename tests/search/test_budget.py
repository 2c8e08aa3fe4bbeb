"""Tests of fitting hits into a budget of characters: whole entries, and the names of the others."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.retrieval import Hit, Norm
from memory_ci.search.rank import fit_hits, fit_norms
from tests.make import make_located


def make_hits(*sizes: int) -> list[Hit]:
    return [Hit(make_located(n, body="x" * size), 1.0, ()) for n, size in enumerate(sizes)]


def size(hit: Hit) -> int:
    return len(hit.located.entry.body)


def sizes(hits: tuple[Hit, ...]) -> list[int]:
    return [size(hit) for hit in hits]


def test_a_hit_that_is_too_large_is_skipped_and_a_smaller_one_is_kept() -> None:
    fitting, dropped = fit_hits(make_hits(40, 80, 30, 31), 100, size)
    assert (sizes(fitting), sizes(dropped)) == ([40, 30], [80, 31])


def test_hits_that_fit_exactly_are_kept() -> None:
    fitting, dropped = fit_hits(make_hits(60, 40), 100, size)
    assert (sizes(fitting), dropped) == ([60, 40], ())


@given(st.lists(st.integers(1, 50)), st.integers(-5, 200))
def test_kept_hits_fit_and_none_is_lost(costs: list[int], room: int) -> None:
    hits = make_hits(*costs)
    fitting, dropped = fit_hits(hits, room, size)
    assert sum(sizes(fitting)) <= max(room, 0)
    assert [hit for hit in hits if hit in fitting] == list(fitting)
    assert [hit for hit in hits if hit not in fitting] == list(dropped)


def make_norm(line: int, text: str, prominence: float) -> Norm:
    return Norm("institutional.md", line, text, None, prominence)


def norm_size(norm: Norm) -> int:
    return len(norm.text)


def test_norms_that_all_fit_are_all_kept_in_file_order() -> None:
    norms = [make_norm(1, "a", 0.1), make_norm(2, "b", 0.9)]
    assert fit_norms(norms, 2, norm_size) == (tuple(norms), ())


def test_of_norms_that_do_not_all_fit_the_most_prominent_are_kept_in_file_order() -> None:
    norms = [
        make_norm(1, "aaa", 0.5),
        make_norm(2, "bbb", 0.1),
        make_norm(3, "ccc", 0.9),
        make_norm(4, "d", math.nan),
    ]
    fitting, dropped = fit_norms(norms, 7, norm_size)
    assert [norm.text for norm in fitting] == ["aaa", "ccc", "d"]
    assert [norm.text for norm in dropped] == ["bbb"]
