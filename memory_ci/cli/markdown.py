"""Text from outside in a page of Markdown: it stays text, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_ci.findings import printable
from memory_ci.records.plan import EngineUse
from memory_ci.secrets import mask_secrets
from memory_ci.text import plural, shorten

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


def describe_cost(use: EngineUse) -> str:
    """Which engine learned, with which model, and what that took, in words."""
    name = code(" ".join(filter(None, (use.name, use.model))))
    if not use.answers:
        return f"{name}, no model was asked"
    read = use.input_tokens + use.cache_read_tokens + use.cache_write_tokens
    cost = "an unknown sum" if use.cost_usd is None else f"{use.cost_usd:.4f} USD"
    calls = f"{plural(use.answers, 'answer')} in {plural(use.tries, 'call')}"
    return f"{cost}; {name}, {calls}, {read:,} tokens in, {use.output_tokens:,} out"


def fit(lines: Iterable[str], limit: int, closing: str) -> str:
    """The lines as far as they fit into `limit` bytes, and `closing` in place of the rest."""
    kept: list[str] = []
    room = limit - len(closing.encode()) - 2
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return "".join([*kept, f"\n{closing}\n"])
        kept.append(f"{line}\n")
    return "".join(kept)
