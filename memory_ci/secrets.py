"""Search for credentials (keys, tokens, passwords) in text, by patterns.

A pattern is tried only where one of its literal keywords is, and compiled at the first such place;
a keyword is searched only in a text that holds its word. A match is the group `secret` of the
pattern, else the whole. Masked text (`[redacted:kind]`) never matches. Escapes of terminals,
addresses, JSON and Markdown are resolved: a key behind a colour, behind `%3D`, or with `\\_` in it
is a key.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from operator import attrgetter

import msgspec

from memory_ci.regex import Regex
from memory_ci.secret_patterns import PATTERNS, VENDORS, Pattern

MASK = Regex(r"\[redacted:[a-z-]+\]")
INVISIBLE = "\u200b-\u200d\u2060\ufeff"
ESCAPED = Regex(
    rf"[\\%\x1b^=&\x9b{INVISIBLE}](?:"
    # The beginning of a key is no escape: `C:\dir\npm_…`.
    r"(?<=\\)(?P<space>[nrt])(?!pm_|tn_|fp_|api_|8_|k_|e_|nd_|dme_|zp_|ubygems_|skey-|k-us-|vly-)"
    r"|(?P<colour>(?:(?<=\x1b)|(?<=\^)\[|(?<=\\)(?:x1[bB]|0?33|e|u001[bB]))"
    r"(?:\[[0-9;:?]{0,20}[A-Za-z]|\([A-Z0-2])"
    r"|(?<=\x9b)[0-9;:?]{0,20}[A-Za-z])"
    r"|(?:(?<=%)(?:25){0,3}|(?<=\\)(?:u00|x)|(?<==)(?=3[dD]))(?P<code>[2-7][0-9A-Fa-f])"
    r"|(?<=&)#(?:[xX](?P<hex>[2-7][0-9A-Fa-f])|(?P<decimal>\d{2,3}));"
    rf"|(?<=\\)(?=[_*~.-])|(?<=[{INVISIBLE}]))"
)
"""Escapes that may be in or before a key.

White space as JSON and source code spell it; colours of terminals (ECMA-48, section 5.4), also as
text; characters of addresses (RFC 3986, section 2.1), also escaped twice, of mail (RFC 2045,
section 6.7), of JSON (RFC 8259, section 7), of source code and of HTML; escapes of Markdown;
invisible characters.
"""

ESCAPE_SIGNS = "\\%^=&\x1b\x9b\u200b\u200c\u200d\u2060\ufeff"
"""The signs with which a match of ESCAPED begins; most texts have none."""

FILLER = "\0"  # Replaces masked text during the search: no pattern accepts it.


class Secret(msgspec.Struct, frozen=True):
    """A credential in a text: its kind, and text[start:end]."""

    kind: str
    start: int
    end: int


ANCHORED = [pattern for pattern in PATTERNS if pattern.anchor]
SHORTEST_ANCHORED = 34
"""Characters without a blank in each match of ANCHORED, at least; few texts have such a word."""


VENDOR_NAMES = frozenset(VENDORS.split())


def _is_within_words(keyword: str) -> bool:
    """Return whether a keyword may be a part of a word, so that it is searched in the whole text.

    These are keywords that end with a letter, apart from the names of vendors.
    """
    return (keyword[-1].isalpha() and keyword not in VENDOR_NAMES) or keyword == "://"


class _Keyword(msgspec.Struct, frozen=True, order=True):
    """A keyword of a pattern: a text in lower case that each match of the pattern has.

    Attributes:
        pattern_index: the index of the pattern in PATTERNS.
        text: the keyword, such as `ghp_`.
    """

    pattern_index: int
    text: str


ALL_KEYWORDS: list[_Keyword] = []
for _index, _pattern in enumerate(PATTERNS):
    ALL_KEYWORDS += [_Keyword(_index, _text) for _text in _pattern.keywords]

WORDS_BY_KEYWORD = {keyword.text: re.findall("[a-z]+", keyword.text) for keyword in ALL_KEYWORDS}

UNBOUNDED_KEYWORDS: list[_Keyword] = []
"""Keywords that may be a part of a word (`AKIA`): the whole text is searched for them."""

KEYWORDS_BY_LAST_WORD: dict[str, list[_Keyword]] = {}
"""The other keywords by their last word: `ghp_` is searched only in a text with the word `ghp`."""

for _keyword in ALL_KEYWORDS:
    if _is_within_words(_keyword.text):
        UNBOUNDED_KEYWORDS.append(_keyword)
    else:
        last_word = WORDS_BY_KEYWORD[_keyword.text][-1]
        KEYWORDS_BY_LAST_WORD.setdefault(last_word, []).append(_keyword)
LAST_WORDS = frozenset(KEYWORDS_BY_LAST_WORD)
LAST_WORDS_IN_BYTES = frozenset(word.encode() for word in LAST_WORDS)

LETTERS = bytes(
    byte if chr(byte) in "abcdefghijklmnopqrstuvwxyz" else ord(" ") for byte in range(256)
)
"""A table for bytes.translate: all but a-z becomes a blank."""

NO_BLANKS = bytes(ord(" ") if chr(byte).isspace() else ord("x") for byte in range(256))
"""A table for bytes.translate: all but white space becomes an x."""

LONG_TEXT = 10_000  # Characters from which the words of a text are searched instead of the text.
LONG_WORD = b"x" * SHORTEST_ANCHORED

NAME_OR_QUANTITY = Regex(r"[A-Za-z]+\d{0,2}(?:[._/:-]+[A-Za-z]*\d{0,2})*|\d[\d.,]*[A-Za-z]{1,3}")
"""A name made of words (`settings.oauth_token_v2`), or a number with a unit (`2.119834ms`).

