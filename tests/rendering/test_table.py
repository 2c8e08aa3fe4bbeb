"""Lines and tables for a terminal."""

from __future__ import annotations

from memory_ci.rendering.table import printable


def test_what_is_spelled_with_joiners_is_shown_as_it_is() -> None:
    assert (
        printable("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645")
        == "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )
    assert printable("a\x1b[31m\u202e") == "a\\x1b[31m\\u202e"
