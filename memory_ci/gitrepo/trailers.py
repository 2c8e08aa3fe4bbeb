"""Trailers in commit messages, read leniently (pure text).

Git finds trailers in the last paragraph only. A squash merge buries those of the commits it joins in the middle, under
bullets and indented, and agents write a literal backslash-n where a line should end. So they are looked for everywhere,
except in fenced code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from memory_ci.text import unfenced_lines

WRITTEN_NEWLINE = re.compile(r"(?:\\r)?\\n(?=\\r|\\n|[ \t]*$|[ \t]*(?:[-*+][ \t]+)?[A-Za-z][\w-]*:[ \t])", re.MULTILINE)
r"""A literal `\n` that was meant as a line end: before another one, a trailer or nothing; not in "use \n here"."""


def find_trailers(message: str, keys: Collection[str]) -> tuple[tuple[str, str], ...]:
    """The `Key: value` lines of a message for the given keys, each once, in order.

    Keys match in any case and come back as given. A line indented deeper than its key continues the value.
    """
    lines = unfenced_lines(WRITTEN_NEWLINE.sub("\n", message))
    found = dict.fromkeys(pair for pair in _unfold(lines, _key_line(keys)) if pair[1])
    spelling = {key.lower(): key for key in keys}
    return tuple(dict.fromkeys((spelling[key.lower()], value) for key, value in found))


def format_trailers(pairs: Iterable[tuple[str, str]]) -> str:
    """Trailers as lines, white space in each value folded; the inverse of `find_trailers`."""
    return "\n".join(f"{key}: {' '.join(value.split())}" for key, value in pairs)


def split_ids(value: str) -> tuple[str, ...]:
    """The ids in a trailer's value, separated by commas or spaces.

    >>> split_ids("a1, b2 c3,,b2")
    ('a1', 'b2', 'c3')
    """
    return tuple(dict.fromkeys(value.replace(",", " ").split()))


def _key_line(keys: Collection[str]) -> re.Pattern[str]:
    names = "|".join(re.escape(key) for key in keys)
    return re.compile(rf"([ \t]*)(?:[-*+][ \t]+)?({names})[ \t]*:(?!:)[ \t]*(.*)", re.IGNORECASE)


def _unfold(lines: Iterable[str], key_line: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    key, value, depth = "", "", 0
    for line in lines:
        start = key_line.fullmatch(line)
        if start:
            yield key, value
            key, value, depth = start[2], start[3].rstrip(), len(start[1])
        elif key and line.strip() and _depth(line) > depth:
            value = f"{value} {line.strip()}".strip()
        else:
            yield key, value
            key = value = ""
    yield key, value


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
