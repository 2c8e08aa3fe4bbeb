"""all-MiniLM-L6-v2 on numpy, with weights out of the ONNX file of a package.

ONNX Runtime computes the same vectors, but takes three times as long for a first query
(docs/models.md#embedders). The network is BERT's encoder (Devlin et al., 2018) with six layers; the
vector of a text is the mean of its outputs (Reimers and Gurevych, 2019).
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
MATRICES_PER_LAYER = 6  # Query, key, value, output of the attention, expansion, contraction.
HEADS = 12
EPSILON = 1e-12  # Of the layer norms, as in the model's configuration.
# Texts that run through the network at once; more of them do not fit the processor's cache.
BATCH = 8
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
# Field numbers of ModelProto, GraphProto and TensorProto (onnx.proto3).
GRAPH = 7
INITIALIZER = 5
DIMS = 1
TYPE = 2
NAME = 8
RAW = 9
NUMPY_TYPES = {1: "<f4", 3: "|i1"}  # TensorProto.DataType as numpy spells it: FLOAT and INT8.


class Dense(NamedTuple):
    """A linear layer: inputs x weight + bias."""

    weight: Array
    bias: Array


class Layer(NamedTuple):
    """One layer of the encoder.

    Attributes:
        attention: makes the queries, keys and values, of 3 x 384 numbers.
        attention_out: follows the attention.
        norm: weight and bias of the norm after the attention.
        expand: makes 4 x 384 numbers of 384.
        contract: makes 384 numbers of them.
        norm_out: weight and bias of the norm at the end.
    """

    attention: Dense
    attention_out: Dense
    norm: tuple[Array, Array]
    expand: Dense
    contract: Dense
    norm_out: tuple[Array, Array]


def load_numpy() -> Any:  # noqa: ANN401 - a module without types
    """Import numpy so that it computes on one thread, and return it.

    To start a second thread takes longer than a query. The variables are set for the import only.

    Raises:
        ImportError: numpy is not installed.
    """
    old_values = {name: os.environ.get(name) for name in THREADS}
    os.environ.update({name: value or "1" for name, value in old_values.items()})
    try:
        import numpy as np
    finally:
        for name, value in old_values.items():
            if value is None:
                del os.environ[name]
    return np


class MiniLM:
    """The network.

    Its layers are dequantized when it is loaded. The table of words stays on disk; only the needed
    rows are read.
    """

    def __init__(self, path: Path) -> None:
        """Load the network from an ONNX file."""
        self._np = load_numpy()
        tensors = _read_tensors(path, self._np)
        self._words = tensors["inner.embeddings.word_embeddings.weight_q"]
        self._word_scales = tensors["inner.embeddings.word_embeddings.weight_scale"]
        positions = self._dequantize(tensors, "inner.embeddings.position_embeddings.weight")
        self._positions = positions + tensors["inner.embeddings.token_type_embeddings.weight"][0]
        self._norm = _get_norm(tensors, "inner.embeddings.LayerNorm")

        # The exporter named the matrices of the layers `val_1_q` and so on, in the order in which
        # they are used. The tensors are in the order of the file.
        matrices: list[Array] = []
        for name in tensors:
            if name.startswith("val_") and name.endswith("_q"):
                matrices.append(self._dequantize(tensors, name.removesuffix("_q")))
        self._layers: list[Layer] = []
        for number in range(LAYERS):
            first = number * MATRICES_PER_LAYER
            layer_matrices = matrices[first : first + MATRICES_PER_LAYER]
            self._layers.append(_make_layer(tensors, number, layer_matrices, self._np))

    def _dequantize(self, tensors: dict[str, Array], name: str) -> Array:
        """Return a matrix as floats: it is stored as small integers, with a scale for each row."""
        return self._np.multiply(tensors[f"{name}_q"], tensors[f"{name}_scale"], dtype="<f4")

    def embed(self, token_ids: Sequence[Sequence[int]]) -> Array:
        """Return a float32 array [n, 384], each row the mean over the tokens of one text.

        The rows are not yet of length one. Texts of similar length are computed together: the
        shorter ones of a batch are padded.
        """
        rows = self._np.empty((len(token_ids), DIM), dtype="<f4")
        indices_by_length = sorted(range(len(token_ids)), key=lambda index: len(token_ids[index]))
        for start in range(0, len(indices_by_length), BATCH):
            indices = indices_by_length[start : start + BATCH]
            rows[indices] = self._embed_batch([token_ids[index] for index in indices])
        return rows

    def _embed_batch(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return the mean output of the network over the tokens of each text.

        Shorter texts are padded with token 0 to the length of the longest. Padding gets no
        attention and does not count in the mean.

        Args:
            texts: the token ids of each text.

        Returns:
            An array [texts, 384].
        """
        np = self._np
        width = max(len(text) for text in texts)
        padded_texts = [[*text, *[0] * (width - len(text))] for text in texts]
        token_ids = np.array(padded_texts)  # [texts, width]
        mask = np.array(  # 1 for a token, 0 for padding.
            [[1.0] * len(text) + [0.0] * (width - len(text)) for text in texts], dtype="<f4"
        )
        attention_mask = ((mask - 1) * 1e9)[:, None, None, :]

        word_vectors = self._words[token_ids] * self._word_scales[token_ids]
        state = word_vectors + self._positions[:width]  # [texts, width, 384]
        state = self._normalize(state, self._norm)
        for layer in self._layers:
            attention = self._attend(state, layer, attention_mask)
            state = self._normalize(state + attention, layer.norm)
            hidden = _gelu(_apply(layer.expand, state), np)
            state = self._normalize(state + _apply(layer.contract, hidden), layer.norm_out)
        token_mask = mask[:, :, None]
        return (state * token_mask).sum(1) / mask.sum(1, keepdims=True)

    def _attend(self, state: Array, layer: Layer, attention_mask: Array) -> Array:
        """Return the output of the multi-head self-attention of a layer.

        Args:
            state: the input, an array [texts, tokens, 384].
            layer: the weights.
            attention_mask: is added to the scores: 0 for tokens, a large negative number for
                padding.
        """
        np = self._np
        count, width, _ = state.shape
        head_dim = DIM // HEADS
        joint = _apply(layer.attention, state)
        joint = joint.reshape(count, width, 3, HEADS, head_dim)
        query, key, value = joint.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / np.float32(head_dim**0.5) + attention_mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        mixed = mixed.transpose(0, 2, 1, 3).reshape(count, width, DIM)
        return _apply(layer.attention_out, mixed)

    def _normalize(self, state: Array, norm: tuple[Array, Array]) -> Array:
        weight, bias = norm
        centred = state - state.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        deviation = self._np.sqrt(variance + self._np.float32(EPSILON))
        return centred / deviation * weight + bias


