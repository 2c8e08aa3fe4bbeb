"""A commit message as it lies in git's file, with comments and perhaps a diff: where a trailer goes in (pure text)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memory_ci.gitrepo.trailers import find_trailers, split_ids

SCISSORS = "------------------------ >8 ------------------------"
"""In a comment: from here on git drops all (wt-status.c, cut_line)."""

TRAILER = re.compile(r"[A-Za-z0-9-]+[ \t]*:")
SIGNATURE = ("Signed-off-by: ", "(cherry picked from commit ")
"""What git writes itself: beside one of these a quarter of trailers is enough (git-interpret-trailers(1))."""


def add_ids(message: str, key: str, ids: Sequence[str], comments: tuple[str, ...]) -> str | None:
    """The message with a trailer `key` of `ids`, and of those that it had at its end; None if it has no text.

    Lines beginning with one of `comments` are git's. The trailer goes to the end of the text, before the comments.
    """
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
        kept = list(_without(lines[start:end], key))
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


def _without(block: Sequence[str], key: str) -> Iterator[str]:
    """A trailer block without the trailers of one key, which a line that begins with a blank continues."""
    is_dropped = False
    for line in block:
        if not line.startswith((" ", "\t")):
            is_dropped = line.partition(":")[0].strip().lower() == key.lower()
        if not is_dropped:
            yield line