The first is the name of a key, not a key. Logs print the second after `token`.
"""

EXAMPLES = frozenset(
    "password passwd pass secret user token changeme example placeholder pwd".split()
)


def find_secrets(text: str) -> list[Secret]:
    """Return the credentials in a text, in order; of overlapping ones the first and longest."""
    masked = MASK.sub(_fill_masked, text) if "[redacted:" in text else text
    escapes = list(ESCAPED.finditer(masked)) if _has_escape_sign(masked) else []
    candidates = _find_escaped(masked, escapes) if escapes else _find_plain(masked)
    secrets: list[Secret] = []
    for secret in sorted(candidates, key=lambda secret: (secret.start, -secret.end)):
        if not secrets or secret.start >= secrets[-1].end:
            secrets.append(secret)
    return secrets


def _has_escape_sign(text: str) -> bool:
    """Return whether a text may have an escape: a search for a sign is faster than a pattern."""
    return any(sign in text for sign in ESCAPE_SIGNS)


def _fill_masked(match: re.Match[str]) -> str:
    return FILLER * len(match.group())


def _find_escaped(text: str, escapes: Sequence[re.Match[str]]) -> Iterator[Secret]:
    """Yield the credentials in a text once its escapes (`%3D`, colours …) are resolved.

    Their offsets are those in the escaped text.
    """
    # A colour of a terminal may be within a key, or between two words: both are tried.
    colour_texts = [""]
    if any(match["colour"] for match in escapes):
        colour_texts.append(" ")
    for colour_text in colour_texts:
        resolved = _resolve_escapes(text, escapes, colour_text)
        for secret in _find_plain(resolved.text):
            start = resolved.map_offset(secret.start)
            end = resolved.map_offset(secret.end - 1) + 1
            yield Secret(secret.kind, start, end)


class _PieceStart(msgspec.Struct, frozen=True):
    """Where a piece of a resolved text begins: in that text, and in the escaped text."""

    resolved_offset: int
    escaped_offset: int


class _ResolvedText(msgspec.Struct, frozen=True):
    """A text whose escapes are resolved.

    Attributes:
        text: the text.
        piece_starts: the beginnings of its pieces, in order. A piece is either a resolved escape or
            unchanged text between two escapes.
    """

    text: str
    piece_starts: list[_PieceStart]

    def map_offset(self, offset: int) -> int:
        """Return the offset in the escaped text for an offset in this text."""
        index = bisect_right(self.piece_starts, offset, key=attrgetter("resolved_offset")) - 1
        start = self.piece_starts[index]
        return start.escaped_offset + offset - start.resolved_offset


def _resolve_escapes(
    text: str, escapes: Iterable[re.Match[str]], colour_text: str
) -> _ResolvedText:
    """Return a text with its escapes resolved.

    Args:
        text: the escaped text.
        escapes: the matches of `ESCAPED` in it.
        colour_text: the text that takes the place of an escape for a colour: "" or a blank.
    """
    pieces = [""]
    piece_starts = [_PieceStart(0, 0)]
    length = 0  # Of the pieces.
    position = 0  # After the last escape.
    for escape in escapes:
        character = _resolve_escape(escape, colour_text)
        pieces += [text[position : escape.start()], character]
        length += escape.start() - position
        piece_starts.append(_PieceStart(length, escape.start()))
        length += len(character)
        piece_starts.append(_PieceStart(length, escape.end()))
        position = escape.end()
    pieces.append(text[position:])
    return _ResolvedText("".join(pieces), piece_starts)


def _resolve_escape(escape: re.Match[str], colour_text: str) -> str:
    """Return the text that a match of `ESCAPED` stands for, such as `=` for `%3D`.

    Args:
        escape: the match.
        colour_text: the text that takes the place of an escape for a colour.
    """
    hexadecimal = escape["code"] or escape["hex"]
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    if escape["decimal"]:
        return chr(int(escape["decimal"]))
    if escape["space"]:  # `\n`, `\r` or `\t`: each ends a key as a line feed does.
        return "\n"
    return colour_text if escape["colour"] else ""  # "" for the escapes of Markdown.


def _find_plain(text: str) -> Iterator[Secret]:
    """Yield the credentials in a text without escapes; they may overlap.

    To save time, a pattern is tried only if the text has one of its keywords, and patterns without
    keywords only if the text has a long word.
    """
    lowered = lower_case(text)
    for number, keywords in list_possible_keywords(lowered).items():
        yield from _match_pattern(PATTERNS[number], keywords, text, lowered)
    longest_word = max(map(len, text.split()), default=0)
    if longest_word >= SHORTEST_ANCHORED:
        for pattern in ANCHORED:
            yield from _match_pattern(pattern, [], text, lowered)


class SecretClues(msgspec.Struct, frozen=True):
    """The signs of credentials that many texts hold together.

    With them `find_secrets` is called only for texts that hold a sign.

    Attributes:
        keywords: the keywords of patterns that a text holds, each with the companions of its
            pattern: a match with the keyword holds one of these, too.
        has_escapes: whether a text has an escape.
        has_long_words: whether a text has SHORTEST_ANCHORED characters without a blank.
    """

    keywords: tuple[tuple[str, tuple[str, ...]], ...]
    has_escapes: bool
    has_long_words: bool

    def may_be_in(self, text: str, lowered: str) -> bool:
        """Return whether `find_secrets` may find something in a text.

        Args:
            text: one of the texts.
            lowered: this text in lower case.
        """
        for keyword, companions in self.keywords:
            if keyword in lowered and _has_companion(companions, lowered):
                return True
        if self.has_escapes and ESCAPED.search(text):
            return True
        return self.has_long_words and _has_long_word(text)


def find_secret_clues(joined_texts: str, lowered: str, vocabulary: Set[bytes]) -> SecretClues:
    """Return the signs of credentials that some texts in ASCII hold together.

    Args:
        joined_texts: the texts, joined.
        lowered: the same in lower case.
        vocabulary: their distinct words (`split_words`).
    """
    possible_keywords = list(UNBOUNDED_KEYWORDS)
    for last_word in LAST_WORDS_IN_BYTES & vocabulary:
        possible_keywords += KEYWORDS_BY_LAST_WORD[last_word.decode()]
    # All distinct words together are far shorter than the texts, so they are searched first.
    joined_words = b" ".join(vocabulary).decode()
    keywords: dict[tuple[str, tuple[str, ...]], None] = {}
    for keyword in sorted(possible_keywords):
        if not all(word in joined_words for word in WORDS_BY_KEYWORD[keyword.text]):
            continue
        companions = PATTERNS[keyword.pattern_index].companions
        if keyword.text in lowered and _has_companion(companions, lowered):
            keywords[keyword.text, companions] = None
    return SecretClues(
        keywords=tuple(keywords),
        has_escapes=_has_escape_sign(joined_texts) and bool(ESCAPED.search(joined_texts)),
        has_long_words=_has_long_word(joined_texts),
    )


def _has_long_word(text: str) -> bool:
    """Return whether a text in ASCII has SHORTEST_ANCHORED characters without a blank."""
    return LONG_WORD in text.encode("ascii").translate(NO_BLANKS)


def mask_secrets(text: str) -> str:
    """Return a text with each credential replaced by `[redacted:KIND]`."""
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}[redacted:{secret.kind}]{text[secret.end :]}"
    return text


def lower_case(text: str) -> str:
    """Return a text in lower case, of the same length.

    Two kinds of i and the long s are replaced first: `re.IGNORECASE` takes them for letters of a-z,
    but `str.lower` leaves them unchanged or makes two characters of one.
    """
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def split_words(lowered: str) -> list[bytes]:
    """Return the runs of a-z in a lower-case text, in order, as bytes."""
    return lowered.encode("ascii", "replace").translate(LETTERS).split()


def letter_words(lowered: str) -> list[str]:
    """Return the runs of a-z in a lower-case text, in order."""
    return lowered.encode("ascii", "replace").translate(LETTERS).decode("ascii").split()


def list_possible_keywords(lowered: str) -> dict[int, list[str]]:
    """Return the keywords that a lower-case text may hold, by the index of their pattern.

    For most texts there are none, and no pattern needs to be tried. A keyword that may be a part of
    a word is searched for; of the others only the last word is.
    """
    words = letter_words(lowered)
    letters = lowered
    if len(lowered) > LONG_TEXT:
        # All distinct words together are far shorter than the text.
        letters = " ".join(set(words))
    candidates: list[_Keyword] = []
    for keyword in UNBOUNDED_KEYWORDS:
        searched_text = letters if keyword.text.isalpha() else lowered
        if keyword.text in searched_text:
            candidates.append(keyword)
    for last_word in LAST_WORDS.intersection(words):
        candidates += KEYWORDS_BY_LAST_WORD[last_word]
    keywords: dict[int, list[str]] = {}
    for candidate in sorted(candidates):
        index = candidate.pattern_index
        if _has_companion(PATTERNS[index].companions, lowered):
            keywords.setdefault(index, []).append(candidate.text)
    return keywords


def _has_companion(companions: Sequence[str], lowered: str) -> bool:
    """Return whether a text has what a pattern needs beside its keyword."""
    return not companions or any(companion in lowered for companion in companions)


def _match_pattern(
    pattern: Pattern, keywords: list[str], text: str, lowered: str
) -> Iterator[Secret]:
    """Yield the credentials that one pattern finds in a text.

    It is tried only at its keywords or anchors, and up to `reach` characters before them.

    Args:
        pattern: the pattern.
        keywords: its keywords that the text may hold.
        text: the text.
        lowered: the text in lower case.
    """
    offsets: list[int] = []
    if pattern.anchor:
        offsets = [match.start() for match in re.finditer(pattern.anchor, text)]
    else:
        for keyword in keywords:
            offsets += _find_all(keyword, lowered)
    starts = list(list_starts(offsets, pattern.reach))
    if not starts:
        return
    regex = re.compile(pattern.regex)
    group = "secret" if "secret" in regex.groupindex else 0
    last_end = 0
    for start in starts:
        match = regex.match(text, start) if start >= last_end else None
        if match is None:
            continue
        last_end = match.end()
        value = match.group(group)
        if _is_example(value):
            continue
        if not pattern.needs_entropy or _is_random(value):
            yield Secret(pattern.kind, match.start(group), match.end(group))


def list_starts(offsets: Iterable[int], reach: int) -> Iterator[int]:
    """Yield the offsets at which a pattern is tried, each once and in order.

    A match begins at a keyword, or at most `reach` characters before it.

    Args:
        offsets: the offsets of keywords.
        reach: characters.
    """
    next_start = 0
    for offset in sorted(offsets):
        yield from range(max(next_start, offset - reach), offset + 1)
        next_start = offset + 1


def _find_all(word: str, text: str) -> Iterator[int]:
    offset = text.find(word)
    while offset >= 0:
        yield offset
        offset = text.find(word, offset + 1)


def _is_example(value: str) -> bool:
    """Tell whether a value is a placeholder: `$TOKEN`, `<token>`, `***`, `password`."""
    return value[0] in "${<%" or len(set(value)) < 3 or value.lower() in EXAMPLES


def _is_random(value: str) -> bool:
    """Return whether a value looks random: letters, digits, and an entropy of 3 bits a character.

    The entropy is Shannon's. A name made of words, or a quantity, is not random.
    """
    if NAME_OR_QUANTITY.fullmatch(value):
        return False
    if not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0
