"""Tests of `retrieve --explain`: why entries were served, and others not."""

from __future__ import annotations

from typing import Any

from memory_ci.commands.retrieve.explanation import render_explanation
from memory_ci.records.anchor import Verdict
from memory_ci.records.retrieval import Hit, Retrieval, Withheld
from tests.make import make_located


def make_hit(number: int, **fields: Any) -> Hit:
    factors = (("relevance", 0.5), ("truth", 0.5))
    verdicts = (Verdict("changed", "a.py", 3, 4),)
    return Hit(make_located(number, **fields), 0.25, factors, (("lexical", 3.25),), verdicts)


def test_every_factor_lane_and_verdict_and_every_reason_is_named() -> None:
    retrieval = Retrieval(
        task="x",
        mode="lexical",
        verdict="WEAK",
        hits=(make_hit(1),),
        hits_dropped=(make_hit(2),),
        withheld=(Withheld(make_hit(3), "gone: a.py (removed)"),),
    )
    assert render_explanation(retrieval) == (
        "Found by words · a weak match · 0 norms · 1 entry given · 2 not\n"
        " 1. 00000001 Learning number 1 (procedural, project) MEMORY.md:1\n"
        "      0.2500 = relevance 0.500 x truth 0.500\n"
        "      raw: words 3.250\n"
        "      changed: a.py:3\n"
        " -  00000002 Learning number 2 (procedural, project): left out, no room\n"
        " -  00000003 Learning number 3 (procedural, project): withheld, gone: a.py (removed)\n"
    )


def test_a_title_moves_no_cursor() -> None:
    retrieval = Retrieval(task="x", mode="lexical", hits=(make_hit(1, title="a\x1b[2Jb"),))
    assert "\x1b" not in render_explanation(retrieval)
