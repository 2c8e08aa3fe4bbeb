"""Grounding: a learning cites words that somebody said, exactly, and enough of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from memory_ci.extraction.reply import Learning, RawQuote
from memory_ci.records.event import Evidence
from memory_ci.secrets import MASK

QUOTABLE = frozenset({"T0", "T1"})
MIN_WORDS = 3
MIN_LENGTH = 15  # A quote of fewer words and fewer characters than these proves nothing: "yes", "the pool".
OURS = re.compile(rf"{MASK.pattern}|\[\N{{HORIZONTAL ELLIPSIS}}[^\]\n]*\]")
"""What stands in a piece because we put it there, a mask or the mark of a cut: nobody said it."""

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3][\w'/.-]*")
"""A word, or one character of a script that is written without blanks."""


def find_ungrounded(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why the quotes of `learning` do not prove it: none, of unknown evidence, not exact, of untrusted words, or short.

    What our own rules quote may be short, for it stands behind a mark.
    """
    if not learning.quotes:
        return "no-quote"
    for quote in learning.quotes:
        if reason := _find_unfit(quote, pieces):
            return reason
    is_short = not learning.is_by_rule and any(_is_short(quote.text) for quote in learning.quotes)
    return "quote-too-short" if is_short else None


def _find_unfit(quote: RawQuote, pieces: Mapping[str, Evidence]) -> str | None:
    piece = pieces.get(quote.evidence)
    if piece is None:
        return "unknown-evidence"
    if not quote.text.strip() or not _stands_in(quote.text, piece.text):
        return "quote-not-found"
    return None if piece.trust in QUOTABLE else "untrusted-quote"


def _stands_in(quote: str, text: str) -> bool:
    """Character for character, but that a run of white space is one blank, and accents may be composed (NFC)."""
    if quote in text:
        return True
    said, whole = (" ".join(unicodedata.normalize("NFC", one).split()) for one in (quote, text))
    return said in whole


def _is_short(quote: str) -> bool:
    said = OURS.sub(" ", quote)
    return len(" ".join(said.split())) < MIN_LENGTH and len(WORD.findall(said)) < MIN_WORDS
