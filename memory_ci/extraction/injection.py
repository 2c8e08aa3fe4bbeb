"""Phrases that tell an agent to obey somebody else, to hide something or to drop a guard.

The tables of patterns match folded text: NFKC, without invisible characters and emphasis, with
white space as one blank, in lower case. The same words in honest engineering text ("ignore the
previous value", "skip tests that need docker") must pass. So a pattern needs the object as well as
the verb, and patterns about guards do not match if the sentence forbids it.

A pattern is compiled and tried only for a text with the words that it cannot match without, which
few texts have.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import chain
from pathlib import Path

import msgspec

from memory_ci.extraction.injection_phrases import LINE_PHRASES, PHRASES, Phrase
from memory_ci.regex import Regex
from memory_ci.secrets import letter_words, lower_case
from memory_ci.text import spell_negations

TABLES = Path(__file__).with_name("languages.toml")
END = r"(?=\s*(?:$|[.;!\u3002\uff01]))"
"""The pattern for which END stands in languages.toml."""

ORDER_NEEDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "de": {
        "overrides-instructions": ("ignorier", "vergiss", "missacht"),
        "hides-from-people": ("nichts",),
        "weakens-guards": ("berspring", "umgeh", "deaktivier"),
    },
    "es": {
        "overrides-instructions": ("ignora", "olvida", "descarta"),
        "hides-from-people": ("digas", "cuentes", "informes"),
        "weakens-guards": ("omite", "salta", "desactiva", "ignora"),
    },
    "pt": {
        "overrides-instructions": ("instru\xe7\xf5es",),
        "hides-from-people": ("n\xe3o",),
        "weakens-guards": ("pule", "desative", "ignore"),
    },
    "fr": {
        "overrides-instructions": ("c\xe9dentes", "rieures"),
        "hides-from-people": (" rien a", " rien \xe0"),
        "weakens-guards": ("saute", "sactive", "contourne"),
    },
}
"""Parts of words in lower case: a text with an order of languages.toml has one of its parts.

