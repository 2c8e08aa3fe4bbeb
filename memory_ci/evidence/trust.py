"""Trust: how far the words of an event may carry a learning, by who wrote them.

T0  a trusted author's words that were merged into the default branch: a mark in them is written
T1  words of other people: quotable, but a mark in them only proposes
T2  an agent's text: only corroborates
T3  bots, tools and everything injected: only corroborates, never quoted into memory
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_ci.records.event import Event
from memory_ci.records.evidence import Trust

MERGED = frozenset({"commit", "adr"})
AUTHOR = re.compile(r"(?P<name>.*?)\s*<(?P<email>[^>]*)>")


def tier(event: Event, trusted_authors: Iterable[str], bot_authors: Iterable[str]) -> Trust:
    """The trust tier of `event`; a bot stays a bot even where every author is trusted."""
    if event.actor in ("bot", "tool", "system", "injected") or is_author(event.author, bot_authors):
        return "T3"
    if event.actor in ("agent", "subagent"):
        return "T2"
    return "T0" if event.kind in MERGED and is_author(event.author, trusted_authors) else "T1"


def is_author(author: str, patterns: Iterable[str]) -> bool:
    """Whether the name, the e-mail or `Name <e-mail>` matches one of `patterns`, case folded.

    Only `*` is special: `*[bot]*` means the brackets, which shell patterns would read as a class.
    """
    match = AUTHOR.fullmatch(author)
    forms = [author, *(match.groups() if match else ())]
    globs = [re.compile(".*".join(map(re.escape, pattern.casefold().split("*")))) for pattern in patterns]
    return any(glob.fullmatch(form.casefold()) for glob in globs for form in forms)
