"""Tests of the short text of a run: at most 30 lines, the most important first."""

from __future__ import annotations

from msgspec.structs import replace

from memory_ci.commands.record.brief import MAX_LINES, MORE_NOTE, render_brief
from memory_ci.records.candidate import Judged
from memory_ci.records.plan import Change, Join, Plan, PlannedStep, Published
from memory_ci.records.report import Finding
from tests.commands.record.test_text import make_addition, make_plan, make_quarantined
from tests.make import make_entry

PUBLISHED = Published("none", "c" * 40, subjects=("memory: extract 2,000 learnings",))
LONG = "Retry a POST only with an idempotency key, for the gateway charges twice without one"


def make_large_plan() -> Plan:
    folded = tuple(
        Change(
            step="fold",
            kind="add",
            path="MEMORY.md",
            entry=make_entry(number, title=f"{LONG} {number}"),
            why="from the inbox",
        )
        for number in range(2000)
    )
    judged: tuple[Judged, ...] = tuple(make_quarantined(f"{LONG} {n}") for n in range(40))
    return make_plan(
        steps=(PlannedStep(step="fold", changes=folded),),
        judged=(*judged, *(replace(item, verdict="over_limit") for item in judged)),
        joins=tuple(Join("#70", "session", f"s{n}", "trailer", 5) for n in range(500)),
        problems=tuple(f"file {n}: {LONG}" for n in range(300)),
        findings=tuple(Finding("MEMORY.md", n, "bad-value", LONG) for n in range(1, 90)),
    )


def test_a_run_of_any_size_takes_at_most_30_lines_at_a_terminal_of_80_columns() -> None:
    text = render_brief(make_large_plan(), (), PUBLISHED, 80)
    lines = text.splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= 80


def test_a_run_of_any_size_takes_at_most_30_lines_elsewhere() -> None:
    text = render_brief(make_large_plan(), (), PUBLISHED)
    assert len(text.splitlines()) <= MAX_LINES


def test_every_heading_is_there_however_many_items_are_left_out() -> None:
    text = render_brief(make_large_plan(), (), PUBLISHED, 80)
    for heading in (
        "Folded from the inbox: 2000 entries",
        "Quarantined, not written: 40",
        "Could not be read: 300",
        "Warnings: 89",
        "Committed on main, now at cccccccccc:",
        MORE_NOTE,
    ):
        assert f"{heading}\n" in text


def test_titles_are_whole_where_no_terminal_cuts_them() -> None:
    text = render_brief(make_plan(make_addition(f"{LONG} {LONG}")), (), None)
    assert f"{LONG} {LONG}  (from #128)\n" in text
    assert MORE_NOTE not in text


def test_a_run_of_nothing_says_so() -> None:
    assert "\nNothing to commit.\n" in render_brief(make_plan(), (), None)


def test_nothing_in_a_title_moves_the_cursor() -> None:
    assert "\x1b" not in render_brief(make_plan(make_addition("Pay \x1b[2Jonce")), (), None, 80)