Languages that are not here need OTHER_LETTERS.
"""

ASCII_ORDER_PARTS = tuple(
    part
    for needs in ORDER_NEEDS.values()
    for part in chain.from_iterable(needs.values())
    if part.isascii()
)
"""A text in ASCII with an order has one of these."""

OTHER_LETTERS = "[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff]"
QUOTED = Regex('"[^"]*"|\u201c[^\u201d]*\u201d|\u201e[^\u201c]*\u201c|«[^»]*»|「[^」]*」|`[^`]*`')
STOP = Regex("[.;!?\u3002\uff01\uff1f\n]")
NEGATION_DISTANCE = 40
"""Number of characters in front of a phrase in which a negation forbids it."""

FORBIDDING = (
    r"\b(?:never|not|don't|doesn't|cannot|can't|mustn't|shouldn't|won't|nobody|no one|avoid"
    r"|instead of|rather than"
    r"|forbid\w*|refuse[sd]? to|reject\w*)(?: \w+){0,2}$"
)
NEEDS = frozenset().union(
    *(group for phrase in (*PHRASES, *LINE_PHRASES) for group in phrase.needs)
)
FIRST_NEEDS = frozenset().union(*(phrase.needs[0] for phrase in (*PHRASES, *LINE_PHRASES)))
WORD_NEEDS = frozenset(need for need in NEEDS if need.isalpha())
WORD_NEEDS_IN_BYTES = frozenset(word.encode() for word in WORD_NEEDS)
SYMBOL_NEEDS = tuple(sorted(need for need in NEEDS if not need.isalpha()))

CONFUSABLES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u043a\u0442\u0410\u0412"
    "\u0415\u0406\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u03b1\u03b5\u03b9\u03ba"
    "\u03bd\u03bf\u03c1\u03c4\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f"
    "\u03a1\u03a4\u03a5\u03a7",
    "aeopcyxijsdktABEIKMHOPCTYXaeikvoptuABEZHIKMNOPTYX",
)
"""Cyrillic and Greek letters that look like Latin ones (Unicode UTS 39)."""

SELECTORS = dict.fromkeys([0x34F, *range(0x180B, 0x180E), *range(0xFE00, 0xFE10)])
"""Marks without a shape of their own: the grapheme joiner and the variation selectors."""

# The pattern begins with a set of characters, which `re` finds quickly.
EMPHASIS = Regex("[*`\"\u201c\u201d_'](?:(?<![_'])|(?!\\w)|(?<!\\w[_']))")
"""Emphasis and quotation marks, but no underscore or apostrophe within a word."""

LEAD = Regex(r"\n[\s#>*+\u2022.)\d-]*")
"""Bullets, numbers and heading marks in front of a clause."""


class Injection(msgspec.Struct, frozen=True):
    """The reason to refuse a text, and its words (folded) that match."""

    reason: str
    words: str


def find_injection(text: str) -> list[Injection]:
    """Return the phrases of a text by which it would steer an agent, each with the reason.

    Phrases are matched in the whole text as one line, because they may be wrapped, and in each
    line, because some must begin one. Those in other languages than English come last.
    """
    folded = fold(text)
    one_line = " ".join(folded.split())
    needs = find_needs(lower_case(one_line))
    injections: list[Injection] = []

    phrases = select_phrases(PHRASES, needs)
    if phrases:
        unmarked = LEAD.sub("\n", "\n".join(["", *text.splitlines()]))
        lines = [" ".join(line.split()) for line in fold(unmarked).split("\n")]
        injections += _match_phrases(phrases, "\n".join([one_line, *lines]))

    line_phrases = select_phrases(LINE_PHRASES, needs)
    if line_phrases:
        injections += _match_phrases(line_phrases, unicodedata.normalize("NFKC", text))

    # Folding replaces Cyrillic and Greek letters by Latin ones, which orders in Russian need.
    unemphasized = folded
    if not text.isascii():
        unemphasized = EMPHASIS.sub("", unicodedata.normalize("NFKC", text))
    injections += find_orders(unemphasized)
    return injections


def find_needs(folded: str) -> Set[str]:
    """Return the words and signs of a text that phrases of the tables need.

    Args:
        folded: the text, folded and in lower case.
    """
    needs = WORD_NEEDS.intersection(letter_words(folded))
    symbols = [symbol for symbol in SYMBOL_NEEDS if symbol in folded]
    return needs.union(symbols) if symbols else needs


class PhraseClues(msgspec.Struct, frozen=True):
    """The parts of phrases and orders that some of many texts hold.

    Attributes:
        phrases: the phrases whose needs are in the texts, though perhaps in different ones.
        first_words: the words among the first needs of these phrases.
        symbols: the other strings among all needs of these phrases.
        order_parts: parts of orders in languages other than English.
    """

    phrases: tuple[Phrase, ...]
    first_words: frozenset[bytes]
    symbols: tuple[str, ...]
    order_parts: tuple[str, ...]

    def may_be_in(self, folded: str, words: Sequence[bytes]) -> bool:
        """Return whether `find_injection` may find something in one of the texts.

        Args:
            folded: the text, folded and in lower case.
            words: its words (`split_words`).
        """
        for part in self.order_parts:
            if part in folded:
                return True
        symbols = [symbol for symbol in self.symbols if symbol in folded]
        if self.first_words.isdisjoint(words) and not symbols:
            return False
        needs = {word.decode() for word in WORD_NEEDS_IN_BYTES.intersection(words)}
        return bool(select_phrases(self.phrases, needs.union(symbols)))


def find_phrase_clues(folded: str, vocabulary: Set[bytes]) -> PhraseClues:
    """Return the parts of phrases that joined texts in ASCII hold.

    Args:
        folded: the texts, folded and in lower case.
        vocabulary: their words (`split_words`).
    """
    words = {word.decode() for word in WORD_NEEDS_IN_BYTES & vocabulary}
    symbols = {symbol for symbol in SYMBOL_NEEDS if symbol in folded}
    phrases = tuple(select_phrases((*PHRASES, *LINE_PHRASES), words | symbols))
    first_needs = frozenset().union(*(phrase.needs[0] for phrase in phrases))
    all_needs = frozenset().union(*(group for phrase in phrases for group in phrase.needs))

    # All different words together are far shorter than the text.
    joined_words = b" ".join(vocabulary).decode()
    order_parts = []
    for part in ASCII_ORDER_PARTS:
        if part in (joined_words if part.isalpha() else folded):
            order_parts.append(part)
    return PhraseClues(
        phrases=phrases,
        first_words=frozenset(word.encode() for word in words & first_needs),
        symbols=tuple(sorted(symbols & all_needs)),
        order_parts=tuple(dict.fromkeys(order_parts)),
    )


def select_phrases(phrases: Sequence[Phrase], needs: Set[str]) -> list[Phrase]:
    """Return the phrases that can match a text, by the words that they need.

    A phrase has sets of words (`phrase.needs`), and can match only a text with a word of each set.
    This is cheaper to test than its regular expression. Few texts have a word of the first set, so
    that is tested first.

    Args:
        phrases: the phrases.
        needs: the words and signs of the text that any phrase needs, from `find_needs`.
    """
    if needs.isdisjoint(FIRST_NEEDS):
        return []
    selected: list[Phrase] = []
    for phrase in phrases:
        if needs.isdisjoint(phrase.needs[0]):
            continue
        if not any(needs.isdisjoint(words) for words in phrase.needs):
            selected.append(phrase)
    return selected


def _match_phrases(phrases: Sequence[Phrase], text: str) -> Iterator[Injection]:
    """Yield the first match of each phrase in a text.

    A match after a negation (`never skip ...`) does not count if the phrase allows that.
    """
    lowered = lower_case(text)
    for phrase in phrases:
        for match in re.finditer(phrase.regex, lowered, re.MULTILINE):
            if not (phrase.may_be_forbidden and _is_forbidden(lowered, match.start())):
                yield Injection(phrase.reason, text[match.start() : match.end()].strip())
                break


def _is_forbidden(text: str, start: int) -> bool:
    """Return whether a negation precedes a position closely in the same line: `never skip …`."""
    preceding = text[max(start - NEGATION_DISTANCE, 0) : start].rpartition("\n")[2]
    return re.search(FORBIDDING, preceding.rstrip()) is not None


def fold(text: str) -> str:
    """Return a text in the form that the tables of phrases are written for.

    Compatibility forms and look-alike letters are replaced, and negations are spelled in one way.
    Invisible characters and emphasis are removed, so that they cannot hide a phrase.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        invisible = [char for char in set(text) if unicodedata.category(char) == "Cf"]
        if invisible:
            text = text.translate(dict.fromkeys(ord(char) for char in invisible))
        text = text.translate(SELECTORS).translate(CONFUSABLES)
    return EMPHASIS.sub("", spell_negations(text))


