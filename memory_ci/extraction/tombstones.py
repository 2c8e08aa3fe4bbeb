"""Tombstones: salted hashes of forgotten text, so that it is not learned again.

A line is `forgotten:<kind>:<words>:<salt>:<hash>`. Words are compared without case, punctuation and
layout. A phrase of more than `WINDOW_WORDS` words is stored as windows of that many words. A reader
of the file can test guesses of the forgotten text (docs/reviewing.md).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import msgspec

from memory_ci.regex import Regex

if TYPE_CHECKING:
    from memory_ci.records.candidate import Candidate

Kind = Literal["words", "text", "name"]
"""How something is forgotten.

`words` are refused anywhere, `text` only as a whole. A `name` is masked, and the text around it
stays.
"""

T = TypeVar("T")
TOMBSTONE = Regex(
    r"forgotten:(?P<kind>words|text|name):(?P<size>\d{1,3})"
    r":(?P<salt>[0-9a-f]{32}):(?P<hash>[0-9a-f]{32})"
)
UNSPACED_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff"  # scripts without blanks: each character is a word
# It is compiled only if something is forgotten, which spares 2 ms.
WORD = rf"[{UNSPACED_SCRIPTS}]|(?:[^\W_{UNSPACED_SCRIPTS}][\u0300-\u036f]*)+"
WINDOW_WORDS = 8
"""Number of words of a window of a phrase."""

MIN_PHRASE_WORDS = 5
"""Number of words of a text that is forgotten anywhere; a shorter one only as a whole."""

FORGOTTEN_MASK = "[redacted:forgotten]"
PERSON_MASK = "[redacted:person]"
UNMASKED_FIELDS = frozenset(
    """id kind outcome actor author agent severity commit session uid format origin retrieved used
    type domain status priority phase adoption scope""".split()
)
"""Fields of records that name a thing or have a fixed set of values: they are not masked."""

UNMASKED_KEYS = frozenset("kind actor type format agent severity outcome status".split())
"""Keys of JSON with a fixed set of values; names of things in JSON are masked."""

ESCAPE = Regex(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<char>[nrtbf\"/\\]))")
CHARACTER_BY_ESCAPE = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}


class MaskedSpan(NamedTuple):
    """The part text[start:end] of a text that is forgotten, and the mask for it."""

    start: int
    end: int
    mask: str


class Tombstones(msgspec.Struct, frozen=True):
    """The hashes of forgotten text, by kind, number of words and salt."""

    hashes: Mapping[tuple[str, int, str], frozenset[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.hashes)

    def find(self, text: str) -> list[MaskedSpan]:
        """Return the forgotten words and names in a text, in order and without overlap.

        Each run of as many words as a forgotten phrase has is hashed, and its hash looked up.
        """
        if not self.hashes:
            return []
        matches = list(re.finditer(WORD, text))
        words = [_normalize_word(match[0]) for match in matches]
        spans: list[MaskedSpan] = []
        for (kind, size, salt), hashes in self.hashes.items():
            mask = PERSON_MASK if kind == "name" else FORGOTTEN_MASK
            for start in _list_window_starts(kind, size, len(words)):
                end = start + size
                if _hash(salt, words[start:end]) in hashes:
                    spans.append(MaskedSpan(matches[start].start(), matches[end - 1].end(), mask))
        return _merge_spans(text, spans)

    def mask(self, text: str) -> str:
        """Return a text with its forgotten parts masked."""
        for start, end, mask in reversed(self.find(text)):
            text = text[:start] + mask + text[end:]
        return text

    def refuses(self, *texts: str) -> bool:
        """Return whether a text must not be written: it has forgotten words, or their mask."""
        return any(self._refuses_text(text) for text in texts)

    def _refuses_text(self, text: str) -> bool:
        return FORGOTTEN_MASK in text or any(
            span.mask == FORGOTTEN_MASK for span in self.find(text)
        )

    def refuses_candidate(self, candidate: Candidate) -> bool:
        """Return whether a candidate must not be written."""
        if not self:
            return False
        quotes = [quote.text for quote in candidate.quotes]
        texts = (candidate.title, candidate.body, candidate.instead or "", candidate.aka)
        return self.refuses(*texts, *quotes)

    def holds(self, data: bytes) -> bool:
        """Return whether a file contains forgotten text, plainly or with escapes of JSON."""
        text = data.decode("utf-8", "replace")
        if self.find(text):
            return True
        return "\\" in text and bool(self.find(ESCAPE.sub(_unescape, text)))

    def mask_all(self, value: T) -> T:
        """Return a record or JSON value with all its texts masked, however deep.

        Keys and names of things stay.
        """
        return cast("T", self._mask_value(value)) if self else value

    def _mask_value(self, value: Any) -> Any:  # noqa: ANN401 - any record
        """Return a text, record, dictionary or list with all its texts masked.

        Fields that name a thing (`UNMASKED_FIELDS`) stay, and so do values that only code chooses
        (`UNMASKED_KEYS`).
        """
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, msgspec.Struct):
            names = [name for name in value.__struct_fields__ if name not in UNMASKED_FIELDS]
            changes = {name: self._mask_value(getattr(value, name)) for name in names}
            return msgspec.structs.replace(value, **changes)
        if isinstance(value, dict):
            return {
                key: item if key in UNMASKED_KEYS else self._mask_value(item)
                for key, item in value.items()
            }
        if type(value) in (list, tuple):
            return type(value)(self._mask_value(item) for item in value)
        return value


NO_TOMBSTONES = Tombstones()


def _list_window_starts(kind: str, size: int, word_count: int) -> Sequence[int]:
    """Return the indices of the words at which a forgotten phrase can begin in a text.

    Args:
        kind: how the phrase is forgotten; `text` is compared as a whole.
        size: the number of words of the phrase.
        word_count: the number of words of the text.
    """
    if kind != "text":
        return range(word_count - size + 1)
    return [0] if word_count == size else []


def _merge_spans(text: str, spans: Iterable[MaskedSpan]) -> list[MaskedSpan]:
    """Merge spans that overlap, and those with the same mask that have no word between them."""
    merged: list[MaskedSpan] = []
    for span in sorted(spans):
        if not merged or not _belong_together(text, merged[-1], span):
            merged.append(span)
            continue
        previous = merged[-1]
        is_forgotten = FORGOTTEN_MASK in (span.mask, previous.mask)
        mask = FORGOTTEN_MASK if is_forgotten else span.mask
        merged[-1] = MaskedSpan(previous.start, max(previous.end, span.end), mask)
    return merged


def _belong_together(text: str, previous: MaskedSpan, span: MaskedSpan) -> bool:
    if span.start < previous.end:
        return True
    return span.mask == previous.mask and not re.search(WORD, text[previous.end : span.start])


def parse_tombstones(lines: Iterable[str]) -> Tombstones:
    """Parse the tombstones (hashes of forgotten text) among the lines of a file."""
    hashes: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
    for line in lines:
        match = TOMBSTONE.fullmatch(line.strip())
        if match:
            key = (match["kind"], int(match["size"]), match["salt"])
            hashes[key].add(match["hash"])
    return Tombstones({key: frozenset(values) for key, values in hashes.items()})


def format_tombstones(kind: Kind, text: str, salt: str) -> tuple[str, ...]:
    """Return the lines by which a text is recognised after it was forgotten.

    Each line has the hash of some words of the text. A text of the kind "text" is one line. Any
    other is split into windows of `WINDOW_WORDS` words, a line each: a text that repeats only a
    part of it is recognised as well. A text without a word has no line.

    Args:
        kind: how the text is forgotten.
        text: the text.
        salt: the salt of the hashes, in hexadecimal.
    """
    words = [_normalize_word(word) for word in re.findall(WORD, text)]
    if not words:
        return ()
    if kind == "text":
        windows = [words]
    else:
        # All windows are full, so the last one begins inside the one before it.
        ends = [*range(WINDOW_WORDS, len(words), WINDOW_WORDS), len(words)]
        windows = [words[max(0, end - WINDOW_WORDS) : end] for end in ends]
    return tuple(
        f"forgotten:{kind}:{len(window)}:{salt}:{_hash(salt, window)}" for window in windows
    )


def find_salt(lines: Iterable[str]) -> str | None:
    """Return the salt of the first tombstone; None if no line is a tombstone.

    New tombstones use the same salt, because a file with only one salt is read faster.
    """
    for line in lines:
        match = TOMBSTONE.fullmatch(line)
        if match:
            return match["salt"]
    return None


def choose_kinds(texts: Sequence[str]) -> list[tuple[Kind, str]]:
    """Return each text of an entry that is not blank, and how it is forgotten.

    A long text is forgotten anywhere (`words`), a short one only as a whole (`text`).
    """
    chosen: list[tuple[Kind, str]] = []
    for text in texts:
        if text.strip():
            is_phrase = len(re.findall(WORD, text)) >= MIN_PHRASE_WORDS
            chosen.append(("words" if is_phrase else "text", text))
    return chosen


def _normalize_word(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()


def _hash(salt: str, words: Iterable[str]) -> str:
    key = bytes.fromhex(salt)
    return hashlib.blake2b(" ".join(words).encode(), key=key, digest_size=16).hexdigest()


def _unescape(match: re.Match[str]) -> str:
    """Return the character that a JSON escape sequence encodes."""
    if match["code"]:
        return chr(int(match["code"], 16))
    return CHARACTER_BY_ESCAPE.get(match["char"], match["char"])
