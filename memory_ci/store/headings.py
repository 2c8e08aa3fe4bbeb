"""Find Markdown headings and code blocks, in time that grows with the length of the text only.

They are defined by CommonMark 0.31, sections 4.2, 4.3 and 4.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memory_ci.regex import Regex

# The dashes below a heading of level 2.
UNDERLINE = Regex(r" {0,3}-{3,}[ \t]*")
# The start of a line that is no heading even if underlined: a quote, a table, HTML, a list, a
# heading, a fence, a rule.
OTHER_BLOCK = Regex(r"[>|<]|[-*+][ \t]|[0-9]+[.)][ \t]|#|```|~~~|([-*_])(?:[ \t]*\1)+$")


def parse_heading(line: str) -> tuple[int, str] | None:
    """Return level and text of a heading `# …` to `###### …`; None for any other line.

    Closing #s are removed only after a blank.

    >>> [parse_heading(line) for line in ("## About C#", "# One ##", "##")]
    [(2, 'About C#'), (1, 'One'), None]
    """
    indent = len(line) - len(line.lstrip(" "))
    heading = line[min(3, indent) :]  # A line that is indented deeper is code.
    after_signs = heading.lstrip("#")
    level = len(heading) - len(after_signs)
    if not 1 <= level <= 6 or not after_signs.startswith((" ", "\t")):
        return None
    text = after_signs.strip(" \t")
    without_signs = text.rstrip("#")
    has_closing_signs = without_signs == "" or without_signs.endswith((" ", "\t"))
    if has_closing_signs:
        text = without_signs.rstrip(" \t")
    return level, text


def parse_title(line: str) -> str | None:
    """Return the text of a heading of level 2 or more, which may be the title of an entry."""
    heading = parse_heading(line)
    if heading is None:
        return None
    level, text = heading
    return text if level > 1 else None


def is_heading_2(line: str) -> bool:
    """Return whether a line is a heading of level 2 with a text, as the title of an entry is."""
    heading = parse_heading(line)
    if heading is None:
        return False
    level, text = heading
    return level == 2 and text != ""


def is_underlined(lines: Sequence[str], index: int) -> bool:
    """Return whether a line is a heading of level 2 because the next line is of dashes.

    A line that continues a paragraph is not: there the dashes are a rule below the text.

    >>> cases = (["One", "---"], ["- item", "---"], ["One", "", "---"])
    >>> [is_underlined(lines, 0) for lines in cases]
    [True, False, False]
    """
    if index + 1 >= len(lines) or not UNDERLINE.fullmatch(lines[index + 1]):
        return False
    continues_paragraph = index > 0 and lines[index - 1].strip() != ""
    if continues_paragraph:
        return False
    text = lines[index].lstrip(" ")
    is_indented_code = len(lines[index]) - len(text) >= 4
    return not is_indented_code and text.strip() != "" and not OTHER_BLOCK.match(text)


def format_title(title: str) -> str:
    """Format a title as a heading of level 2.

    A title that ends in ` #` gets closing #s, because a parser would drop its end otherwise.

    >>> [format_title(title) for title in ("C#", "a # b", "x #")]
    ['## C#', '## a # b', '## x # ##']
    """
    line = f"## {title}"
    return line if parse_title(line) == title else f"{line} ##"


# A line that may open or close a code block: its mark, and its info string.
FENCE = Regex(r" {0,3}(`{3,}|~{3,})(.*)")


class _FenceLine(msgspec.Struct, frozen=True):
    """A line that may open or close a code block: its number, its mark and its info string."""

    number: int
    mark: str
    info: str


def mark_fenced_lines(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether it is in a code block between fences, the fences included.

    A fence that is not closed opens no block.
    """
    fenced = [False] * len(lines)
    fences = _list_fences(lines)
    unclosed_sizes: dict[str, int] = {}  # By character: the shortest fence that is not closed.
    index = 0
    while index < len(fences):
        opening = fences[index]
        character = opening.mark[0]
        size = len(opening.mark)
        index += 1
        is_inline_code = character == "`" and "`" in opening.info
        # If a shorter fence has no closing one below it, a longer fence has none, either.
        is_known_unclosed = character in unclosed_sizes and size >= unclosed_sizes[character]
        if is_inline_code or is_known_unclosed:
            continue
        closing = _find_closing(fences, index, opening.mark)
        if closing is None:
            unclosed_sizes[character] = size
            continue
        last = fences[closing].number
        fenced[opening.number : last + 1] = [True] * (last + 1 - opening.number)
        index = closing + 1
    return fenced


def _list_fences(lines: Sequence[str]) -> list[_FenceLine]:
    """Return the lines that may open or close a code block."""
    fences: list[_FenceLine] = []
    for number, line in enumerate(lines):
        if line[:1] in "`~ ":
            match = FENCE.match(line)
            if match:
                fences.append(_FenceLine(number, match[1], match[2]))
    return fences


def _find_closing(fences: Sequence[_FenceLine], start: int, mark: str) -> int | None:
    """Return the index of the fence, from `start` on, that closes a block opened by `mark`."""
    for index in range(start, len(fences)):
        fence = fences[index]
        if fence.mark.startswith(mark) and not fence.info.strip():
            return index
    return None
