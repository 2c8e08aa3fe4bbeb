"""Injection: phrases that speak to an agent to change whom it obeys, what it hides, or which guard it drops.

A table of patterns over folded text (NFKC, invisible characters and emphasis removed, white space as one blank, lower
case). The same words in honest engineering text ("ignore the previous value", "skip tests that need docker") must pass,
so a pattern asks for the object as well as the verb, and patterns about guards pass where the sentence forbids them.

A pattern is tried, and compiled, only for a text that holds the words that it cannot match without: few texts do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from typing import NamedTuple

from memory_ci.extraction.languages import find_orders
from memory_ci.extraction.phrases import LINE_PHRASES, PHRASES, Phrase
from memory_ci.secrets import letter_words, lower_case


class Injection(NamedTuple):
    """Why a text is refused, and the words of it (folded) that made it so."""

    reason: str
    words: str


NEEDS = frozenset().union(*(group for phrase in (*PHRASES, *LINE_PHRASES) for group in phrase.needs))
MARKS = tuple(sorted(need for need in NEEDS if not need.isalpha()))

CONFUSABLES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u043a\u0442\u0410\u0412\u0415\u0406\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423"
    "\u0425\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
    "aeopcyxijsdktABEIKMHOPCTYXaeikvoptuABEZHIKMNOPTYX",
)
"""Cyrillic and Greek letters that look like Latin ones (Unicode UTS 39): a phrase spelled with them is that phrase."""

SELECTORS = dict.fromkeys([0x34F, *range(0x180B, 0x180E), *range(0xFE00, 0xFE10)])
"""Marks without a shape of their own: the grapheme joiner and the variation selectors."""

EMPHASIS = re.compile("[*`\"\u201c\u201d_'](?:(?<![_'])|(?!\\w)|(?<!\\w[_']))")
"""Marks, but for an underscore or an apostrophe within a word. It begins with a set, which `re` finds quickly."""

LEAD = re.compile(r"\n[\s#>*+\u2022.)\d-]*")  # Bullets, numbers and heading marks in front of a clause.
FORBIDDING = (
    r"\b(?:never|not|don't|doesn't|cannot|can't|mustn't|shouldn't|won't|nobody|no one|avoid|instead of|rather than"
    r"|forbid\w*|refuse[sd]? to|reject\w*)(?: \w+){0,2}$"
)


def find_injection(text: str) -> list[Injection]:
    """Every phrase of the tables that `text` holds, one each, with the words that match.

    The text is read as a whole, since a phrase may be wrapped, and line by line, since a line begins a clause.
    """
    plain = _plain(text)
    whole = " ".join(plain.split())
    held = held_needs(lower_case(whole))
    found: list[Injection] = []
    if near := near_phrases(PHRASES, held):
        # The lines of a text, folded, without what leads them.
        lines = LEAD.sub("\n", "\n".join(["", *text.splitlines()]))
        found += _search(near, "\n".join([whole, *[" ".join(line.split()) for line in _plain(lines).split("\n")]]))
    if near := near_phrases(LINE_PHRASES, held):
        found += _search(near, unicodedata.normalize("NFKC", text))
    orders = find_orders(plain if text.isascii() else EMPHASIS.sub("", unicodedata.normalize("NFKC", text)))
    return found + [Injection(reason, words) for reason, words in orders]


def held_needs(folded: str) -> Set[str]:
    """What the phrases need and a folded text in lower case holds."""
    return NEEDS.intersection(letter_words(folded)).union(mark for mark in MARKS if mark in folded)


def near_phrases(phrases: Sequence[Phrase], held: Set[str]) -> list[Phrase]:
    """The phrases that a text may hold that holds these needs. Most texts hold none of the first need of any."""
    return [
        phrase
        for phrase in phrases
        if not (held.isdisjoint(phrase.needs[0]) or any(map(held.isdisjoint, phrase.needs[1:])))
    ]


def _search(phrases: list[Phrase], text: str) -> list[Injection]:
    """Each phrase where it stands first. No phrase reaches over a line."""
    lowered = lower_case(text)
    spans = ((phrase.reason, _find_span(phrase, lowered)) for phrase in phrases)
    return [Injection(reason, text[span].strip()) for reason, span in spans if span]


def _find_span(phrase: Phrase, lowered: str) -> slice | None:
    for match in re.finditer(phrase.regex, lowered, re.MULTILINE):
        before = lowered[max(match.start() - 40, 0) : match.start()].rpartition("\n")[2]
        if not (phrase.may_be_forbidden and re.search(FORBIDDING, before.rstrip())):
            return slice(*match.span())
    return None


def _plain(text: str) -> str:
    """Compatibility forms replaced, invisible characters and emphasis removed."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
        if unseen := [char for char in set(text) if unicodedata.category(char) == "Cf"]:
            text = text.translate(dict.fromkeys(map(ord, unseen)))
        text = text.translate(SELECTORS).translate(CONFUSABLES)
    return EMPHASIS.sub("", text)