def _apply(dense: Dense, state: Array) -> Array:
    """Return the output of a dense layer."""
    return state @ dense.weight + dense.bias


def _make_layer(
    tensors: dict[str, Array],
    number: int,
    matrices: Sequence[Array],
    np: Any,  # noqa: ANN401 - a module without types
) -> Layer:
    """Return a layer of the network. Its query, key and value are one matrix, for one product.

    Args:
        tensors: the tensors of the network by name.
        number: the number of the layer, from 0.
        matrices: its matrices: query, key, value, output of the attention, expansion, contraction.
        np: the module numpy.
    """
    name = f"inner.encoder.layer.{number}"
    biases = [tensors[f"{name}.attention.self.{part}.bias"] for part in ("query", "key", "value")]
    query, key, value, attention_out, expand, contract = matrices
    return Layer(
        attention=Dense(np.concatenate((query, key, value), axis=1), np.concatenate(biases)),
        attention_out=Dense(attention_out, tensors[f"{name}.attention.output.dense.bias"]),
        norm=_get_norm(tensors, f"{name}.attention.output.LayerNorm"),
        expand=Dense(expand, tensors[f"{name}.intermediate.dense.bias"]),
        contract=Dense(contract, tensors[f"{name}.output.dense.bias"]),
        norm_out=_get_norm(tensors, f"{name}.output.LayerNorm"),
    )


def _get_norm(tensors: dict[str, Array], name: str) -> tuple[Array, Array]:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _gelu(values: Array, np: Any) -> Array:  # noqa: ANN401
    """Return x times the share of a normal distribution below x.

    It is approximated by Abramowitz and Stegun 7.1.26 (error below 1.5e-7).
    """
    scaled = np.abs(values) * np.float32(0.5**0.5)
    part = 1 / (1 + np.float32(0.3275911) * scaled)
    series = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * part + np.float32(factor)
    tail = series * part * np.exp(-scaled * scaled)
    return values * np.float32(0.5) * (1 + np.sign(values) * (1 - tail))


def _read_tensors(path: Path, np: Any) -> dict[str, Array]:  # noqa: ANN401
    """Return the numeric tensors of an ONNX file by name, in its order.

    Their data are not copied: they stay in the memory map of the file. They are in the
    messages ModelProto, GraphProto and TensorProto of ONNX's protobuf format.
    """
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    tensors: dict[str, Array] = {}
    for number, graph in _read_fields(data):
        if number != GRAPH:
            continue
        for graph_number, tensor in _read_fields(graph):
            if graph_number != INITIALIZER:
                continue
            fields = list(_read_fields(tensor))
            by_number = dict(fields)
            if by_number[TYPE] in NUMPY_TYPES:
                flat = np.frombuffer(by_number[RAW], dtype=NUMPY_TYPES[by_number[TYPE]])
                name = bytes(by_number[NAME]).decode()
                tensors[name] = flat.reshape(_read_shape(fields))
    return tensors


def _read_shape(fields: Sequence[tuple[int, Any]]) -> list[int]:
    """Return the dimensions of a tensor, each in a field of its own, or all in one (packed)."""
    shape: list[int] = []
    for number, value in fields:
        if number == DIMS:
            shape += [value] if isinstance(value, int) else _read_varints(value)
    return shape


def _read_varints(data: memoryview) -> list[int]:
    values: list[int] = []
    offset = 0
    while offset < len(data):
        value, offset = _read_varint(data, offset)
        values.append(value)
    return values


def _read_fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message (https://protobuf.dev/programming-guides/encoding/).

    Each is (field number, value); the value is an integer, or the bytes of a value with a length.
    Fields of 8 or 4 bytes are skipped.
    """
    offset = 0
    while offset < len(data):
        tag, offset = _read_varint(data, offset)
        field_number = tag >> 3
        wire_type = tag & 7
        if wire_type == 0:  # VARINT
            value, offset = _read_varint(data, offset)
            yield field_number, value
        elif wire_type == 2:  # LEN
            size, offset = _read_varint(data, offset)
            yield field_number, data[offset : offset + size]
            offset += size
        else:  # I64 or I32
            offset += 8 if wire_type == 1 else 4


def _read_varint(data: memoryview, offset: int) -> tuple[int, int]:
    """Return an integer of variable length at an offset, and the offset after it.

    Each byte has seven bits, the lowest first; the highest bit of a byte says that another follows.
    """
    value = 0
    shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, offset
        shift += 7
