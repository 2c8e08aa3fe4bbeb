"""Tombstones: what was forgotten, as salted hashes, so that it is not learned again and the file does not say it.

A line is `forgotten:<kind>:<words>:<salt>:<hash>`. Words are compared without case, punctuation and layout. A phrase of
more than CHUNK words is kept as windows of so many. Whoever has the file can test guesses (docs/forgetting.md).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from memory_ci.records.candidate import Candidate

# `words` are refused wherever they stand, `text` only as a whole, a `name` is masked and the rest is kept.
Kind = Literal["words", "text", "name"]
T = TypeVar("T")
TOMBSTONE = re.compile(r"forgotten:(words|text|name):(\d{1,3}):([0-9a-f]{32}):([0-9a-f]{32})")
WIDE = "\u3040-\u30ff\u3400-\u9fff"  # Scripts without blanks between words: each character is one.
WORD = (
    rf"[{WIDE}]|(?:[^\W_{WIDE}][\u0300-\u036f]*)+"  # Compiled where something is forgotten: 2 ms.
)
CHUNK = 8
LEAST_PHRASE = 5  # Words of an entry's text that are forgotten wherever they stand; fewer only as a whole text.
FORGOTTEN, PERSON = "[redacted:forgotten]", "[redacted:person]"
# Fields that name a thing or are of a fixed set of words: their text is no prose.
NAMING = frozenset(
    """id kind outcome actor author agent severity commit session uid format origin retrieved used type domain status
    priority phase adoption scope""".split()
)
# The same of JSON, in which names of things may hold what is to be forgotten.
FIXED = frozenset("kind actor type format agent severity outcome status".split())
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf\"/\\]))")


class Tombstones(msgspec.Struct, frozen=True):
    """Hashes by (kind, number of words, salt). Nothing is forgotten where there are none."""

    hashes: Mapping[tuple[str, int, str], frozenset[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.hashes)

    def find(self, text: str) -> list[tuple[int, int, str]]:
        """Where forgotten words and names stand in a text: begin, end, and the mask. In order, none overlap."""
        if not self.hashes:
            return []
        words = [(_fold(match.group()), *match.span()) for match in re.finditer(WORD, text)]
        found: list[tuple[int, int, str]] = []
        for (kind, size, salt), wanted in self.hashes.items():
            mask = PERSON if kind == "name" else FORGOTTEN
            starts = (
                range(len(words) - size + 1)
                if kind != "text"
                else [0]
                if len(words) == size
                else []
            )
            for at in starts:
                window = words[at : at + size]
                if _hash(salt, (word for word, *_ in window)) in wanted:
                    found.append((window[0][1], window[-1][2], mask))
        united: list[tuple[int, int, str]] = []
        for start, end, mask in sorted(found):
            begin, last, own = united[-1] if united else (0, 0, "")
            if united and (start < last or (mask == own and not re.search(WORD, text[last:start]))):
                united[-1] = (
                    begin,
                    max(end, last),
                    FORGOTTEN if FORGOTTEN in (mask, own) else mask,
                )
            else:
                united.append((start, end, mask))
        return united

    def mask(self, text: str) -> str:
        """The text with masks in place of what is forgotten."""
        for start, end, mask in reversed(self.find(text)):
            text = text[:start] + mask + text[end:]
        return text

    def refuses(self, *texts: str) -> bool:
        """Whether one of the texts holds forgotten words, or the mask of such: it is not written again."""
        return any(
            FORGOTTEN in text or any(mask == FORGOTTEN for *_, mask in self.find(text))
            for text in texts
        )

    def refuses_candidate(self, candidate: Candidate) -> bool:
        texts = (candidate.title, candidate.body, candidate.instead or "", candidate.aka)
        return bool(self) and self.refuses(*texts, *(quote.text for quote in candidate.quotes))

    def holds(self, data: bytes) -> bool:
        """Whether a file holds it, also as JSON spells it."""
        text = data.decode("utf-8", "replace")
        return bool(self.find(text)) or ("\\" in text and bool(self.find(ESCAPE.sub(_plain, text))))

    def mask_all(self, value: T) -> T:
        """A record or a JSON value with every text in it masked, however deep; keys and names of things stay."""
        return cast("T", self._masked(value)) if self else value

    def _masked(self, value: Any) -> Any:  # noqa: ANN401 - any record
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, msgspec.Struct):
            names = [name for name in value.__struct_fields__ if name not in NAMING]
            return msgspec.structs.replace(
                value, **{name: self._masked(getattr(value, name)) for name in names}
            )
        if isinstance(value, dict):
            return {
                key: item if key in FIXED else self._masked(item) for key, item in value.items()
            }
        return type(value)(map(self._masked, value)) if type(value) in (list, tuple) else value


NONE = Tombstones()


def parse_tombstones(lines: Iterable[str]) -> Tombstones:
    """The tombstones among the lines of a file."""
    found: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
    for match in filter(None, (TOMBSTONE.fullmatch(line.strip()) for line in lines)):
        kind, size, salt, value = match.groups()
        found[kind, int(size), salt].add(value)
    return Tombstones({key: frozenset(values) for key, values in found.items()})


def format_tombstones(kind: Kind, text: str, salt: str) -> tuple[str, ...]:
    """The lines for a text; none where it has no word."""
    words = [_fold(match.group()) for match in re.finditer(WORD, text)]
    if not words:
        return ()
    ends = [len(words)] if kind == "text" else [*range(CHUNK, len(words), CHUNK), len(words)]
    width = len(words) if kind == "text" else CHUNK
    windows = [words[max(0, end - width) : end] for end in ends]
    return tuple(f"forgotten:{kind}:{len(part)}:{salt}:{_hash(salt, part)}" for part in windows)


def find_salt(lines: Iterable[str]) -> str | None:
    """The salt of the lines that are there: one for a file keeps reading it quick."""
    return next((match.group(3) for match in map(TOMBSTONE.fullmatch, lines) if match), None)


def _fold(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()


def _hash(salt: str, words: Iterable[str]) -> str:
    return hashlib.blake2b(
        " ".join(words).encode(), key=bytes.fromhex(salt), digest_size=16
    ).hexdigest()


def _plain(match: re.Match[str]) -> str:
    code, char = match.groups()
    return (
        chr(int(code, 16))
        if code
        else {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}.get(char, char)
    )


def long_enough(texts: Sequence[str]) -> list[tuple[Kind, str]]:
    """How the texts of an entry are forgotten: wherever they stand, a short one only as a whole."""
    return [
        ("words" if len(re.findall(WORD, text)) >= LEAST_PHRASE else "text", text)
        for text in texts
        if text.strip()
    ]
