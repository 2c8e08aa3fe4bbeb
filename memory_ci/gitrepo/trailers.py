"""Find, format and add `Key: value` trailers in the text of commit messages.

Git finds trailers in the last paragraph only. A squash merge buries those of the commits it joins
in the middle, under bullets and indented, and agents write a literal backslash-n where a line
should end. Therefore trailers are searched everywhere, except in fenced code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines

WRITTEN_NEWLINE = Regex(
    r"(?:\\r)?\\n(?=\\r|\\n|[ \t]*$|[ \t]*(?:[-*+][ \t]+)?[A-Za-z][\w-]*:[ \t])", re.MULTILINE
)
r"""A literal `\n` in place of a line end: before another, a trailer or nothing; not in "use \n"."""

SCISSORS = "------------------------ >8 ------------------------"
"""In a comment: git drops all text after it (wt-status.c, cut_line)."""

# The beginning of a trailer: `Signed-off-by:`.
TRAILER = Regex(r"[A-Za-z0-9-]+[ \t]*:")
SIGNATURE = ("Signed-off-by: ", "(cherry picked from commit ")
"""Trailers that git writes itself.

A paragraph with one of them needs only a quarter of trailers (git-interpret-trailers(1)).
"""


def find_trailers(message: str, keys: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return the `Key: value` lines of a message, each once, in order.

    Args:
        message: the commit message.
        keys: the keys to return, which match in any case.

    Returns:
        Pairs of key and value. A key is spelled as in `keys`. A line that is indented deeper than
        its key continues the value.
    """
    lines = unfenced_lines(WRITTEN_NEWLINE.sub("\n", message).splitlines())
    spellings = {key.lower(): key for key in keys}
    trailers: dict[tuple[str, str], None] = {}
    for key, value in _unfold(lines, _compile_key_line(keys)):
        if value:
            trailers[spellings[key.lower()], value] = None
    return tuple(trailers)


def format_trailers(pairs: Iterable[tuple[str, str]]) -> str:
    """Format trailers as lines, with folded white space; the inverse of `find_trailers`."""
    return "\n".join(f"{key}: {' '.join(value.split())}" for key, value in pairs)


def split_ids(value: str) -> tuple[str, ...]:
    """Return the ids in a trailer's value, separated by commas or spaces.

    >>> split_ids("a1, b2 c3,,b2")
    ('a1', 'b2', 'c3')
    """
    return tuple(dict.fromkeys(value.replace(",", " ").split()))


def _compile_key_line(keys: Collection[str]) -> re.Pattern[str]:
    """Compile the pattern of a line `- Key: value`, whose bullet and indentation are optional.

    Its groups are the indentation, the key and the value.
    """
    names = "|".join(re.escape(key) for key in keys)
    return re.compile(rf"([ \t]*)(?:[-*+][ \t]+)?({names})[ \t]*:(?!:)[ \t]*(.*)", re.IGNORECASE)


def _unfold(lines: Iterable[str], key_line: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield key and value of each trailer; lines that are indented deeper continue its value.

    Other lines yield an empty key and value.

    Args:
        lines: the lines of a message.
        key_line: the result of `_compile_key_line`.
    """
    key = ""
    value = ""
    depth = 0
    for line in lines:
        match = key_line.fullmatch(line)
        if match:
            yield key, value
            indentation, key, first_value = match.groups()
            value = first_value.rstrip()
            depth = len(indentation)
        elif key and line.strip() and _measure_indentation(line) > depth:
            value = f"{value} {line.strip()}".strip()
        else:
            yield key, value
            key = ""
            value = ""
    yield key, value


def _measure_indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def add_ids(message: str, key: str, ids: Sequence[str], comments: tuple[str, ...]) -> str | None:
    """Return a commit message with a trailer `key: id, id` at the end of its text.

    Args:
        message: the message as git gives it to an editor.
        key: the key; ids of its present trailers are merged into one trailer.
        ids: the ids to add.
        comments: how lines of git's own comments begin. The trailer goes to the end of the text,
            before the comments.

    Returns:
        The message; None if it has no text.
    """
    lines = message.split("\n")
    text_numbers = _list_text_numbers(lines, comments)
    if not text_numbers:
        return None

    end = text_numbers[-1] + 1
    start = _find_paragraph_start(lines, end)
    last_paragraph = [line for line in lines[start:end] if not line.startswith(comments)]
    is_subject = start <= text_numbers[0]
    if not is_subject and _is_trailer_block(last_paragraph):
        old_values = [value for _, value in find_trailers("\n".join(last_paragraph), (key,))]
        other_lines = list(_iter_without_key(lines[start:end], key, comments))
    else:
        old_values = []
        other_lines = [*lines[start:end], ""]  # The trailer begins a paragraph.

    all_ids = split_ids(" ".join((*old_values, *ids)))
    trailer = f"{key}: {', '.join(all_ids)}"
    text = "\n".join((*lines[:start], *other_lines, trailer, *lines[end:]))
    return text if text.endswith("\n") else f"{text}\n"


def _list_text_numbers(lines: Sequence[str], comments: tuple[str, ...]) -> list[int]:
    """Return the numbers of the lines, from 0, that are neither blank nor a comment.

    Args:
        lines: the lines of a message. Those after git's scissors line do not belong to it.
        comments: how comments begin.
    """
    scissors_lines = {f"{prefix} {SCISSORS}" for prefix in comments}
    numbers: list[int] = []
    for number, line in enumerate(lines):
        if line.rstrip() in scissors_lines:
            break
        if line.strip() and not line.startswith(comments):
            numbers.append(number)
    return numbers


def _find_paragraph_start(lines: Sequence[str], end: int) -> int:
    """Return the number of the first line of the paragraph whose last line is before `end`."""
    start = end - 1
    while start > 0 and lines[start - 1].strip():
        start -= 1
    return start


def _is_trailer_block(block: Sequence[str]) -> bool:
    """Return whether git would take the last paragraph of a message for trailers.

    All of its lines must be trailers, or a quarter of them if git wrote one itself. Indented lines
    continue the line before.
    """
    if block[0].startswith((" ", "\t")):
        return False
    lines = [line for line in block if not line.startswith((" ", "\t"))]
    has_signature = any(line.startswith(SIGNATURE) for line in lines)
    trailers = [line for line in lines if line.startswith(SIGNATURE) or TRAILER.match(line)]
    prose_count = len(lines) - len(trailers)
    return prose_count == 0 or (has_signature and 3 * len(trailers) >= prose_count)


def _iter_without_key(block: Sequence[str], key: str, comments: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a trailer block without the trailers of one key.

    A line that begins with a blank continues a trailer, also after comments.

    Args:
        block: the lines.
        key: the key, in any case.
        comments: how comments begin; they are kept.
    """
    is_dropped = False
    for line in block:
        if line.startswith(comments):
            yield line
            continue
        if not line.startswith((" ", "\t")):
            is_dropped = line.partition(":")[0].strip().lower() == key.lower()
        if not is_dropped:
            yield line
