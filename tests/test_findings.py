"""Tests of lines and tables for a terminal."""

from __future__ import annotations

from memory_ci.cli.terminal import render_entries
from memory_ci.findings import count_levels, printable
from memory_ci.records.episode import UseCount
from memory_ci.records.report import Finding, Level
from tests.make import make_id, make_located


def test_text_with_joiners_is_shown_unchanged() -> None:
    assert (
        printable("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645")
        == "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )
    assert printable("a\x1b[31m\u202e") == "a\\x1b[31m\\u202e"


def test_findings_are_counted_by_their_levels_the_worst_first() -> None:
    levels: tuple[Level, ...] = ("notice", "warning", "notice", "error")
    findings = [Finding("MEMORY.md", 1, "code", "message", level=level) for level in levels]
    assert count_levels(findings) == "1 error, 1 warning, 2 notices"
    assert count_levels(()) == ""


def test_a_list_shows_how_often_entries_were_served_and_used_if_any_was() -> None:
    places = [(0.5, make_located(number, title=f"Entry {number}")) for number in (1, 2)]
    with_usage = render_entries(places, {make_id(1): UseCount(12, 3)}).splitlines()
    assert [line.split()[1:3] for line in with_usage] == [["0.50", "3/12"], ["0.50", "procedural"]]
    assert with_usage[0].index("procedural") == with_usage[1].index("procedural")
    assert "/" not in render_entries(places, {})
