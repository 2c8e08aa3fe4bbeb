"""Lines and tables for a terminal."""

from __future__ import annotations

from memory_ci.records.report import Finding, Level
from memory_ci.rendering.table import count_levels, printable


def test_what_is_spelled_with_joiners_is_shown_as_it_is() -> None:
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
