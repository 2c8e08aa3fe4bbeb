"""all-MiniLM-L6-v2 on numpy: the weights are read out of the ONNX file of a package, the arithmetic is done here.

ONNX Runtime gives the same vectors, but takes three times as long for a first query (docs/embedders.md). The network is
BERT's encoder (Devlin et al., 2018) with six layers; a text's vector is the mean of its outputs (Reimers and Gurevych,
2019).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Array = Any  # A numpy array: its types are not installed everywhere, and cost mypy seconds.
DIM = 384
LAYERS = 6
HEADS = 12
EPSILON = 1e-12  # Of the layer norms, as in the model's configuration.
BATCH = 8  # Texts that run through the network at once; more of them leave the processor's cache, and are slower.
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
# Field numbers of ModelProto, GraphProto and TensorProto (onnx.proto3).
GRAPH, INITIALIZER, DIMS, TYPE, NAME, RAW = 7, 5, 1, 2, 8, 9
NUMBERS = {1: "<f4", 3: "|i1"}  # TensorProto.DataType as numpy spells it: FLOAT and INT8.


class Dense(NamedTuple):
    """A linear layer: inputs x weight + bias."""

    weight: Array
    bias: Array


class Layer(NamedTuple):
    """One layer of the encoder, with (weight, bias) of both its norms."""

    attention: Dense
    attention_out: Dense
    norm: tuple[Array, Array]
    wide: Dense
    narrow: Dense
    norm_out: tuple[Array, Array]


def load_numpy() -> Any:  # noqa: ANN401 - a module without types
    """numpy, its arithmetic on one thread: a second one costs more to start than a query takes. Raises ImportError."""
    held = {name: os.environ.get(name) for name in THREADS}
    os.environ.update({name: held[name] or "1" for name in THREADS})
    try:
        import numpy as np
    finally:
        for name, value in held.items():
            if value is None:
                del os.environ[name]
    return np


class MiniLM:
    """The network. Loading dequantizes its layers; the words' table stays on disk, where only what is asked is read."""

    def __init__(self, path: Path) -> None:
        self._np = load_numpy()
        tensors = _read_tensors(path, self._np)
        self._words = tensors["inner.embeddings.word_embeddings.weight_q"]
        self._word_scales = tensors["inner.embeddings.word_embeddings.weight_scale"]

        def dequantized(name: str) -> Array:
            return self._np.multiply(tensors[f"{name}_q"], tensors[f"{name}_scale"], dtype="<f4")

        places = dequantized("inner.embeddings.position_embeddings.weight")
        self._places = places + tensors["inner.embeddings.token_type_embeddings.weight"][0]
        self._norm = _norm_of(tensors, "inner.embeddings.LayerNorm")
        # The exporter numbered the matrices: six to a layer, in the order in which they are used.
        matrices = [
            name.removesuffix("_q")
            for name in tensors
            if name.startswith("val_") and name.endswith("_q")
        ]
        weights = [dequantized(name) for name in matrices]
        self._layers = [
            _layer(tensors, n, weights[6 * n : 6 * n + 6], self._np) for n in range(LAYERS)
        ]

    def embed(self, token_ids: Sequence[Sequence[int]]) -> Array:
        """float32 [n, 384], each row the mean over the tokens of one text (not yet of length one)."""
        rows = self._np.empty((len(token_ids), DIM), dtype="<f4")
        order = sorted(range(len(token_ids)), key=lambda place: len(token_ids[place]))
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            rows[places] = self._batch([token_ids[place] for place in places])
        return rows

    def _batch(self, texts: Sequence[Sequence[int]]) -> Array:
        np = self._np
        width = max(map(len, texts))
        ids = np.array([[*text, *[0] * (width - len(text))] for text in texts])
        seen = np.array(
            [[1.0] * len(text) + [0.0] * (width - len(text)) for text in texts], dtype="<f4"
        )
        unseen = ((seen - 1) * 1e9)[:, None, None, :]
        state = self._words[ids] * self._word_scales[ids] + self._places[:width]
        state = self._normed(state, self._norm)
        for layer in self._layers:
            state = self._normed(state + self._attended(state, layer, unseen), layer.norm)
            wide = _gelu(state @ layer.wide.weight + layer.wide.bias, np)
            state = self._normed(
                state + wide @ layer.narrow.weight + layer.narrow.bias, layer.norm_out
            )
        return (state * seen[:, :, None]).sum(1) / seen.sum(1, keepdims=True)

    def _attended(self, state: Array, layer: Layer, unseen: Array) -> Array:
        np = self._np
        count, width, _ = state.shape
        joint = (state @ layer.attention.weight + layer.attention.bias).reshape(
            count, width, 3, HEADS, DIM // HEADS
        )
        query, key, value = joint.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / np.float32((DIM // HEADS) ** 0.5) + unseen
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        return (
            mixed.transpose(0, 2, 1, 3).reshape(count, width, DIM) @ layer.attention_out.weight
            + layer.attention_out.bias
        )

    def _normed(self, state: Array, norm: tuple[Array, Array]) -> Array:
        centred = state - state.mean(-1, keepdims=True)
        spread = self._np.sqrt(
            (centred * centred).mean(-1, keepdims=True) + self._np.float32(EPSILON)
        )
        return centred / spread * norm[0] + norm[1]


def _layer(tensors: dict[str, Array], number: int, weights: Sequence[Array], np: Any) -> Layer:  # noqa: ANN401
    """Query, key and value are one matrix here: one product instead of three."""
    name = f"inner.encoder.layer.{number}"
    biases = [tensors[f"{name}.attention.self.{part}.bias"] for part in ("query", "key", "value")]
    query, key, value, out, wide, narrow = weights
    return Layer(
        Dense(np.concatenate((query, key, value), axis=1), np.concatenate(biases)),
        Dense(out, tensors[f"{name}.attention.output.dense.bias"]),
        _norm_of(tensors, f"{name}.attention.output.LayerNorm"),
        Dense(wide, tensors[f"{name}.intermediate.dense.bias"]),
        Dense(narrow, tensors[f"{name}.output.dense.bias"]),
        _norm_of(tensors, f"{name}.output.LayerNorm"),
    )


def _norm_of(tensors: dict[str, Array], name: str) -> tuple[Array, Array]:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _gelu(values: Array, np: Any) -> Array:  # noqa: ANN401
    """x times the share of a normal distribution below x, by Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    bent = np.abs(values) * np.float32(0.5**0.5)
    part = 1 / (1 + np.float32(0.3275911) * bent)
    series = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * part + np.float32(factor)
    tail = series * part * np.exp(-bent * bent)
    return values * np.float32(0.5) * (1 + np.sign(values) * (1 - tail))


def _read_tensors(path: Path, np: Any) -> dict[str, Array]:  # noqa: ANN401
    """The numeric tensors of an ONNX file, by name, in the order of the file, over its memory map."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    tensors: dict[str, Array] = {}
    for field, graph in _fields(data):
        for inner, tensor in _fields(graph) if field == GRAPH else ():
            if inner == INITIALIZER:
                parts = list(_fields(tensor))
                told = dict(parts)
                if told[TYPE] in NUMBERS:
                    flat = np.frombuffer(told[RAW], dtype=NUMBERS[told[TYPE]])
                    shape: list[
                        int
                    ] = []  # dimensions stand each in a field of its own, or all in one (packed)
                    for number, value in parts:
                        if number == DIMS:
                            shape += [value] if isinstance(value, int) else _varints(value)
                    tensors[bytes(told[NAME]).decode()] = flat.reshape(shape)
    return tensors


def _varints(data: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a protobuf message: a number, or the bytes of what has a length.
    https://protobuf.dev/programming-guides/encoding/"""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case fixed:
                at += 8 if fixed == 1 else 4


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
