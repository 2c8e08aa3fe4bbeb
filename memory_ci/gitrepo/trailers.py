"""Trailers in commit messages, read leniently (pure text).

Git finds trailers in the last paragraph only. A squash merge buries those of the commits it joins in the middle, under
bullets and indented, and agents write a literal backslash-n where a line should end. So they are looked for everywhere,
except in fenced code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from memory_ci.text import unfenced_lines

WRITTEN_NEWLINE = re.compile(
    r"(?:\\r)?\\n(?=\\r|\\n|[ \t]*$|[ \t]*(?:[-*+][ \t]+)?[A-Za-z][\w-]*:[ \t])", re.MULTILINE
)
r"""A literal `\n` that was meant as a line end: before another one, a trailer or nothing; not in "use \n here"."""


def find_trailers(message: str, keys: Collection[str]) -> tuple[tuple[str, str], ...]:
    """The `Key: value` lines of a message for the given keys, each once, in order. Keys match in any case and come back
    as given. A line indented deeper than its key continues the value."""
    lines = unfenced_lines(WRITTEN_NEWLINE.sub("\n", message).splitlines())
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
        elif key and line.strip() and len(line) - len(line.lstrip(" \t")) > depth:
            value = f"{value} {line.strip()}".strip()
        else:
            yield key, value
            key = value = ""
    yield key, value


SCISSORS = "------------------------ >8 ------------------------"
"""In a comment: from here on git drops all (wt-status.c, cut_line)."""

TRAILER = re.compile(r"[A-Za-z0-9-]+[ \t]*:")
SIGNATURE = ("Signed-off-by: ", "(cherry picked from commit ")
"""What git writes itself: beside one of these a quarter of trailers is enough (git-interpret-trailers(1))."""


def add_ids(message: str, key: str, ids: Sequence[str], comments: tuple[str, ...]) -> str | None:
    """The message with a trailer `key` of `ids`, and of those that it had at its end; None if it has no text. Lines
    beginning with one of `comments` are git's. The trailer goes to the end of the text, before the comments."""
    lines = message.split("\n")
    texts = list(_text_lines(lines, comments))
    if not texts:
        return None
    end = texts[-1] + 1
    start = _paragraph_start(lines, end)
    block = [line for line in lines[start:end] if not line.startswith(comments)]
    if start <= texts[0] or not _is_trailer_block(block):
        start, kept, block = end, [""], []
    else:
        kept = list(_without(lines[start:end], key, comments))
    known = [value for _, value in find_trailers("\n".join(block), (key,))]
    union = split_ids(" ".join((*known, *ids)))
    text = "\n".join((*lines[:start], *kept, f"{key}: {', '.join(union)}", *lines[end:]))
    return text if text.endswith("\n") else f"{text}\n"


def _text_lines(lines: Sequence[str], comments: tuple[str, ...]) -> Iterator[int]:
    """The numbers of the lines that are neither blank nor git's."""
    scissors = {f"{prefix} {SCISSORS}" for prefix in comments}
    for number, line in enumerate(lines):
        if line.rstrip() in scissors:
            return
        if line.strip() and not line.startswith(comments):
            yield number


def _paragraph_start(lines: Sequence[str], end: int) -> int:
    start = end - 1
    while start > 0 and lines[start - 1].strip():
        start -= 1
    return start


def _is_trailer_block(block: Sequence[str]) -> bool:
    """Whether git would take a last paragraph for trailers: all of its lines, or enough beside one of its own."""
    if block[0].startswith((" ", "\t")):
        return False
    lines = [line for line in block if not line.startswith((" ", "\t"))]
    trailers = sum(line.startswith(SIGNATURE) or TRAILER.match(line) is not None for line in lines)
    has_signature = any(line.startswith(SIGNATURE) for line in lines)
    prose = len(lines) - trailers
    return prose == 0 or (has_signature and 3 * trailers >= prose)


def _without(block: Sequence[str], key: str, comments: tuple[str, ...]) -> Iterator[str]:
    """A trailer block without the trailers of one key, which a line that begins with a blank continues, also below
    comments."""
    is_dropped = False
    for line in block:
        if line.startswith(comments):
            yield line
            continue
        if not line.startswith((" ", "\t")):
            is_dropped = line.partition(":")[0].strip().lower() == key.lower()
        if not is_dropped:
            yield line
