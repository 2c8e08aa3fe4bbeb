"""Text from outside in a page of Markdown: it stays text, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memory_ci.rendering.table import printable
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten

SPECIAL = re.compile(r"([\\`*_{}\[\]()#+.!|~$:-])")
"""What means something in CommonMark, in GitHub's tables, formulas, emoji and bare links; a backslash takes it back."""

REFERENCE = re.compile(r"(?<=[@#!])(?=\w)|(?<=:)(?=//)")
"""Where a zero-width space stops `@name`, `#12` and an address from being what a forge links or notifies."""

TICKS = re.compile("`+")

HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def escape_markdown(text: str, width: int) -> str:
    """`text` in one line of at most `width` characters of its own, without markup, links, mentions or credentials.

    >>> escape_markdown("<b>*now*</b>", 80)
    '&lt;b&gt;\\\\*now\\\\*&lt;/b&gt;'
    """
    line = printable(shorten(mask_secrets(text), width))
    return REFERENCE.sub("&#8203;", SPECIAL.sub(r"\\\1", line).translate(HTML))


def code(text: str) -> str:
    """`text` in one line as a code span that it cannot leave (CommonMark 6.1), and in which a forge acts on nothing."""
    bare = printable(" ".join(mask_secrets(text).split()))
    ticks = "`" * (max((len(run) for run in TICKS.findall(bare)), default=0) + 1)
    pad = " " if bare.startswith("`") or bare.endswith("`") else ""
    return f"{ticks}{pad}{bare}{pad}{ticks}" if bare else ""


def fit(lines: Iterable[str], limit: int, closing: str) -> str:
    """The lines as far as they fit into `limit` bytes, and `closing` in place of the rest."""
    return "".join(_fitting(lines, limit - len(closing.encode()) - 2, closing))


def _fitting(lines: Iterable[str], room: int, closing: str) -> Iterator[str]:
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            yield f"\n{closing}\n"
            return
        yield f"{line}\n"
