"""Phrases that tell an agent to obey somebody else, to hide something or to drop a guard.

The tables of patterns match folded text: NFKC, without invisible characters and emphasis, with
white space as one blank, in lower case. The same words in honest engineering text ("ignore the
previous value", "skip tests that need docker") must pass. So a pattern needs the object as well as
the verb, and patterns about guards do not match if the sentence forbids it.

Each phrase is a pattern with groups of required strings: a text without a string of each group
cannot match. Few texts have these, and to look for them is cheap. Only then is the pattern compiled
and tried.
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
from memory_ci.secrets import letter_words, lower_case, split_words
from memory_ci.text import BARE_STEMS, spell_negations

TABLES = Path(__file__).with_name("languages.toml")
END = r"(?=\s*(?:$|[.;!\u3002\uff01]))"
"""The pattern for which END stands in languages.toml."""

ORDER_STRINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
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
"""The required strings of the orders in languages.toml, by language and reason, in lower case.

A text with an order has one of its strings. Orders in languages that are not here are looked for in
texts with OTHER_LETTERS.
"""

ASCII_ORDER_STRINGS = tuple(
    string
    for strings_by_reason in ORDER_STRINGS.values()
    for string in chain.from_iterable(strings_by_reason.values())
    if string.isascii()
)
"""A text in ASCII with an order in another language than English has one of these."""

OTHER_LETTERS = "[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff]"
QUOTED = Regex('"[^"]*"|\u201c[^\u201d]*\u201d|\u201e[^\u201c]*\u201c|«[^»]*»|「[^」]*」|`[^`]*`')
CLAUSE_END = Regex("[.;!?\u3002\uff01\uff1f\n]")
NEGATION_DISTANCE = 40
"""Number of characters in front of a phrase in which a negation forbids it."""

FORBIDDING = (
    r"\b(?:never|not|don't|doesn't|cannot|can't|mustn't|shouldn't|won't|nobody|no one|avoid"
    r"|instead of|rather than"
    r"|forbid\w*|refuse[sd]? to|reject\w*)(?: \w+){0,2}$"
)
ALL_PHRASES = (*PHRASES, *LINE_PHRASES)

REQUIRED_STRINGS = frozenset().union(
    *(group for phrase in ALL_PHRASES for group in phrase.required_groups)
)
"""All strings that some phrase requires."""

FIRST_GROUP_STRINGS = frozenset().union(*(phrase.required_groups[0] for phrase in ALL_PHRASES))
REQUIRED_WORDS = frozenset(string for string in REQUIRED_STRINGS if string.isalpha())
"""Required strings of letters, which must be whole words of a text."""

REQUIRED_WORDS_AS_BYTES = frozenset(word.encode() for word in REQUIRED_WORDS)
REQUIRED_SUBSTRINGS = tuple(sorted(REQUIRED_STRINGS - REQUIRED_WORDS))
"""The other required strings (`<|`, `tool_` …), which may be anywhere in a text."""

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

EMPHASIS_SIGNS = '*`"\u201c\u201d'
"""Signs of emphasis and quotation marks, wherever they are."""

# `re` finds a pattern quickly that begins with one certain character.
UNDERSCORE = Regex(r"_(?:(?!\w)|(?<!\w_))")
APOSTROPHE = Regex(r"'(?:(?!\w)|(?<!\w'))")
"""An underscore and an apostrophe that are not within a word: emphasis and a quotation mark."""

BARE_NEGATIONS = frozenset(f"{stem}t".encode() for stem in BARE_STEMS.split("|"))
"""Negations without their apostrophe (`dont`), as bytes."""

LEAD = Regex(r"\n[\s#>*+\u2022.)\d-]*")
"""Bullets, numbers and heading marks in front of a clause."""


class Injection(msgspec.Struct, frozen=True):
    """The reason to refuse a text, and its words (folded) that match."""

    reason: str
    words: str


def find_injection(text: str) -> list[Injection]:
    """Return the phrases of a text by which it would steer an agent, each with the reason.

    Each table is matched against the form of the text that it is written for:

    - PHRASES: the folded text as one line, because a phrase may be wrapped, and each folded line
      without its bullet or heading mark, because some phrases must begin a line.
    - LINE_PHRASES, such as tags: the text with its punctuation.
    - Orders in other languages than English, which come last: the text with its own letters.
    """
    folded = fold(text)
    one_line = " ".join(folded.split())
    found_strings = find_required_strings(lower_case(one_line))
    injections: list[Injection] = []

    phrases = select_phrases(PHRASES, found_strings)
    if phrases:
        text_without_bullets = LEAD.sub("\n", "\n".join(["", *text.splitlines()]))
        lines = [" ".join(line.split()) for line in fold(text_without_bullets).split("\n")]
        injections += _match_phrases(phrases, "\n".join([one_line, *lines]))

    line_phrases = select_phrases(LINE_PHRASES, found_strings)
    if line_phrases:
        injections += _match_phrases(line_phrases, unicodedata.normalize("NFKC", text))

    # Folding replaces Cyrillic and Greek letters by Latin ones, which orders in Russian need.
    text_for_orders = folded
    if not text.isascii():
        text_for_orders = remove_emphasis(unicodedata.normalize("NFKC", text))
    injections += find_orders(text_for_orders)
    return injections


def find_required_strings(folded: str) -> Set[str]:
    """Return the strings of a text without which some phrase cannot match.

    Args:
        folded: the text, folded and in lower case.
    """
    words = REQUIRED_WORDS.intersection(letter_words(folded))
    substrings = [string for string in REQUIRED_SUBSTRINGS if string in folded]
    return words.union(substrings) if substrings else words


class PhraseClues(msgspec.Struct, frozen=True):
    """What `find_injection` can find in any of many texts, found once in the joined texts.

    With it, most of the texts need not be searched one by one.

    Attributes:
        phrases: the phrases whose required strings are in the texts, though perhaps in different
            texts.
        first_group_words: the words in the first groups of these phrases that are in the texts.
        substrings: the other required strings of these phrases that are in the texts.
        order_strings: the required strings of orders in other languages that are in the texts.
    """

    phrases: tuple[Phrase, ...]
    first_group_words: frozenset[bytes]
    substrings: tuple[str, ...]
    order_strings: tuple[str, ...]

    def may_be_in(self, folded: str) -> bool:
        """Return whether one of the texts may hold a phrase or an order.

        False is certain, and cheaper than to match the patterns.

        Args:
            folded: the text, folded and in lower case.
        """
        for order_string in self.order_strings:
            if order_string in folded:
                return True
        if not self.phrases:
            return False
        words = split_words(folded)
        substrings = [string for string in self.substrings if string in folded]
        if self.first_group_words.isdisjoint(words) and not substrings:
            return False
        required_words = {word.decode() for word in REQUIRED_WORDS_AS_BYTES.intersection(words)}
        return bool(select_phrases(self.phrases, required_words.union(substrings)))


def find_phrase_clues(folded: str, vocabulary: Set[bytes]) -> PhraseClues:
    """Return the phrases and orders that some of many texts may hold, by one search of all texts.

    Few texts hold a string that a phrase requires. So the joined texts are searched once for all
    required strings, and `PhraseClues.may_be_in` then selects the few texts to search in full.

    Args:
        folded: the texts, in ASCII, joined, folded and in lower case.
        vocabulary: their words as bytes (`split_words`).
    """
    words = {word.decode() for word in REQUIRED_WORDS_AS_BYTES & vocabulary}
    substrings = {string for string in REQUIRED_SUBSTRINGS if string in folded}
    phrases = tuple(select_phrases(ALL_PHRASES, words | substrings))

    first_group_strings: set[str] = set()
    all_strings: set[str] = set()
    for phrase in phrases:
        first_group_strings |= phrase.required_groups[0]
        all_strings.update(*phrase.required_groups)

    # All different words together are far shorter than the text.
    joined_words = b" ".join(vocabulary).decode()
    order_strings: dict[str, None] = {}  # a dict, because it keeps the order
    for order_string in ASCII_ORDER_STRINGS:
        searched_text = joined_words if order_string.isalpha() else folded
        if order_string in searched_text:
            order_strings[order_string] = None
    return PhraseClues(
        phrases=phrases,
        first_group_words=frozenset(word.encode() for word in words & first_group_strings),
        substrings=tuple(sorted(substrings & all_strings)),
        order_strings=tuple(order_strings),
    )


def select_phrases(phrases: Sequence[Phrase], found_strings: Set[str]) -> list[Phrase]:
    """Return the phrases that can match a text, by the strings that they require.

    A phrase can match only a text with a string of each of its required groups. This is cheaper to
    test than its regular expression. Few texts have a string of the first group, so that is tested
    first.

    Args:
        phrases: the phrases.
        found_strings: the strings of the text that any phrase requires
            (`find_required_strings`).
    """
    if found_strings.isdisjoint(FIRST_GROUP_STRINGS):
        return []
    selected: list[Phrase] = []
    for phrase in phrases:
        if found_strings.isdisjoint(phrase.required_groups[0]):
            continue
        if not any(found_strings.isdisjoint(group) for group in phrase.required_groups):
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
    return remove_emphasis(spell_negations(text))


def fold_lowered(lowered: str, vocabulary: Set[bytes]) -> str:
    """Return what `fold` returns for texts in ASCII and in lower case.

    Args:
        lowered: the texts, joined.
        vocabulary: their words as bytes (`split_words`), in which a negation is found sooner.
    """
    if not vocabulary.isdisjoint(BARE_NEGATIONS):
        lowered = spell_negations(lowered)
    return remove_emphasis(lowered)


def remove_emphasis(text: str) -> str:
    """Return a text without emphasis and quotation marks; `snake_case` and `don't` keep theirs."""
    # Each is first replaced by a sign that is removed at the end: an underscore beside an
    # apostrophe counts as a part of a word only while both are in the text.
    text = APOSTROPHE.sub("*", text)
    text = UNDERSCORE.sub("*", text)
    for sign in EMPHASIS_SIGNS:
        text = text.replace(sign, "")
    return text


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
    """Return what a person does with a sentence in another language than English, or None.

    The actions are those by which people correct an agent, such as "says no"; languages.toml has a
    pattern for each. Quoted words do not count: they are somebody else's.
    """
    unquoted = QUOTED.sub(" ", unicodedata.normalize("NFKC", sentence))
    for language in load_languages().values():
        for action, pattern in language.steering.items():
            if _compile(pattern).search(unquoted):
                return action
    return None


def find_orders(text: str) -> Iterator[Injection]:
    """Yield commands to an agent in other languages than English ("ignoriere alle Anweisungen").

    Of each pattern of languages.toml, the first match that no negation forbids is yielded.
    """
    candidates = list(_list_order_candidates(text))
    if not candidates:
        return
    languages = load_languages()
    for candidate in candidates:
        language = languages[candidate.language]
        pattern = language.orders[candidate.reason]
        words = find_unforbidden_match(text, pattern, language.negation)
        if words is not None:
            yield Injection(candidate.reason, words)


class OrderCandidate(msgspec.Struct, frozen=True):
    """The language and the reason of a pattern for orders that may match a text."""

    language: str
    reason: str


def _list_order_candidates(text: str) -> Iterator[OrderCandidate]:
    """Yield the patterns for orders that may match a text; for most texts there are none.

    It is cheap to look for their required strings, while the patterns take a third of a
    millisecond.
    """
    lowered = lower_case(text)
    for language, strings_by_reason in ORDER_STRINGS.items():
        for reason, required_strings in strings_by_reason.items():
            for string in required_strings:
                if string in lowered:
                    yield OrderCandidate(language, reason)
                    break
    if not text.isascii() and re.search(OTHER_LETTERS, text):
        for language, table in load_languages().items():
            if language not in ORDER_STRINGS:
                for reason in table.orders:
                    yield OrderCandidate(language, reason)


def find_unforbidden_match(text: str, pattern: str, negation: str) -> str | None:
    """Return the first match of a pattern that no negation precedes in its clause, or None.

    Args:
        text: the text.
        pattern: a pattern of languages.toml.
        negation: the pattern of words that forbid what follows them.
    """
    for match in _compile(pattern).finditer(text):
        preceding = text[max(match.start() - NEGATION_DISTANCE, 0) : match.start()]
        clause_start = CLAUSE_END.split(preceding)[-1]
        if not _compile(negation).search(clause_start):
            return match[0]
    return None
