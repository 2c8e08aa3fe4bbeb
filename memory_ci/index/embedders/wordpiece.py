"""Tokens of the uncased BERT vocabulary: what MiniLM reads (pure, but for the vocabulary's file).

The steps are those of the reference tokenizer (Devlin et al., 2018; google-research/bert, tokenization.py): lower case,
accents removed, words and punctuation apart, then the longest known piece first. vocab.txt is the vocabulary that BERT
and MiniLM were published with (Apache-2.0), a piece a line, its line number its id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VOCABULARY = Path(__file__).with_name("vocab.txt")
UNKNOWN, START, END = 100, 101, 102
MAX_WORD = 100  # A longer word is unknown as a whole, as in the reference.
MAX_TOKENS = 256  # What all-MiniLM-L6-v2 was trained to read, start and end included; the rest of a text is not seen.
CJK = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x2CEB0), (0x2F800, 0x2FA20))
"""Half-open ranges of ideographs, each of which is a word of its own (Hangul, Hiragana and Katakana are not)."""


def tokenize(text: str) -> list[int]:
    """Token ids of `text`, between the marks of start and end, cut to 256.

    >>> tokenize("Naïve retries!")
    [101, 15743, 2128, 21011, 999, 102]
    """
    ids = [START]
    for word in _words(text):
        ids += _pieces(word)
        if len(ids) >= MAX_TOKENS:
            break
    return [*ids[: MAX_TOKENS - 1], END]


def _words(text: str) -> Iterator[str]:
    """Lower-case words and single marks of punctuation, in order."""
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFD", _spaced(text).lower())
    for chunk in plain.split():
        if chunk.isalnum() and chunk.isascii():
            yield chunk
        else:
            yield from _parted(chunk)


def _spaced(text: str) -> str:
    return "".join(f" {char} " if any(first <= ord(char) < end for first, end in CJK) else char for char in text)


def _parted(chunk: str) -> Iterator[str]:
    word = ""
    for char in chunk:
        category = unicodedata.category(char)
        if category == "Mn" or (category[0] == "C" and category != "Cn") or char == "\ufffd":
            continue  # an accent, or nothing that is written
        if category[0] == "P" or (char.isascii() and not char.isalnum()):
            yield from (part for part in (word, char) if part)
            word = ""
        else:
            word += char
    if word:
        yield word


def _pieces(word: str) -> list[int]:
    """The longest pieces that `word` is made of, from its start, or unknown."""
    vocabulary = _vocabulary()
    if len(word) > MAX_WORD:
        return [UNKNOWN]
    ids, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return [UNKNOWN]
        ids.append(vocabulary[prefix + word[start:end]])
        start = end
    return ids


@cache
def _vocabulary() -> dict[str, int]:
    lines = VOCABULARY.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}