# -- languages other than English


class Language(msgspec.Struct, frozen=True):
    """The table of one language.

    Attributes:
        negation: the pattern of words that forbid an order behind them.
        steering: patterns by the action of a person who steers an agent.
        orders: patterns by the reason to refuse a text.
    """

    negation: str
    steering: Mapping[str, str]
    orders: Mapping[str, str]


@cache
def load_languages() -> Mapping[str, Language]:
    """Return the tables of languages.toml by language."""
    import tomllib  # 2 ms that English spares

    return msgspec.convert(tomllib.loads(TABLES.read_text(encoding="utf-8")), dict[str, Language])


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of languages.toml, in which END is the end of a sentence."""
    return re.compile(pattern.replace("END", END), re.IGNORECASE | re.MULTILINE)


def find_foreign_steering(sentence: str) -> str | None:
    """Return how a sentence in another language than English steers an agent ("says no"), or None.

    Quoted words steer nobody.
    """
    unquoted = QUOTED.sub(" ", unicodedata.normalize("NFKC", sentence))
    for language in load_languages().values():
        for action, pattern in language.steering.items():
            if _compile(pattern).search(unquoted):
                return action
    return None


def find_orders(text: str) -> Iterator[Injection]:
    """Yield orders to an agent in other languages than English that a text does not forbid.

    For each pattern of languages.toml the first such order is yielded.
    """
    possible = list(_list_possible_orders(text))
    if not possible:
        return
    languages = load_languages()
    for name, reason in possible:
        language = languages[name]
        order = find_order(text, language.orders[reason], language.negation)
        if order is not None:
            yield Injection(reason, order)


def _list_possible_orders(text: str) -> Iterator[tuple[str, str]]:
    """Yield language and reason of each order that a text may hold; most texts hold none.

    To look for the parts of words costs little, while the patterns cost a third of a millisecond.
    """
    lowered = lower_case(text)
    for language, needs in ORDER_NEEDS.items():
        for reason, parts in needs.items():
            for part in parts:
                if part in lowered:
                    yield language, reason
                    break
    if not text.isascii() and re.search(OTHER_LETTERS, text):
        for language, table in load_languages().items():
            if language not in ORDER_NEEDS:
                yield from ((language, reason) for reason in table.orders)


def find_order(text: str, pattern: str, negation: str) -> str | None:
    """Return the first match of a pattern that no negation precedes in its clause, or None."""
    for match in _compile(pattern).finditer(text):
        preceding = text[max(match.start() - NEGATION_DISTANCE, 0) : match.start()]
        clause = STOP.split(preceding)[-1]
        if not _compile(negation).search(clause):
            return match[0]
    return None
