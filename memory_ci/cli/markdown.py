"""Escape untrusted text for pages of Markdown, so that nothing in it is markup."""

from __future__ import annotations

from collections.abc import Iterable

from memory_ci.findings import printable
from memory_ci.records.plan import EngineUse
from memory_ci.regex import Regex
from memory_ci.secrets import mask_secrets
from memory_ci.text import plural, shorten

SPECIAL = Regex(r"([\\`*_{}\[\]()#+.!|~$:-])")
"""Signs with a meaning in CommonMark, or in GitHub's tables, formulas, emoji and bare links."""

REFERENCE = Regex(r"(?<=[@#!])(?=\w)|(?<=:)(?=//)")
"""Where a zero-width space keeps a forge from linking or notifying `@name`, `#12`, an address."""

TICKS = Regex("`+")
HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def escape_markdown(text: str, width: int) -> str:
    """Return text in one line, without markup, links, mentions or credentials.

    The text is cut to `width` characters before it is escaped.

    >>> escape_markdown("<b>*now*</b>", 80)
    '&lt;b&gt;\\\\*now\\\\*&lt;/b&gt;'
    """
    line = printable(shorten(mask_secrets(text), width))
    return REFERENCE.sub("&#8203;", SPECIAL.sub(r"\\\1", line).translate(HTML))


def code_span(text: str) -> str:
    """Return text as a code span in one line, which it cannot leave (CommonMark 6.1)."""
    line = printable(" ".join(mask_secrets(text).split()))
    if not line:
        return ""
    longest = max((len(run) for run in TICKS.findall(line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def describe_cost(use: EngineUse) -> str:
    """Return a sentence on a run's use of an engine (a language model): cost, calls and tokens."""
    name = code_span(f"{use.name} {use.model or ''}")
    if not use.answers:
        return f"{name}, no model was asked"
    input_tokens = use.input_tokens + use.cache_read_tokens + use.cache_write_tokens
    cost = "an unknown sum" if use.cost_usd is None else f"{use.cost_usd:.4f} USD"
    calls = f"{plural(use.answers, 'answer')} in {plural(use.tries, 'call')}"
    return f"{cost}; {name}, {calls}, {input_tokens:,} tokens in, {use.output_tokens:,} out"


def cut_lines(lines: Iterable[str], limit: int, closing: str) -> str:
    """Return the lines that fit into `limit` bytes, with `closing` in place of the others.

    Args:
        lines: the lines.
        limit: bytes.
        closing: a line that says that lines were left out.
    """
    fitting: list[str] = []
    closing_paragraph = f"\n{closing}\n"
    remaining_bytes = limit - len(closing_paragraph.encode())
    for line in lines:
        remaining_bytes -= len(f"{line}\n".encode("utf-8", "replace"))
        if remaining_bytes < 0:
            return "".join([*fitting, closing_paragraph])
        fitting.append(f"{line}\n")
    return "".join(fitting)
