"""Markdown headings of the ATX kind (CommonMark 0.31, section 4.2), read without backtracking."""

from __future__ import annotations


def parse_heading(line: str) -> tuple[int, str] | None:
    """Level and text of a heading `# …` to `###### …`; closing #s go only where a blank parts them from the text.

    >>> [parse_heading(line) for line in ("## About C#", "# One ##", "##")]
    [(2, 'About C#'), (1, 'One'), None]
    """
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


def format_title(title: str) -> str:
    """The heading that reads back as `title`: closed by #s of its own where the title ends like a closed one.

    >>> [format_title(title) for title in ("C#", "a # b", "x #")]
    ['## C#', '## a # b', '## x # ##']
    """
    line = f"## {title}"
    return line if parse_title(line) == title else f"{line} ##"
