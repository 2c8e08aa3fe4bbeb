"""Tests of the upkeep of anchors: anchors follow renames, and entries without code are retired."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from memory_ci.anchors.anchors import format_anchor
from memory_ci.lifecycle.upkeep import plan_repoint, plan_stale_retirement
from memory_ci.records.anchor import Verdict
from tests.anchors.anchored_code import SYMBOL
from tests.make import make_id, make_located

CITE = format_anchor(SYMBOL)
KEY = (make_id(1), CITE)


def test_an_anchor_gets_the_new_path_and_lines_after_a_rename_once() -> None:
    place = make_located(1, cites=("not an anchor", CITE))
    moved = Verdict("moved", "net/http.py", 17, 20)
    (change,) = plan_repoint([place], {KEY: moved}, "a" * 40)
    assert (change.step, change.kind, change.why) == (
        "consolidate",
        "update",
        "client.py is now net/http.py",
    )
    assert change.entry.cites == (
        "not an anchor",
        f"net/http.py:17-20@{'a' * 12} symbol:Client.post words:{SYMBOL.digest}",
    )
    followed = make_located(1, cites=change.entry.cites)
    assert (
        plan_repoint(
            [followed],
            {(make_id(1), followed.entry.cites[1]): Verdict("fresh", "net/http.py")},
            "b",
        )
        == ()
    )


@pytest.mark.parametrize("kind", ["fresh", "changed", "gone", "unverifiable"])
def test_only_anchors_whose_code_moved_to_another_file_are_updated(kind: str) -> None:
    verdict = Verdict(kind, "net/http.py")  # type: ignore[arg-type] # kinds as written above
    assert plan_repoint([make_located(1, cites=(CITE,))], {KEY: verdict}, "a" * 40) == ()
    shifted = {KEY: Verdict("moved", "client.py", 17, 20)}
    assert plan_repoint([make_located(1, cites=(CITE,))], shifted, "a" * 40) == ()
    elsewhere = {KEY: Verdict("moved", "net/http.py", 17, 20)}
    assert (
        plan_repoint([make_located(1, cites=(CITE,), status="retired")], elsewhere, "a" * 40) == ()
    )


GONE = {KEY: Verdict("gone", "client.py")}
SINCE = {make_id(1): date(2026, 1, 1)}


def test_an_entry_is_retired_when_its_code_has_been_gone_for_long() -> None:
    place = make_located(1, title="`client.py` retries", cites=(CITE,))
    (change,) = plan_stale_retirement([place], GONE, SINCE, date(2026, 4, 2))
    assert (change.step, change.kind, change.entry.status) == ("retire", "update", "retired")
    assert plan_stale_retirement([place], GONE, SINCE, date(2026, 4, 1)) == (), "90 days, not more"
    assert len(plan_stale_retirement([place], GONE, SINCE, date(2026, 1, 9), after_days=7)) == 1
    assert plan_stale_retirement([place], GONE, {}, date(2026, 4, 2)) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "retired"},
        {"adoption": "rejected"},
        {"priority": "pin"},
        {"cites": (CITE, "a.py@3f2ab91")},
        {"title": "Never merge on Fridays"},
    ],
)
def test_protected_entries_are_not_retired(fields: dict[str, Any]) -> None:
    place = make_located(
        1, "MEMORY.md", **({"title": "`client.py` retries", "cites": (CITE,)} | fields)
    )
    verdicts = GONE | {(make_id(1), "a.py@3f2ab91"): Verdict("fresh", "a.py")}
    assert plan_stale_retirement([place], verdicts, SINCE, date(2026, 12, 1)) == ()
