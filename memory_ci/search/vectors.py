"""Search by vectors: store a vector for each entry, and find the entries nearest to a task.

Vectors are kept by the hash of their text. All vectors of one model are in one row of the table
`vectors`, so a search reads two blobs and compares with all (10,000 entries: some milliseconds with
numpy). There is no vector database, and numpy is loaded only here.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from heapq import nlargest
from operator import itemgetter, mul
from typing import Any, NamedTuple, Unpack

from memory_ci.errors import EngineError
from memory_ci.records.entry import Located
from memory_ci.search.database import Index
from memory_ci.search.embedders import Embedder, Vectors
from memory_ci.search.rank import EntryPlace
from memory_ci.search.rows import HASH_BYTES, read_entry_row
from memory_ci.search.search import COLUMNS, RANKED_SCOPES, SEARCHED_STATUSES, Filters, build_filter

FLOAT_BYTES = 4

MAX_EMBEDDED_BY_QUERY = 32
"""Entries that a query embeds itself, half a second of work.

`memory-ci index --vectors` embeds the rest.
"""

MIN_COVERAGE = 0.95
"""Share of entries that must have a vector.

An entry without one counts as the farthest, so with fewer vectors the searches by words and by
vectors together find less than the search by words alone (benchmarks/results/retrieval.md).
"""

READ_HASHES = "SELECT dim, hashes, length(data) FROM vectors WHERE model_id = ?"
READ_DATA = "SELECT data FROM vectors WHERE model_id = ?"
READ_MODELS = "SELECT model_id FROM vectors ORDER BY length(hashes) DESC, model_id"
WRITE = "INSERT OR REPLACE INTO vectors (model_id, dim, hashes, data) VALUES (?, ?, ?, ?)"
DELETE_OTHER_DIMENSION = "DELETE FROM vectors WHERE model_id = ? AND dim != ?"
LIST = "SELECT e.row, e.text_hash FROM entries AS e WHERE {filter} ORDER BY e.id, e.path, e.line"
READ_ENTRIES = (
    f"SELECT e.row, {COLUMNS} FROM entries AS e WHERE e.row IN (SELECT value FROM json_each(?))"  # noqa: S608
)
EntryHash = tuple[int, bytes]
"""The row number of an entry, and the hash of its text."""


class StoredVectors(NamedTuple):
    """The vectors of a model in the index.

    Attributes:
        dim: their dimension.
        hashes: the hashes of their texts, in the order of the data.
    """

    dim: int
    hashes: tuple[bytes, ...]


class NearEntry(NamedTuple):
    """An entry and the cosine of its vector with the vector of the task.

    The cosine is in [-1, 1]; 0 for a vector of zeros.
    """

    located: Located
    cosine: float


class Nearest(NamedTuple):
    """The nearest entries.

    Attributes:
        entries: the entries, best first.
        compared_count: how many entries that passed the filters have a vector.
        total: how many entries passed the filters.
    """

    entries: tuple[NearEntry, ...]
    compared_count: int
    total: int

    @property
    def is_covering(self) -> bool:
        """Whether enough entries have a vector for the nearest to be used."""
        return self.compared_count >= MIN_COVERAGE * self.total


class VectorAnswer(NamedTuple):
    """The result of the search by vectors.

    Attributes:
        matches: cosines by place, best first.
        located: the entries by place.
        reason: why there are no matches, or which entries could not be compared; "" otherwise.
    """

    matches: Mapping[EntryPlace, float]
    located: Mapping[EntryPlace, Located]
    reason: str


def search_vectors(
    index: Index, embedder: Embedder, text: str, *, depth: int = 200, **filters: Unpack[Filters]
) -> VectorAnswer:
    """Return the entries nearest to a text by the cosines of their vectors.

    A few entries without a vector are embedded first. If too many have none, the answer is empty,
    and the embedder is not called. A failure of the embedder is not raised, but is the reason of an
    empty answer. A model whose vectors have another dimension than before is a new one under an old
    name: its old vectors are deleted.

    Args:
        index: the index.
        embedder: the embedder.
        text: the task.
        depth: how many entries are returned at most.
        filters: conditions on entries, as for `search`.
    """
    if not text.strip():
        return _make_empty_answer("")
    entry_hashes = _list_entries(index, filters)
    missing_entries, covered_count = _find_missing_vectors(index, embedder.model_id, entry_hashes)
    total = len(entry_hashes)
    missing_after_embedding = len(missing_entries) - MAX_EMBEDDED_BY_QUERY
    max_missing = (1 - MIN_COVERAGE) * total
    if missing_after_embedding > max_missing:
        return _make_empty_answer(_describe_coverage(covered_count, total))

    try:
        query = embedder.embed([text], "query")
    except EngineError as error:
        return _make_empty_answer(error.message)
    if not any(query.data):
        return _make_empty_answer(f"{embedder.model_id} gave the task a vector of zeros")
    deletion = index.connection.execute(DELETE_OTHER_DIMENSION, (embedder.model_id, query.dim))
    if deletion.rowcount > 0:  # Now all entries lack a vector: begin again.
        return search_vectors(index, embedder, text, depth=depth, **filters)

    error_message = _embed_entries(index, embedder, missing_entries[:MAX_EMBEDDED_BY_QUERY])
    nearest = _find_nearest(index, query, embedder.model_id, depth, entry_hashes)
    return _make_answer(nearest, error_message)


def _make_answer(nearest: Nearest, error_message: str) -> VectorAnswer:
    """Return the answer of the search by vectors, empty if too few entries have a vector.

    Args:
        nearest: the nearest entries.
        error_message: why entries without a vector could not be embedded; "" if they were.
    """
    reasons: list[str] = []
    if nearest.compared_count < nearest.total:
        reasons.append(_describe_coverage(nearest.compared_count, nearest.total))
    if error_message:
        reasons.append(error_message)
    reason = "; ".join(reasons)
    if not nearest.is_covering:
        return _make_empty_answer(reason)

    matches: dict[EntryPlace, float] = {}
    located_entries: dict[EntryPlace, Located] = {}
    for located, cosine in nearest.entries:
        place = (located.path, located.line)
        matches[place] = cosine
        located_entries[place] = located
    return VectorAnswer(matches, located_entries, reason)


def _make_empty_answer(reason: str) -> VectorAnswer:
    return VectorAnswer({}, {}, reason)


def _describe_coverage(covered: int, total: int) -> str:
    return (
        f"{covered} of {total} entries have vectors (`memory-ci index --vectors` embeds the rest)"
    )


def find_nearest(
    index: Index, query: Vectors, model_id: str, depth: int = 200, **filters: Unpack[Filters]
) -> Nearest:
    """Return the entries whose vectors have the highest cosine with a query.

    Ties are broken by id, path and line. An entry that has only vectors of another model or
    dimension counts as one without.

    Args:
        index: the index.
        query: the vector to compare with.
        model_id: the model of the query.
        depth: how many entries are returned at most.
        filters: conditions on entries, as for `search`.
    """
    return _find_nearest(index, query, model_id, depth, _list_entries(index, filters))


def _find_nearest(
    index: Index, query: Vectors, model_id: str, depth: int, entry_hashes: Sequence[EntryHash]
) -> Nearest:
    """Return, of some entries, those with the highest cosine with a query.

    Args:
        index: the index.
        query: the vector to compare with.
        model_id: the model of the query.
        depth: how many entries are returned at most.
        entry_hashes: the rows of the entries to compare, and the hashes of their texts.
    """
    stored_vectors = _read_vectors(index, model_id)
    if stored_vectors.dim != query.dim:
        return Nearest((), compared_count=0, total=len(entry_hashes))
    cosines = _compute_cosines(_read_data(index, model_id), query)
    return _choose_nearest(index, stored_vectors, cosines, depth, entry_hashes)


def _choose_nearest(
    index: Index,
    stored_vectors: StoredVectors,
    cosines: Sequence[float],
    depth: int,
    entry_hashes: Sequence[EntryHash],
) -> Nearest:
    """Return, of some entries, the `depth` with the highest cosines.

    Args:
        index: the index, from which these entries are read.
        stored_vectors: the hashes of the stored vectors.
        cosines: the cosine of each stored vector with the query, in the same order.
        depth: how many entries are returned at most.
        entry_hashes: the rows of the entries to compare, and the hashes of their texts.
    """
    cosine_by_hash = dict(zip(stored_vectors.hashes, cosines, strict=True))
    candidates: list[tuple[int, float]] = []
    for row, text_hash in entry_hashes:
        if text_hash in cosine_by_hash:
            candidates.append((row, cosine_by_hash[text_hash]))
    best = nlargest(max(1, depth), candidates, key=itemgetter(1))
    located_by_row = _read_entries(index, [row for row, _cosine in best])
    near_entries = tuple(NearEntry(located_by_row[row], cosine) for row, cosine in best)
    return Nearest(near_entries, compared_count=len(candidates), total=len(entry_hashes))


def find_nearest_to_texts(
    index: Index, hashes: Sequence[bytes], depth: int, **filters: Unpack[Filters]
) -> dict[bytes, Nearest]:
    """Return the entries nearest to each of several texts that have a vector, by hash of the text.

    Nothing is embedded: the vectors of the model that has most vectors in the index are compared.

    Args:
        index: the index.
        hashes: the hashes of the texts.
        depth: how many entries are returned for each at most.
        filters: conditions on entries, as for `search`.
    """
    model_id = next(iter(index.read(READ_MODELS, (), itemgetter(0))), None)
    if not isinstance(model_id, str):
        return {}
    stored_vectors = _read_vectors(index, model_id)
    if set(hashes).isdisjoint(stored_vectors.hashes):
        return {}

    all_vectors = _read_data(index, model_id)
    entry_hashes = _list_entries(index, filters)
    vector_by_hash = _split_by_hash(stored_vectors.hashes, all_vectors)
    nearest_by_hash: dict[bytes, Nearest] = {}
    for text_hash in hashes:
        if text_hash not in vector_by_hash:
            continue
        # In the index numbers are little-endian; a query has them in the order of this machine.
        query_data = _swap_to_little_endian(array("f", vector_by_hash[text_hash]))
        cosines = _compute_cosines(all_vectors, Vectors(stored_vectors.dim, query_data))
        nearest_by_hash[text_hash] = _choose_nearest(
            index, stored_vectors, cosines, depth, entry_hashes
        )
    return nearest_by_hash


def list_missing_texts(index: Index, model_id: str, **filters: Unpack[Filters]) -> dict[bytes, str]:
    """Return the texts that could be served and have no vector of this model, by hash."""
    entry_hashes = _list_entries(index, filters)
    missing_entries, _ = _find_missing_vectors(index, model_id, entry_hashes)
    return _read_texts(index, missing_entries)


def store_vectors(index: Index, model_id: str, hashes: Sequence[bytes], vectors: Vectors) -> None:
    """Add vectors to the vectors of a model, and delete vectors of texts that are gone.

    Stored vectors of another dimension are deleted as well: the model is not the same.

    Args:
        index: the index.
        model_id: the model.
        hashes: the hash of the text of each vector.
        vectors: the vectors.
    """
    stored_vectors = _read_vectors(index, model_id)
    bytes_by_hash: dict[bytes, bytes] = {}
    if stored_vectors.dim == vectors.dim:
        bytes_by_hash = _split_by_hash(stored_vectors.hashes, _read_data(index, model_id))
    bytes_by_hash |= _split_by_hash(hashes, _swap_to_little_endian(vectors.data).tobytes())

    entry_hashes = index.read(LIST.format(filter="TRUE"), (), _read_entry_hash)
    present_hashes = {text_hash for _row, text_hash in entry_hashes}
    kept_hashes = sorted(bytes_by_hash.keys() & present_hashes)
    data = b"".join(bytes_by_hash[text_hash] for text_hash in kept_hashes)
    index.connection.execute(WRITE, (model_id, vectors.dim, b"".join(kept_hashes), data))


def _list_entries(index: Index, filters: Filters) -> list[EntryHash]:
    """Return the rows and text hashes of the entries that the search by words would search."""
    searched = Filters(scopes=RANKED_SCOPES, statuses=SEARCHED_STATUSES)
    searched.update(filters)
    condition, values = build_filter(searched)
    return index.read(LIST.format(filter=condition), values, _read_entry_hash)


def _read_entry_hash(row: tuple[Any, ...]) -> EntryHash:
    return row[0], row[1]


def _read_entries(index: Index, rows: Sequence[int]) -> dict[int, Located]:
    """Return the entries in these rows."""
    return dict(
        index.read(READ_ENTRIES, (json.dumps(rows),), lambda row: (row[0], read_entry_row(row[1:])))
    )


def _embed_entries(index: Index, embedder: Embedder, entry_hashes: Sequence[EntryHash]) -> str:
    """Embed entries and store their vectors; return why that failed, or ""."""
    if not entry_hashes:
        return ""
    texts = _read_texts(index, entry_hashes)
    try:
        vectors = embedder.embed(tuple(texts.values()))
        store_vectors(index, embedder.model_id, tuple(texts), vectors)
    except EngineError as error:
        return error.message
    return ""


def _find_missing_vectors(
    index: Index, model_id: str, entry_hashes: Sequence[EntryHash]
) -> tuple[list[EntryHash], int]:
    """Find the texts of entries that have no vector of a model.

    Returns:
        One entry for each such text, and the number of entries that have a vector.
    """
    stored_hashes = set(_read_vectors(index, model_id).hashes)
    # Entries with equal texts share a vector: one of them is enough.
    row_by_missing_hash = {
        text_hash: row for row, text_hash in entry_hashes if text_hash not in stored_hashes
    }
    missing_entries = [(row, text_hash) for text_hash, row in row_by_missing_hash.items()]
    covered_count = sum(text_hash in stored_hashes for _row, text_hash in entry_hashes)
    return missing_entries, covered_count


def _read_texts(index: Index, entry_hashes: Sequence[EntryHash]) -> dict[bytes, str]:
    """Return the texts of entries by hash."""
    located_by_row = _read_entries(index, [row for row, _ in entry_hashes])
    return {hash_: located_by_row[row].entry.text for row, hash_ in entry_hashes}


def _read_vectors(index: Index, model_id: str) -> StoredVectors:
    """Return the dimension and the hashes of the stored vectors of a model.

    Return no vectors if the stored lengths do not agree, as after tampering.
    """
    for dim, hashes, data_length in index.read(READ_HASHES, (model_id,), tuple):
        if not isinstance(dim, int) or not isinstance(hashes, bytes):
            continue
        count, remainder = divmod(len(hashes), HASH_BYTES)
        if not remainder and dim > 0 and data_length == count * dim * FLOAT_BYTES:
            starts = range(0, len(hashes), HASH_BYTES)
            return StoredVectors(dim, tuple(hashes[start : start + HASH_BYTES] for start in starts))
    return StoredVectors(0, ())


def _read_data(index: Index, model_id: str) -> bytes:
    """Return the vectors of a model that has some, one after another."""
    (data,) = index.read(READ_DATA, (model_id,), itemgetter(0))
    return bytes(data)


def _split_by_hash(hashes: Sequence[bytes], data: bytes) -> dict[bytes, bytes]:
    """Return the bytes of each vector by the hash of its text.

    Args:
        hashes: the hash of the text of each vector, in the order of the data.
        data: all vectors, one after another.
    """
    width = len(data) // (len(hashes) or 1)
    return {
        text_hash: data[number * width : (number + 1) * width]
        for number, text_hash in enumerate(hashes)
    }


def _compute_cosines(data: bytes, query: Vectors) -> list[float]:
    """Return the cosine of every stored vector with the query; 0 if it is no number.

    All vectors have length one, or zero.
    """
    if importlib.util.find_spec("numpy") is None:
        products = _compute_products(data, query)
    else:
        from memory_ci.search.embedders.minilm import load_numpy

        np = load_numpy()
        matrix = np.frombuffer(data, dtype="<f4").reshape(-1, query.dim)
        products = (matrix @ np.asarray(query.data, dtype="<f4")).tolist()
    return [value if math.isfinite(value) else 0.0 for value in products]


def _compute_products(data: bytes, query: Vectors) -> list[float]:
    """Return the dot products without numpy, some hundred times slower."""
    numbers = _swap_to_little_endian(array("f", data))
    starts = range(0, len(numbers), query.dim)
    return [sum(map(mul, numbers[start : start + query.dim], query.data)) for start in starts]


def _swap_to_little_endian(data: array[float]) -> array[float]:
    """Return numbers of this machine with their bytes in little-endian order, as in the index.

    The swap is its own inverse: numbers of the index become numbers of this machine.
    """
    copy = data[:]
    if sys.byteorder == "big":
        copy.byteswap()
    return copy
