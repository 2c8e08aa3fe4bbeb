"""Markdown headings and fences (CommonMark 0.31, sections 4.2, 4.3 and 4.5), read without backtracking."""

from __future__ import annotations

import re
from collections.abc import Sequence

UNDERLINE = re.compile(r" {0,3}-{3,}[ \t]*")
# How a line starts that no underline makes a heading: a quote, a table, HTML, a list, a heading, a fence, a rule.
OTHER_BLOCK = re.compile(r"[>|<]|[-*+][ \t]|[0-9]+[.)][ \t]|#|```|~~~|([-*_])(?:[ \t]*\1)+$")


def parse_heading(line: str) -> tuple[int, str] | None:
    """Level and text of a heading `# …` to `###### …`; closing #s go only where a blank parts them from the text.

    >>> [parse_heading(line) for line in ("## About C#", "# One ##", "##")]
    [(2, 'About C#'), (1, 'One'), None]
    """
    line = line[min(3, len(line) - len(line.lstrip(" "))) :]
    level = len(line) - len(line.lstrip("#"))
    if not 1 <= level <= 6 or line[level : level + 1] not in (" ", "\t"):
        return None
    text = line[level:].strip(" \t")
    bare = text.rstrip("#")
    return level, text if bare.strip(" \t") == bare != "" else bare.rstrip(" \t")


def parse_title(line: str) -> str | None:
    """The text of a heading that may be an entry's title: any but the first level."""
    heading = parse_heading(line)
    return heading[1] if heading and heading[0] > 1 else None


def is_heading_2(line: str) -> bool:
    """Whether a line is a heading of level 2 that says something: what an entry is written under."""
    heading = parse_heading(line)
    return heading is not None and heading[0] == 2 and heading[1] != ""


def is_underlined(lines: Sequence[str], at: int) -> bool:
    """Whether a line is a heading of level 2 by the dashes below it; a paragraph of more lines is text over a rule.

    >>> [is_underlined(lines, 0) for lines in (["One", "---"], ["- item", "---"], ["One", "", "---"])]
    [True, False, False]
    """
    if (
        at + 1 >= len(lines)
        or not UNDERLINE.fullmatch(lines[at + 1])
        or (at and lines[at - 1].strip())
    ):
        return False
    text = lines[at].lstrip(" ")
    return len(lines[at]) - len(text) < 4 and text.strip() != "" and not OTHER_BLOCK.match(text)


def format_title(title: str) -> str:
    """The heading that reads back as `title`: closed by #s of its own where the title ends like a closed one.

    >>> [format_title(title) for title in ("C#", "a # b", "x #")]
    ['## C#', '## a # b', '## x # ##']
    """
    line = f"## {title}"
    return line if parse_title(line) == title else f"{line} ##"


FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def fenced_lines(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it belongs to a closed fenced code block, its two fence lines included."""
    fenced = [False] * len(lines)
    marks = [
        (n, m[1], m[2])
        for n, line in enumerate(lines)
        if line[:1] in "`~ " and (m := FENCE.match(line))
    ]
    unclosed: dict[str, int] = {}  # the shortest fence of each kind that nothing below closes
    at = 0
    while at < len(marks):
        first, mark, info = marks[at]
        at += 1
        if ("`" in info and mark[0] == "`") or len(mark) >= unclosed.get(mark[0], len(mark) + 1):
            continue
        for place in range(at, len(marks)):
            last, other, rest = marks[place]
            if other.startswith(mark) and not rest.strip():
                fenced[first : last + 1] = [True] * (last + 1 - first)
                at = place + 1
                break
        else:
            unclosed[mark[0]] = len(mark)
    return fenced
