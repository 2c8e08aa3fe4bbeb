"""The vector lane: vectors of entries, kept in the index by the hash of their text, and the entries nearest to a task.

All vectors of one model stand in one row of the table `vectors`, so a search reads two blobs and compares with all
(10,000 entries: some milliseconds with numpy). There is no vector database, and numpy is loaded only here.
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
from memory_ci.search.rows import HASH_BYTES, located_of
from memory_ci.search.search import COLUMNS, RANKED_SCOPES, SHOWN_STATUSES, Filters, build_filter

FLOAT_BYTES = 4

MAX_AT_QUERY = 32
"""Entries that a query embeds itself, half a second of work; `memory-ci index --vectors` does the rest."""

LEAST_COVERAGE = 0.95
"""The share of entries that must have a vector. An entry without one counts as the farthest, so with fewer the two
lanes together find less than words alone (docs/embedders.md)."""

READ = "SELECT dim, hashes, length(data) FROM vectors WHERE model_id = ?"
READ_DATA = "SELECT data FROM vectors WHERE model_id = ?"
READ_MODELS = "SELECT model_id FROM vectors ORDER BY length(hashes) DESC, model_id"
WRITE = "INSERT OR REPLACE INTO vectors (model_id, dim, hashes, data) VALUES (?, ?, ?, ?)"
FORGET = "DELETE FROM vectors WHERE model_id = ? AND dim != ?"
LIST = "SELECT e.row, e.text_hash FROM entries AS e WHERE {filter} ORDER BY e.id, e.path, e.line"
LOOK_UP = (
    f"SELECT e.row, {COLUMNS} FROM entries AS e WHERE e.row IN (SELECT value FROM json_each(?))"  # noqa: S608
)
Place = tuple[str, int]  # Path and line of an entry: its id may stand in two files.
Listed = tuple[int, bytes]  # The row of an entry, and the hash of its text.


class StoredVectors(NamedTuple):
    """What is kept of a model: the dimension of its vectors, and of which texts they are, in the order of the data."""

    dim: int
    hashes: tuple[bytes, ...]


class Near(NamedTuple):
    """An entry and the cosine of its vector with that of the task, in [-1, 1]; 0 for a vector of zeros."""

    located: Located
    cosine: float


class Nearest(NamedTuple):
    """The nearest entries, best first, and of how many that passed the filters how many had a vector."""

    near: tuple[Near, ...]
    seen: int
    total: int


class VectorAnswer(NamedTuple):
    """What the lane found: cosines by place, best first, and the entries themselves. `reason` says why the lane is off
    (nothing matches) or what it could not see; "" when nothing is amiss."""

    matches: Mapping[Place, float]
    located: Mapping[Place, Located]
    reason: str


def vector_matches(
    index: Index, embedder: Embedder, text: str, *, depth: int = 200, **filters: Unpack[Filters]
) -> VectorAnswer:
    """The `depth` entries nearest to `text` in meaning, of those that `search` would look at with the same filters.

    A few entries without a vector are embedded first. Where more have none the lane is off, and nobody is asked for
    anything. A model that gives vectors of another dimension than before is another one under an old name: what it
    gave before is forgotten. Never raises for what an embedder does.
    """
    if not text.strip():
        return _off("")
    listed = _list(index, filters)
    lost, seen = _coverage(index, embedder.model_id, listed)
    if len(lost) - MAX_AT_QUERY > (1 - LEAST_COVERAGE) * len(listed):
        return _off(_lacking(seen, len(listed)))
    try:
        query = embedder.embed([text], "query")
    except EngineError as error:
        return _off(error.message)
    if not any(query.data):
        return _off(f"{embedder.model_id} gave the task a vector of zeros")
    if index.connection.execute(FORGET, (embedder.model_id, query.dim)).rowcount:
        return vector_matches(index, embedder, text, depth=depth, **filters)
    trouble = _embed_some(index, embedder, lost[:MAX_AT_QUERY])
    return _answer(_nearest(index, query, embedder.model_id, depth, listed), trouble)


def _answer(found: Nearest, trouble: str) -> VectorAnswer:
    lacking = _lacking(found.seen, found.total) if found.seen < found.total else ""
    reason = "; ".join(filter(None, (lacking, trouble)))
    if found.seen < LEAST_COVERAGE * found.total:
        return _off(reason)
    located = {(place.path, place.line): place for place, _ in found.near}
    return VectorAnswer(
        dict(zip(located, (cosine for _, cosine in found.near), strict=True)), located, reason
    )


def _off(reason: str) -> VectorAnswer:
    return VectorAnswer({}, {}, reason)


def _lacking(seen: int, total: int) -> str:
    return f"{seen} of {total} entries have vectors (`memory-ci index --vectors` embeds the rest)"


def nearest(
    index: Index, query: Vectors, model_id: str, depth: int = 200, **filters: Unpack[Filters]
) -> Nearest:
    """The `depth` entries whose vectors point the way of the one in `query`. Ties: by id, path and line. Vectors of
    another model or dimension are never compared: such an entry has none."""
    return _nearest(index, query, model_id, depth, _list(index, filters))


def _nearest(
    index: Index, query: Vectors, model_id: str, depth: int, listed: Sequence[Listed]
) -> Nearest:
    kept = _read(index, model_id)
    if kept.dim != query.dim:
        return Nearest((), 0, len(listed))
    return _pick(index, kept, _cosines(_read_data(index, model_id), query), depth, listed)


def _pick(
    index: Index,
    kept: StoredVectors,
    cosines: Sequence[float],
    depth: int,
    listed: Sequence[Listed],
) -> Nearest:
    """Of the entries listed the `depth` with the highest cosines."""
    cosine_of = dict(zip(kept.hashes, cosines, strict=True))
    known = [(row, cosine_of[name]) for row, name in listed if name in cosine_of]
    best = nlargest(max(1, depth), known, key=itemgetter(1))
    located = _look_up(index, [row for row, _ in best])
    return Nearest(
        tuple(Near(located[row], cosine) for row, cosine in best), len(known), len(listed)
    )


def nearest_to(
    index: Index, names: Sequence[bytes], depth: int, **filters: Unpack[Filters]
) -> dict[bytes, Nearest]:
    """What is nearest to the texts of these hashes, of those that have a vector. Nothing is embedded. Of several models
    the one is asked that has vectors of most texts."""
    model_id = next(iter(index.read(READ_MODELS, (), itemgetter(0))), None)
    kept = _read(index, model_id) if isinstance(model_id, str) else StoredVectors(0, ())
    if not isinstance(model_id, str) or not set(names) & set(kept.hashes):
        return {}
    data, listed = _read_data(index, model_id), _list(index, filters)
    rows = _by_hash(kept.hashes, data)
    own = {
        name: Vectors(kept.dim, _little_endian(array("f", rows[name])))
        for name in names
        if name in rows
    }
    return {
        name: _pick(index, kept, _cosines(data, vector), depth, listed)
        for name, vector in own.items()
    }


def missing(index: Index, model_id: str, **filters: Unpack[Filters]) -> dict[bytes, str]:
    """The hash and the text of each entry that could be served and has no vector of this model, each text once."""
    return _texts(index, _coverage(index, model_id, _list(index, filters))[0])


def store(index: Index, model_id: str, hashes: Sequence[bytes], vectors: Vectors) -> None:
    """Keep `vectors`, one for each of `hashes`, beside those that are there; those of texts that are gone go. Vectors
    of another dimension than the new ones are dropped: the model is not what it was."""
    kept = _read(index, model_id)
    rows = _by_hash(kept.hashes, _read_data(index, model_id)) if kept.dim == vectors.dim else {}
    rows |= _by_hash(hashes, _little_endian(vectors.data).tobytes())
    order = sorted(
        rows.keys() & {name for _, name in index.read(LIST.format(filter="TRUE"), (), _listed)}
    )
    values = (model_id, vectors.dim, b"".join(order), b"".join(rows[name] for name in order))
    index.connection.execute(WRITE, values)


def _list(index: Index, filters: Filters) -> list[Listed]:
    """What the lexical lane would look at."""
    shown = Filters(scopes=RANKED_SCOPES, statuses=SHOWN_STATUSES)
    shown.update(filters)
    condition, values = build_filter(shown)
    return index.read(LIST.format(filter=condition), values, _listed)


def _listed(row: tuple[Any, ...]) -> Listed:
    return row[0], row[1]


def _look_up(index: Index, rows: Sequence[int]) -> dict[int, Located]:
    return dict(index.read(LOOK_UP, (json.dumps(rows),), lambda row: (row[0], located_of(row[1:]))))


def _embed_some(index: Index, embedder: Embedder, lost: Sequence[Listed]) -> str:
    """Give these entries a vector; why that could not be done, or ""."""
    if not lost:
        return ""
    texts = _texts(index, lost)
    try:
        store(index, embedder.model_id, tuple(texts), embedder.embed(tuple(texts.values())))
    except EngineError as error:
        return error.message
    return ""


def _coverage(index: Index, model_id: str, listed: Sequence[Listed]) -> tuple[list[Listed], int]:
    """Those of `listed` whose text has no vector, one for each text; and how many have one."""
    known = set(_read(index, model_id).hashes)
    lost = {name: row for row, name in listed if name not in known}
    return [(row, name) for name, row in lost.items()], sum(name in known for _, name in listed)


def _texts(index: Index, listed: Sequence[Listed]) -> dict[bytes, str]:
    located = _look_up(index, [row for row, _ in listed])
    entries = ((name, located[row].entry) for row, name in listed)
    return {name: entry.text for name, entry in entries}


def _read(index: Index, model_id: str) -> StoredVectors:
    """What is kept of a model; nothing when the lengths do not agree, as in a file that was tampered with."""
    for dim, hashes, length in index.read(READ, (model_id,), tuple):
        if not isinstance(dim, int) or not isinstance(hashes, bytes):
            continue
        count, rest = divmod(len(hashes), HASH_BYTES)
        if not rest and dim > 0 and length == count * dim * FLOAT_BYTES:
            return StoredVectors(
                dim, tuple(hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES))
            )
    return StoredVectors(0, ())


def _read_data(index: Index, model_id: str) -> bytes:
    """The vectors of a model of which `_read` has found some, one after another."""
    (data,) = index.read(READ_DATA, (model_id,), itemgetter(0))
    return bytes(data)


def _by_hash(hashes: Sequence[bytes], data: bytes) -> dict[bytes, bytes]:
    width = len(data) // (len(hashes) or 1)
    return {name: data[place * width : (place + 1) * width] for place, name in enumerate(hashes)}


def _cosines(data: bytes, query: Vectors) -> list[float]:
    """The cosine of every kept vector with the query; all have length one, or none at all. No number counts as 0."""
    if importlib.util.find_spec("numpy") is None:
        products = _products(data, query)
    else:
        from memory_ci.search.embedders.minilm import load_numpy

        np = load_numpy()
        matrix = np.frombuffer(data, dtype="<f4").reshape(-1, query.dim)
        products = (matrix @ np.asarray(query.data, dtype="<f4")).tolist()
    return [value if math.isfinite(value) else 0.0 for value in products]


def _products(data: bytes, query: Vectors) -> list[float]:
    """The same without numpy, some hundred times slower."""
    numbers = _little_endian(array("f", data))
    starts = range(0, len(numbers), query.dim)
    return [sum(map(mul, numbers[start : start + query.dim], query.data)) for start in starts]


def _little_endian(data: array[float]) -> array[float]:
    """`data` with its bytes in the order of the table, or, from that order, in our own: the same swap."""
    copy = data[:]
    if sys.byteorder == "big":
        copy.byteswap()
    return copy
