"""Grounding: every learning cites words, and code checks that they were said by someone who may be quoted."""

from __future__ import annotations

from collections.abc import Mapping

from memory_ci.extraction.reply import Learning
from memory_ci.records.evidence import Evidence

QUOTABLE = frozenset({"T0", "T1"})


def find_ungrounded(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why the quotes of `learning` do not prove it: none, of unknown evidence, not exact, or of untrusted words."""
    if not learning.quotes:
        return "no-quote"
    for quote in learning.quotes:
        piece = pieces.get(quote.evidence)
        if piece is None:
            return "unknown-evidence"
        if not quote.text.strip() or quote.text not in piece.text:
            return "quote-not-found"
        if piece.trust not in QUOTABLE:
            return "untrusted-quote"
    return None
