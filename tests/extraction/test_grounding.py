"""Tests of grounding: a learning must quote exact words of a trusted author."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.extraction.reply import Learning, RawQuote
from memory_ci.extraction.support import find_ungrounded
from tests.extraction.make import make_piece

PIECES = {
    "e1": make_piece("Use the pool, because connecting is slow."),
    "e2": make_piece("A page says so.", 2, trust="T3"),
    "e3": make_piece("An agent says so.", 3, trust="T2"),
    "e4": make_piece("A visitor says so.", 4, trust="T1"),
    "e5": make_piece(
        "Never retry\n  a POST\twithout a key.\n[\u2026 312 characters left out \u2026]\n"
        "[redacted:email] \u6c38\u8fdc\u4e0d\u8981\u91cd\u8bd5",
        5,
    ),
    "e6": make_piece("no, use the pool instead", 6, kind="text", trust="T1"),
}


@pytest.mark.parametrize(
    ("quotes", "reason"),
    [
        ((RawQuote("e1", "because connecting is slow"),), None),
        ((RawQuote("e4", "A visitor says"),), None),
        ((RawQuote("e4", "visitor"),), "quote-too-short"),
        ((RawQuote("e5", "Never retry a POST without a key."),), None),
        ((RawQuote("e5", "Never  retry\na POST"),), None),
        ((RawQuote("e5", "never retry a POST"),), "quote-not-found"),
        ((RawQuote("e5", "Never retry POST"),), "quote-not-found"),
        ((RawQuote("e5", "\u6c38\u8fdc\u4e0d\u8981"),), None),
        ((RawQuote("e5", "[\u2026 312 characters left out \u2026]"),), "quote-too-short"),
        ((RawQuote("e5", "[redacted:email]"),), "quote-too-short"),
        ((RawQuote("e1", "because connecting is slow"), RawQuote("e1", "Use")), "quote-too-short"),
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
def test_every_quote_must_be_exact_and_trusted(
    quotes: tuple[RawQuote, ...], reason: str | None
) -> None:
    learning = Learning(title="t", quotes=quotes)
    assert find_ungrounded(learning, PIECES) == reason


@pytest.mark.parametrize("fields", [{"is_marked": True}, {"doubt": "a revert"}])
def test_quotes_of_the_rules_may_be_short_and_of_any_kind_but_must_be_exact(
    fields: dict[str, Any],
) -> None:
    short = Learning(title="t", quotes=(RawQuote("e1", "pool"),), **fields)
    assert find_ungrounded(short, PIECES) is None
    wrong = Learning(title="t", quotes=(RawQuote("e1", "puddle"),), **fields)
    assert find_ungrounded(wrong, PIECES) == "quote-not-found"
