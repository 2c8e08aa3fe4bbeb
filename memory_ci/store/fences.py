"""Fenced code blocks, by CommonMark's rules (section 4.5), except that a fence nobody closes opens nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def fenced_lines(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it belongs to a closed fenced code block, its two fence lines included."""
    fenced = [False] * len(lines)
    marks = [(n, m.group(1), m.group(2)) for n, line in enumerate(lines) if (m := FENCE.match(line))]
    unclosed: dict[str, int] = {}  # the shortest fence of each kind that nothing below closes
    at = 0
    while at < len(marks):
        first, mark, info = marks[at]
        at += 1
        if ("`" in info and mark[0] == "`") or len(mark) >= unclosed.get(mark[0], len(mark) + 1):
            continue
        closer = _find_closer(marks, at, mark)
        if closer is None:
            unclosed[mark[0]] = len(mark)
            continue
        last = marks[closer][0]
        fenced[first : last + 1] = [True] * (last + 1 - first)
        at = closer + 1
    return fenced


def _find_closer(marks: Sequence[tuple[int, str, str]], at: int, mark: str) -> int | None:
    for place in range(at, len(marks)):
        _, other, info = marks[place]
        if other[0] == mark[0] and len(other) >= len(mark) and not info.strip():
            return place
    return None
