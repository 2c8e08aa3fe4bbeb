"""Tests of the places where a range of commits changed an anchored definition."""

from __future__ import annotations

import pytest

from memory_ci.lifecycle.upkeep import find_first_changed_line
from tests.anchors.anchored_code import CLIENT, CRLF, EDITED, POST, SHIFTED


@pytest.mark.parametrize(
    ("new", "span", "line"),
    [
        (CLIENT, None, None),
        (CRLF, None, None),
        (SHIFTED, POST, None),
        (EDITED, POST, 9),
        ("# more\n" + EDITED, POST, 10),
        (EDITED, (4, 5), None),
        (EDITED, None, 9),
        (CLIENT.replace("        if key", "        log(url)\n        if key"), POST, 8),
        (CLIENT.replace("        if key is None:\n", ""), POST, 8),
        ("", POST, 1),
    ],
)
def test_the_changed_line_is_reported(
    new: str, span: tuple[int, int] | None, line: int | None
) -> None:
    assert find_first_changed_line(CLIENT, new, span) == line
