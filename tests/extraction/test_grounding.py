"""A learning stands on exact words of someone who may be quoted."""

from __future__ import annotations

import pytest

from memory_ci.extraction.grounding import find_ungrounded
from memory_ci.extraction.reply import Learning, RawQuote
from tests.extraction.make import make_piece

PIECES = {
    "e1": make_piece("Use the pool, because connecting is slow."),
    "e2": make_piece("A page says so.", 2, trust="T3"),
    "e3": make_piece("An agent says so.", 3, trust="T2"),
    "e4": make_piece("A visitor says so.", 4, trust="T1"),
}


@pytest.mark.parametrize(
    ("quotes", "reason"),
    [
        ((RawQuote("e1", "because connecting is slow"),), None),
        ((RawQuote("e4", "visitor"),), None),
        ((), "no-quote"),
        ((RawQuote("e9", "the pool"),), "unknown-evidence"),
        ((RawQuote("e1", "because connecting was slow"),), "quote-not-found"),
        ((RawQuote("e1", "use the pool"),), "quote-not-found"),
        ((RawQuote("e1", " "),), "quote-not-found"),
        ((RawQuote("e2", "A page"),), "untrusted-quote"),
        ((RawQuote("e3", "An agent"),), "untrusted-quote"),
        ((RawQuote("e1", "the pool"), RawQuote("e2", "A page")), "untrusted-quote"),
    ],
)
def test_every_quote_must_be_exact_and_trusted(quotes: tuple[RawQuote, ...], reason: str | None) -> None:
    learning = Learning(title="t", quotes=quotes, extraction_scope="project")
    assert find_ungrounded(learning, PIECES) == reason
